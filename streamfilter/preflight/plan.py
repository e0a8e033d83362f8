"""What a shape of keys finds and costs: the answer of `plan`, before anything is built."""

from datetime import timedelta
from itertools import islice

import numpy as np
from msgspec import Struct, to_builtins

from streamfilter.config.configuration import Config
from streamfilter.config.settings.types import format_duration, format_size
from streamfilter.files.inputs import documents_of, for_files
from streamfilter.files.summary import all_broken, no_documents
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.model import Malformed
from streamfilter.monitoring.capacity import PASSING_MUCH, Capacity
from streamfilter.monitoring.curve_picture import Curve, picture
from streamfilter.preflight.load import LoadPlan
from streamfilter.quality.sample.brute_force import all_pairs
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.stops import counted

WIDTH = 40  # characters of the longest bar of the curve
CONTAINED, RATIOS = 0.9, (1.2, 2.0)
"""Examples for `verify.containment`: a containment, and two ratios of the longer text's size."""

SAMPLE_RECORDS = 2_000
"""Records of ``--sample`` that are compared with each other: two million pairs."""
FLOOR = 1e-6  # all pairs that share a shingle


class ShapeCounts(Struct, frozen=True):
    """The expected results of a shape on all pairs of a sample, by their exact similarities."""

    documents: int
    broken: int  # records before the last of them that could not be read
    similar: int  # pairs at or above the threshold
    missed: float | None  # share of these that is expected to share no key; None without any
    extra: float
    """Share of the other pairs that is expected to share a key, and is compared in vain."""
    candidates: float  # expected candidates of a document among the earlier ones of the sample


def count_sample(shape: Shape, threshold: float, path: str, config: Config) -> ShapeCounts:
    """Count over *path* what cannot be known without documents: how similarities are spread."""
    config = for_files(config, [path])
    broken: list[Malformed] = []
    found = documents_of([path], config, rejected=lambda _, malformed: broken.append(malformed))
    texts = [each.text for each in islice(found, SAMPLE_RECORDS)]
    if not texts:
        raise all_broken(len(broken)) if broken else no_documents(path)
    sketcher = Sketcher(config.scheme(), seed=MEASURING)
    similarity = all_pairs(texts, sketcher, floor=FLOOR).similarity
    curve = np.array(shape.curve(1_000))
    chances = np.interp(similarity, curve[:, 0], curve[:, 1])
    similar = similarity >= threshold
    others = len(texts) * (len(texts) - 1) // 2 - int(similar.sum())
    return ShapeCounts(
        documents=len(texts),
        broken=len(broken),
        similar=int(similar.sum()),
        missed=float((1 - chances[similar]).mean()) if similar.any() else None,
        extra=float(chances[~similar].sum()) / max(others, 1),
        candidates=float(chances.sum()) / len(texts),
    )


class ShapePlan(Struct, frozen=True):
    """A shape, what it finds, and how large an index of it becomes."""

    shape: Shape
    threshold: float
    recall: float  # the share of the pairs at the threshold that is wanted
    seen: ShapeCounts | None = None
    capacity: Capacity | None = None
    load: LoadPlan | None = None

    @property
    def name(self) -> str:
        kind = "keys" if self.shape.layout == "random" else "bands"
        return f"{self.shape.bands} {kind} x {self.shape.rows} rows"

    def as_json(self) -> dict[str, object]:
        shape, seen, takes = self.shape, self.seen, self.capacity
        memory = to_builtins(takes) | {"restore": takes.restore.total_seconds()} if takes else {}
        return {
            **to_builtins(shape),
            "threshold": self.threshold,
            "recall_at_threshold": shape.probability(self.threshold),
            "assumed": "similarities spread evenly" if seen is None else None,
            "false_negatives": seen.missed if seen else shape.false_negatives(self.threshold),
            "false_positives": seen.extra if seen else shape.false_positives(self.threshold),
            **({"sample": to_builtins(seen)} if seen else {}),
            "bytes_per_million_documents": shape.bytes_per_document() * 1_000_000,
            "curve": [{"similarity": s, "candidate_probability": p} for s, p in shape.curve()],
            **({"memory": memory} if takes else {}),
            **({"load": to_builtins(self.load)} if self.load else {}),
        }

    def as_text(self) -> str:
        shape, at = self.shape, self.threshold
        one = Shape(1, shape.rows, shape.slots, shape.layout)
        contained = ", ".join(f"{shape.contained(CONTAINED, x):.2f} in {x:g} times" for x in RATIOS)
        lines = [
            f"{self.name} of {shape.slots} slots, threshold {at}",
            f"  finds {shape.probability(at):.4f} of the pairs at the threshold (wanted "
            f"{self.recall}); one key finds {one.probability(at):.4f}",
            *self._about_pairs(),
            f"  if {CONTAINED:.0%} of a text is in another: finds {contained} its size",
            f"  disk: about {shape.bytes_per_document() / 1000:.2f} GB per million documents of "
            "170 shingles",
            *(self.load.as_text() if self.load else ()),
            *self._about_capacity(),
        ]
        return "\n".join([*lines, "", "  similarity  candidate", *self._curve()])

    def picture(self, format: str) -> bytes:
        return picture(
            title=f"Which pairs share a key: {self.name}",
            lines=[Curve(self.name, self.shape.curve(200))],
            threshold=self.threshold,
            format=format,
        )

    def _curve(self) -> list[str]:
        lines = []
        for similarity, probability in self.shape.curve():
            mark = "<- threshold" if similarity == self.threshold else ""
            bar = f"{'#' * round(probability * WIDTH):<{WIDTH}}"
            lines.append(f"  {similarity:>10.2f}  {probability:9.4f}  {bar} {mark}".rstrip())
        return lines

    def _about_pairs(self) -> list[str]:
        """Return the shares that are missed and compared in vain; they depend on the documents."""
        seen = self.seen
        if seen is None:
            missed = self.shape.false_negatives(self.threshold)
            extra = self.shape.false_positives(self.threshold)
            return [
                f"  misses {missed:.4f} of the pairs above it, if they spread evenly",
                f"  compares {extra:.4f} of the pairs below it in vain, if they spread evenly; in "
                "most texts nearly all lie near 0",
                "    and it is one in thousands: --sample FILE counts it",
            ]
        broken = f" ({counted(seen.broken, 'record')} not readable)" if seen.broken else ""
        known = seen.missed is not None
        missing = (
            f"{seen.missed:.4f} of them are missed" if known else "the missed share is unknown"
        )
        return [
            f"  sample of {counted(seen.documents, 'document')}{broken}: "
            f"{counted(seen.similar, 'pair')} at the threshold or above; {missing}",
            f"  compares {seen.extra:.2g} of the pairs below it in vain",
            f"  a document has {seen.candidates:.3f} candidates among the earlier ones",
        ]

    def _about_capacity(self) -> list[str]:
        found = self.capacity
        if found is None:
            return []
        lines = [
            f"  remembers {counted(found.documents, 'document')}, if all that arrive are unique; a "
            "quarter more are stored (twice as many for a while after a limit was raised)",
            f"    disk: about {found.disk_bytes / 1e9:,.2f} GB (some of it twice while files are "
            "merged)",
            f"    memory: about {found.memory_bytes / 1e9:,.2f} GB, without clients and batches",
            f"    changelog: about {found.changelog_bytes / 1e9:,.2f} GB for each replica, from "
            "the oldest window on",
            f"    restore from it into an empty directory: about {_rough(found.restore)}",
        ]
        if found.front_passes > PASSING_MUCH:
            lines.append(
                f"    to save time, set memory.miss_filter={format_size(found.front_bytes_advised)}"
                f": as configured, {found.front_passes:.0%} of the new keys are read from disk"
            )
        return lines


def _rough(duration: timedelta) -> str:
    """Return a duration that a person can compare."""
    seconds = duration.total_seconds()
    unit = next(each for each in (3_600, 60, 1) if seconds >= 2 * each or each == 1)
    return format_duration(timedelta(seconds=max(1, round(seconds / unit)) * unit))
