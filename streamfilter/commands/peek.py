"""``streamfilter peek``: how records are read under a configuration, before anything is judged.

Of each record what it is known by, which words of it would be compared, or why there are none;
and where the text seems to be, if it is not where the configuration says. A topic's records are
read by a consumer that joins no group and commits nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from streamfilter.assembly import decoder_of_all, reader_for
from streamfilter.commands import options
from streamfilter.commands.waiting import schemas_awaited, waiting_of
from streamfilter.config.configuration import Config
from streamfilter.config.sources import literal
from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.proposal import Proposal, propose, propose_from
from streamfilter.documents.rows import Row
from streamfilter.documents.schemas import SchemasAway
from streamfilter.model import Document, Malformed, Reading, Record, Unjudged
from streamfilter.process import standard
from streamfilter.process.logs import MASKER
from streamfilter.process.visible import inline
from streamfilter.stops import ExitCode

SHOWN_CHARACTERS = 90
RECORDS_MAX = 1_000
T = TypeVar("T")

EPILOG = """\b
Examples:
  streamfilter peek --config streamfilter.yaml            the topic's latest records
  streamfilter peek --config streamfilter.yaml -n 100 --from earliest -o json
  streamfilter peek news.jsonl --set input.text=/body     a file's first ones
  streamfilter peek --set input.topic=news --set input.format=avro \\
      --set input.registry.url=http://registry:8081 --set kafka.common.bootstrap.servers=kafka:9092
\b
What is said of a record:
  document     it would be judged: its id, and the text that is compared
  passthrough  it would be forwarded unjudged: empty, a tombstone
  dropped      it would not be forwarded, for the configuration says so
  dead letter  it cannot be read: the code, why, and what it has instead
  waits        nobody says now how to read it: a schema registry does not answer
\b
Nothing is judged, committed, created or written, and no group is joined: a service that runs
notices nothing. Exits with 0, or with 65 if none of the records can be read.
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, and how it was read."""

    record: Record
    reading: Reading | SchemasAway
    root: Any
    """Its value decoded as a whole; None if that cannot be."""

    @property
    def fate(self) -> str:
        """Return what would become of it, in the help's words."""
        match self.reading:
            case Document():
                return "document"
            case Malformed():
                return "dead letter"
            case Unjudged():
                return self.reading.verdict.value
        return "waits"

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        source, reading = self.record.source, self.reading
        said: dict[str, object] = {"topic": source.topic, "partition": source.partition}
        said |= {"offset": source.offset, "reading": self.fate.replace(" ", "_")}
        match reading:
            case Document():
                said |= {"id": reading.id, "text": reading.text}
            case Malformed():
                said |= {"error_code": reading.code.value, "message": reading.message}
            case Unjudged():
                said["reason"] = reading.reason.value
            case _:
                said["message"] = str(reading)
        return said

    def as_text(self) -> str:
        """Return it for people, in a few lines."""
        record, reading = self.record, self.reading
        size = "no value" if record.value is None else f"{len(record.value):,} bytes"
        key = "" if record.key is None else f", key {shown(record.key.decode(errors='replace'))}"
        source = record.source
        first = f"{source.topic} {source.partition} @ {source.offset}: {self.fate} ({size}{key})"
        match reading:
            case Document():
                text = f"{shown(reading.text)} {len(reading.text.split()):,} words"
                return f"{first}\n    id    {shown(reading.id)}\n    text  {text}"
            case Malformed():
                return f"{first}\n    {reading.code.value}: {reading.message}{self._instead()}"
            case Unjudged():
                return f"{first}\n    {reading.reason.value}"
        return f"{first}\n    {reading}"

    def _instead(self) -> str:
        if not isinstance(self.root, dict) or not self.root:
            return ""
        names = ", ".join(shown(f"/{key}") for key in islice(self.root, 12))
        return f"\n    it has {names}{', …' if len(self.root) > 12 else ''}"


@click.command("peek", epilog=EPILOG)
@options.config_options
@click.argument("inputs", nargs=-1, metavar="[FILE...]", shell_complete=options.completed_files)
@click.option(
    "-n", "--records", "count", default=5, show_default=True,
    type=click.IntRange(1, RECORDS_MAX), help="How many.",
)  # fmt: skip
@click.option(
    "--from", "where", type=click.Choice(["latest", "earliest"]), default="latest",
    show_default=True, help="Which end of the topic; of a file it is always the first ones.",
)  # fmt: skip
@options.output_option
def command(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    inputs: tuple[str, ...],
    count: int,
    where: str,
    output: str,
) -> int:
    """Show how records of the input topic, or of files, are read: id, text, or why not.

    What cannot be read is told with what it has instead, and where the text seems to be.
    """
    options.say_unread(files)
    config = options.load(files, overrides)
    if inputs:
        from streamfilter.files.inputs import for_files, records_in

        config = for_files(config, inputs)
        records = list(islice(records_in(inputs, config), count))
    else:
        from streamfilter.kafka import sampling

        sample = sampling.latest if where == "latest" else sampling.earliest
        records = sorted(sample(config, count), key=lambda record: record.timestamp)
        records = records[-count:] if where == "latest" else records[:count]
    seen = look(config, records)
    proposal = proposed(config, seen)
    place = ", ".join(inputs) or config.input.topic
    said = _as_json(seen, proposal) if output == "json" else _as_text(config, place, seen, proposal)
    standard.answer(MASKER.mask(said))
    broken = sum(each.fate == "dead letter" for each in seen)
    return ExitCode.BROKEN_INPUT if seen and broken == len(seen) else ExitCode.OK


def look(config: Config, records: Sequence[Record]) -> list[Seen]:
    """Read *records* as *config* says."""
    read, decode = reader_for(config).read, decoder_of_all(config)
    patience, found = waiting_of(config), []
    for record in records:
        root = None
        try:
            reading: Reading | SchemasAway = schemas_awaited(patience, partial(read, record))
            if (value := record.value) is not None and not isinstance(reading, SchemasAway):
                root = schemas_awaited(patience, partial(decode, value, record.headers))
        except SchemasAway as away:
            reading = away
        except Unreadable:
            pass  # the reading says so
        found.append(Seen(record, reading, root))
    return found


def proposed(config: Config, seen: Sequence[Seen]) -> Proposal | None:
    """Return where text and id seem to be, None if the records do not say, or bear no names."""
    if config.input.format == "text" or config.input.records:
        return None
    roots = [each.root for each in seen if isinstance(each.root, dict)]
    if not roots and any(isinstance(each.record, Row) for each in seen):
        return None  # whose bytes are no value of their own
    if roots:
        found = propose_from(roots, config.input.format)
    else:
        found = propose([each.record.value for each in seen])
    return found if found.records else None


def shown(text: str) -> str:
    """Return *text* in quotes for a terminal, cut; what is no character to see is escaped."""
    cut = text[:SHOWN_CHARACTERS]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f'"{safe}{"…" if len(text) > len(cut) else ""}"'


def _as_json(seen: Sequence[Seen], proposal: Proposal | None) -> str:
    answer: dict[str, object] = {"records": [each.as_json() for each in seen]}
    if proposal is not None:
        answer["proposal"] = {
            "format": proposal.format,
            "text": proposal.text,
            "id": proposal.id,
        }
    return options.as_json(answer)


def _as_text(config: Config, place: str, seen: Sequence[Seen], proposal: Proposal | None) -> str:
    if not seen:
        return f"{place} holds no records"
    fates = Counter(each.fate for each in seen)
    lines = [each.as_text() for each in seen]
    lines.append(", ".join(f"{count:,} {fate}" for fate, count in fates.most_common()))
    return "\n".join([*lines, *advice(config, proposal)])


def advice(config: Config, proposal: Proposal | None) -> list[str]:
    """Return what to set instead, if the records look otherwise than the configuration says."""
    if proposal is None:
        return []
    given = config.input
    if proposal.format == "avro" and not proposal.sure:
        if given.has_schema or given.format == "json_schema":
            return []
        which = "avro, protobuf or json_schema"
        return [f"they begin with the id of a registry's schema: input.format may be {which}"]
    if proposal.format != given.format:
        return [f"they look like {proposal.format}: --set input.format={proposal.format}"]
    if proposal.text is None or proposal.text in given.text:
        return []
    others = f"; also {', '.join(map(inline, proposal.others))}" if proposal.others else ""
    advice = [
        f"most words are at {inline(proposal.text)} ({proposal.words:,} at the median{others}): "
        f"{_setting('input.text', proposal.text)}"
    ]
    if proposal.id is not None and given.id == "/id" != proposal.id:
        setting = _setting("input.id", proposal.id)
        advice.append(f"an id of its own is at {inline(proposal.id)}: {setting}")
    return advice


def _setting(key: str, value: str) -> str:
    """Return the option that sets *key* to just *value*, as a shell takes it."""
    return f"--set {quote(inline(f'{key}={literal(value)}'))}"
