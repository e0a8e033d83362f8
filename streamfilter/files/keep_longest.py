"""Which member of a group of duplicates is kept: the first, or the longest.

A stream must forward the first one, because later records are not known yet. Files can be read
twice. First `filter_files` forms the groups as usual, with the evidence. Then a second reading
swaps the longest text of each group with its first.

The evidence of a duplicate still names the document that it was verified against. Its ``kept``
names the document that was written instead. All members are similar to the group's first
document, not necessarily to each other.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.reader import Reader
from streamfilter.files.formats.lines import lines_of
from streamfilter.files.inputs import check_evidence, check_read_again, opened, records_in
from streamfilter.files.outputs import AS_THEY_WERE, Outputs
from streamfilter.files.run import FileRun, check_paths, filter_files, no_progress
from streamfilter.files.state import scratch
from streamfilter.files.summary import Summary
from streamfilter.matching.verdict import envelope
from streamfilter.model import Document, Record, Source
from streamfilter.stops import ExitCode, Stop, Temporary

KEEPS = ("first", "longest")  # values of the option: the member of a group that is kept


class _Groups(Struct):
    """The groups of a finished run with more than one member."""

    first_of: dict[Source, Source] = field(default_factory=dict)  # of each member
    evidence: dict[Source, dict[str, Any]] = field(default_factory=dict)  # of all but the first
    characters: dict[Source, int] = field(default_factory=dict)
    kept: dict[Source, Source] = field(default_factory=dict)
    """First member → the member that is kept."""

    def add(self, evidence: dict[str, Any]) -> None:
        duplicate, first = _source(evidence["source"]), _source(evidence["matches"][0])
        self.first_of[duplicate] = self.first_of[first] = first
        self.evidence[duplicate] = evidence

    @property
    def measured(self) -> bool:
        return len(self.characters) == len(self.first_of)

    def measure(self, record: Record, reader: Reader) -> None:
        """Note the length of a member; the longest so far is kept, the oldest among equals."""
        source = record.source
        if source not in self.first_of or not isinstance(reading := reader.read(record), Document):
            return
        self.characters[source] = len(reading.text)
        best = self.kept.setdefault(self.first_of[source], source)
        if self.characters[source] > self.characters[best]:
            self.kept[self.first_of[source]] = source


def filter_keeping_longest(
    config: Config, job: FileRun, *, advanced: Callable[[int], None] = no_progress
) -> Summary:
    """Run *job*, and keep the longest text of each group; raise `Stop` as `filter_files` does.

    Also refused: a job with a state, and an input that cannot be read twice or has changed.
    """
    if job.state is not None or job.shadow:
        raise Stop(
            "--keep longest knows a group by the whole input: leave --state and output.mode "
            "shadow out",
            exit_code=ExitCode.USAGE,
        )
    check_read_again(job.inputs, who="--keep longest")
    outputs = [job.unique, job.duplicates, job.dead_letter]
    check_paths(job.inputs, [path for path in outputs if path is not None])
    check_evidence(*outputs[1:])
    reader = reader_for(config)
    with scratch() as directory, opened(job.inputs[:1], config, reader, job.unique) as (first,):
        names = ("unique", "duplicates", "dead")
        unique, duplicates, dead = (directory / name for name in names)
        dead_letter = None if job.dead_letter is None else str(dead)
        decided = replace(
            job, unique=str(unique), duplicates=str(duplicates), dead_letter=dead_letter
        )
        summary = filter_files(config, decided, advanced=advanced)
        groups = _Groups()
        for record in lines_of(str(duplicates)):
            groups.add(json.loads(record.value or b"{}"))
        for record in records_in(job.inputs, config):
            groups.measure(record, reader)
        if not groups.measured:
            raise _changed(job)
        paths = job.unique, job.duplicates, job.dead_letter
        with Outputs(*paths, writer=first.writer) as written:
            placed = _place(job, config, groups, unique, written)
            if placed != summary.places["unique"] + summary.places["duplicates"]:
                raise _changed(job)
            if written.dead_letter is not None:
                for record in lines_of(str(dead)):
                    written.dead_letter.write(record.value or b"")
            written.publish()
    return summary


def _changed(job: FileRun) -> Temporary:
    return Temporary(
        f"{' or '.join(job.inputs)} changed before it was read again, so the verdicts may "
        "belong to other lines\n"
        f"    what stays: {AS_THEY_WERE}\n"
        "    cure: run it again when no program writes to it"
    )


def _place(job: FileRun, config: Config, groups: _Groups, unique: Path, outputs: Outputs) -> int:
    """Write each record to its output, in input order; return the number written."""
    placed = 0
    forwarded = (record.value for record in records_in([str(unique)], config))
    waiting = next(forwarded, None)
    for record in records_in(job.inputs, config):
        first = groups.first_of.get(record.source)
        # Equal lines outside any group share one outcome: all are forwarded, dropped or broken.
        comes_out = record.value == waiting and first in (None, record.source)
        if comes_out:
            waiting = next(forwarded, None)
        if first is not None and groups.kept[first] != record.source:
            found = _evidence(groups, record, first)
            outputs.duplicates.write(envelope.encode(found))
        elif first is not None or comes_out:
            outputs.unique.add([record])
        else:
            continue
        placed += 1
    return placed


def _evidence(groups: _Groups, record: Record, first: Source) -> dict[str, Any]:
    kept = groups.kept[first]
    own = groups.evidence.get(record.source)
    if own is None:
        own = _turned(groups.evidence[kept], record)
    if kept == first:
        return own
    by = groups.evidence[kept]
    return {**own, "kept": {"by": "longest", "id": by["id"], **kept.place}}


def _turned(evidence: dict[str, Any], first: Record) -> dict[str, Any]:
    """Return the longest member's evidence with both sides swapped: similarity is symmetric."""
    match = {**evidence["matches"][0], "id": evidence["id"], **evidence["source"]}
    turned = {
        **evidence,
        "id": evidence["matches"][0]["id"],
        "matches": [match],
        "matches_truncated": False,
        "canonical_id": evidence["id"],
        "source": first.source.place,
    }
    return envelope.with_payload(turned, first.value) if "payload" in evidence else turned


def _source(spelled: dict[str, Any]) -> Source:
    return Source(spelled["topic"], spelled["partition"], spelled["offset"])
