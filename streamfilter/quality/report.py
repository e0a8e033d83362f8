"""The result of an evaluation: counts and a few examples."""

from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct, field, to_builtins

from streamfilter.process.terminal_escapes import inline
from streamfilter.similarity.estimators import Estimate, share_of_families
from streamfilter.stops import counted

EXAMPLES_MAX = 5  # errors of each kind that a report shows


class Example(Struct, frozen=True):
    """One error, as an example for the reader."""

    kind: str
    id: str
    other: str
    similarity: float | None  # true similarity; None: below the floor of the truth
    claimed: float | None = None  # similarity that the evidence states

    def __str__(self) -> str:
        low = self.similarity is None
        true = "below the truth's floor" if low else f"{self.similarity:.3f}"
        claimed = "" if self.claimed is None else f", claimed {self.claimed:.3f}"
        two = f"{inline(self.id)}  with {inline(self.other)}"
        return f"  {self.kind:<8} {two}  (J {true}{claimed})"


class Tally(Struct):
    """A share of documents, counted by family: verdicts within a family are not independent."""

    good: Counter[int] = field(default_factory=Counter)
    of: Counter[int] = field(default_factory=Counter)

    def add(self, family: int, *, good: bool) -> None:
        self.of[family] += 1
        self.good[family] += good

    @property
    def counts(self) -> tuple[int, int]:
        return self.good.total(), self.of.total()

    @property
    def share(self) -> Estimate | None:
        """Return the share with its 95 % interval; None without documents."""
        good = np.array([self.good[family] for family in self.of], np.int64)
        return share_of_families(good, np.array(list(self.of.values()), np.int64))

    def as_json(self, good: str) -> dict[str, Any]:
        """Return it as JSON values; *good* is the name of the good documents."""
        share, (many, of) = self.share, self.counts
        return {
            "share": share.value if share else None,
            "interval": [share.lower, share.upper] if share else None,
            "of": of,
            good: many,
            "families": len(self.of),
        }

    def __str__(self) -> str:
        """Return the share with its 95 % interval; a dash without documents."""
        share = self.share
        if share is None:
            return "  –   "
        return f"{share.value:.4f}, 95 % interval {share.lower:.4f} to {share.upper:.4f}"

    def counts_as_text(self) -> str:
        many, of = self.counts
        return f"{many:,} of {counted(of, 'document')} in {counted(len(self.of), 'family')}"


_NAMES = {"same_id": "ids", "same_field": "fields"}


class Report(Struct):
    """The counts of an evaluation; a share is None if no document counts for it."""

    given: int = 0
    recall_from: float = 0.0
    precision_from: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)
    missing: int = 0  # records that are in no output, although no policy drops them
    extra: int = 0  # output records without an input: more came out than went in
    ambiguous: int = 0
    """Readable records whose id is not unique; they are not judged against the truth."""
    unknown: int = 0  # ids of the truth that were not in the input
    seeded: int = 0  # documents withheld for a seeded one that the truth does not have
    unmeasured: int = 0  # documents withheld for containment, if the truth has similarities only
    by_name: Counter[str] = field(default_factory=Counter)
    """Documents withheld for their ids or fields alone (``input.known_id: duplicate``,
    ``verify.also_same``), by method."""
    recalled: Tally = field(default_factory=Tally)
    """Documents with a similar earlier document that was kept; good: withheld."""
    precise: Tally = field(default_factory=Tally)
    """Withheld documents; good: the match is similar enough."""
    self_matches: int = 0
    later_matches: int = 0
    unkept_matches: int = 0
    """Withheld documents without a match, and matches that are unknown or were not forwarded."""
    buckets: dict[int, list[int]] = field(default_factory=dict)
    """Tenth of similarity to the best earlier kept document → [documents, withheld]."""
    examples: list[Example] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        """Return the share of the expected documents that were withheld."""
        share = self.recalled.share
        return share.value if share else None

    @property
    def precision(self) -> float | None:
        """Return the share of the withheld documents that were rightly withheld."""
        share = self.precise.share
        return share.value if share else None

    @property
    def sound(self) -> bool:
        """Return True if every record is in exactly one output and no match is impossible."""
        broken = self.missing + self.extra + self.self_matches + self.later_matches
        return not broken and not self.unkept_matches

    def example(self, example: Example) -> None:
        """Keep *example*, unless there are `EXAMPLES_MAX` of its kind."""
        if sum(known.kind == example.kind for known in self.examples) < EXAMPLES_MAX:
            self.examples.append(example)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values; a share of nothing is null."""
        return {
            "sound": self.sound,
            "records": self.given,
            "verdicts": dict(sorted(self.verdicts.items())),
            "missing": self.missing,
            "extra": self.extra,
            "self_matches": self.self_matches,
            "later_matches": self.later_matches,
            "unkept_matches": self.unkept_matches,
            "recall": self.recalled.as_json("found"),
            "precision": self.precise.as_json("right"),
            "ambiguous_ids": self.ambiguous,
            "unknown_ids": self.unknown,
            "seeded": self.seeded,
            "unmeasured": self.unmeasured,
            **{
                f"withheld_by_{method.removeprefix('same_')}": count
                for method, count in sorted(self.by_name.items())
            },
            "buckets": [
                {"from": tenth / 10, "documents": documents, "withheld": withheld}
                for tenth, (documents, withheld) in sorted(self.buckets.items())
            ],
            "examples": [to_builtins(each) for each in self.examples],
        }

    def passes(self, min_recall: float, min_precision: float) -> bool:
        """Return True if nothing is broken and no share too low; a share of nothing is not."""
        shares = (self.recall, min_recall), (self.precision, min_precision)
        return self.sound and all(share is None or share >= least for share, least in shares)

    def as_text(self) -> str:
        recall_from, precision_from = self.recall_from, self.precision_from
        verdicts = [f"{count:,} {verdict}" for verdict, count in sorted(self.verdicts.items())]
        lines = [
            f"conservation   {self._conservation()}",
            f"matches        {self._matches()}",
            f"recall         {self.recalled}  ({self.recalled.counts_as_text()} whose best earlier "
            f"kept document has J >= {recall_from:g})",
            f"precision      {self.precise}  ({self.precise.counts_as_text()} that were withheld, "
            f"whose match has J >= {precision_from:g})",
            f"verdicts       {', '.join(verdicts)}",
        ]
        if self.ambiguous:
            shared = counted(self.ambiguous, "document")
            lines.append(f"not judged     {shared} with an id that another one has")
        if self.seeded:
            seeded = counted(self.seeded, "document")
            lines.append(f"not judged     {seeded} withheld for one of a seed: TRUTH lacks its id")
        if self.unmeasured:
            unmeasured = counted(self.unmeasured, "document")
            lines.append(f"not judged     {unmeasured} withheld for containment: TRUTH has only J")
        for method, count in sorted(self.by_name.items()):
            what = f"{counted(count, 'document')} withheld for their {_NAMES[method]}"
            lines.append(f"not judged     {what}")
        if self.unknown:
            lines.append(f"not given      {counted(self.unknown, 'id')} of the truth")
        lines += ["", "best earlier kept   documents   withheld   share"]
        for tenth, (documents, withheld) in sorted(self.buckets.items()):
            label = f"{tenth / 10:.1f} to {tenth / 10 + 0.1:.1f}" if tenth < 10 else "1.0"
            lines.append(f"{label:<17}{documents:>12,}{withheld:>11,}{withheld / documents:>8.1%}")
        errors = ["", "errors (some)", *map(str, self.examples)] if self.examples else []
        return "\n".join([*lines, *errors])

    def _conservation(self) -> str:
        given = counted(self.given, "record")
        if not self.missing + self.extra:
            return f"ok  ({given}, each in exactly one place)"
        return f"BROKEN  ({self.missing:,} lost, {self.extra:,} too many, of {given})"

    def _matches(self) -> str:
        if not self.self_matches + self.later_matches + self.unkept_matches:
            return "ok  (none with itself, a later document, or one that was withheld)"
        return (
            f"BROKEN  ({self.self_matches:,} with itself, {self.later_matches:,} with a later "
            f"document, {self.unkept_matches:,} with one that was not kept)"
        )
