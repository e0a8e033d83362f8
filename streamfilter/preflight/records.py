"""Shows how records are read under a configuration, and checks that the latest can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Struct

from streamfilter.assembly import decoder_of_all, reader_for
from streamfilter.config import boilerplate
from streamfilter.config.configuration import Config
from streamfilter.config.settings.sections import SimilaritySection
from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.documents.proposal import Proposal, propose, propose_from
from streamfilter.documents.rows import Row
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.model import Document, Malformed, Reading, Record, Unjudged
from streamfilter.preflight.example import fitting
from streamfilter.preflight.proposals import advice
from streamfilter.preflight.schemas import schemas_awaited, waiting_of
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.boilerplate import LEFT, Table
from streamfilter.stops import ConfigError, Problem, counted

RECORDS = 200
"""The latest records of all partitions that `check` reads. The breaker needs some hundred."""
DRIFT, DRIFT_DOCUMENTS = 0.2, 50
"""Difference of two shares that counts as drift, and the fewest documents that show it: the share
of 50 documents is off by more than that once in 200 times."""
SHOWN_CHARACTERS = 90
SHOWN_FIELDS = 12


def check_records(config: Config) -> list[Problem]:
    """Return how many of the latest records would be dead letters, and if a table is out of date.

    Raises `Stop`: the brokers do not answer (`Temporary`), or refuse us.
    """
    from streamfilter.kafka import topic_sample

    try:
        records = topic_sample.latest(config, RECORDS)
    except ConfigError:
        return []  # there is no such topic: another check reports it
    look = Look.at(config, records)
    return [*_broken(config, look), *absent(look), *check_boilerplate(config, look.texts)]


def absent(look: Look) -> list[Problem]:
    """Return the values beside the text that none of the documents has: a pointer's typing error.

    An absent value is no error, so all records would be in one scope, or agree in nothing. A value
    of `verify.also_same` that all have is a warning, too: only the first of them would come out.
    """
    config, documents = look.config, look.documents
    problems = []
    for place, pointer in enumerate(config.scheme().pointers):
        found = {each.values[place] for each in documents}
        key = _setting_of(pointer, config)
        alone = key == "verify.also_same"
        if found == {None}:
            what = "so it makes none the same" if alone else "so all count as equal in it"
            got = f"none of {counted(len(documents), 'document')} has {pointer}, {what}"
        elif alone and len(documents) > 1 and len(found) == 1:
            got = f"all {len(documents):,} documents have one {pointer}: only the first comes out"
        else:
            continue
        cure = "see with `streamfilter peek -o json` what they have, and correct the pointer"
        problems.append(Problem(key, got, cure, warning=True))
    return problems


def _setting_of(pointer: str, config: Config) -> str:
    if pointer == config.index.scope_field:
        return "index.scope_field"
    return "verify.agree_on" if pointer in config.verify.agree_on else "verify.also_same"


def check_boilerplate(config: Config, texts: Sequence[str]) -> list[Problem]:
    """Return whether the table of boilerplate leaves something else of *texts* than of its sample.

    The difference is the largest of the shares of documents that keep all, enough, few shingles.
    """
    table = config.similarity.normalise.table
    if not isinstance(table, Table) or len(texts) < DRIFT_DOCUMENTS:
        return []
    counts = Sketcher(config.scheme(), seed=MEASURING).sketch(texts).left
    shares = {left: count / len(texts) for left, count in counts.items()}
    then = dict(zip(LEFT, table.sample.shares, strict=True))
    if max(abs(shares[left] - then[left]) for left in LEFT) <= DRIFT:
        return []
    topic = (*config.input.exact, "TOPIC")[0]
    said = ", ".join(f"{shares[left]:.0%} keep {left} (then {then[left]:.0%})" for left in LEFT)
    return [
        Problem(
            boilerplate.KEY,
            f"the table no longer fits the stream: of the latest {counted(len(texts), 'document')} "
            f"{said} of their shingles",
            f"make a new one: streamfilter boilerplate --topic {topic} -o PATH; it is "
            "another scheme, so begin with an empty index",
            warning=True,
        )
    ]


def _broken(config: Config, look: Look) -> list[Problem]:
    """Return how many of the records would be dead letters, and why."""
    from streamfilter.kafka import topic_sample

    if not look.broken:
        return []
    read, broken = len(look.seen), len(look.broken)
    codes = Counter(str(each.as_json()["error_code"]) for each in look.broken)
    reasons = ", ".join(f"{count:,} {code}" for code, count in codes.most_common())
    example = look.broken[-1].record.source
    peek = "`streamfilter peek` shows what they contain instead"
    return [
        Problem(
            "input.fields" if config.input.records else "input.text",
            f"{broken:,} of the latest {counted(read, 'record')} of {config.input.name} cannot "
            f"be read and would be dead letters: {reasons}; for example {example.topic}, partition "
            f"{example.partition}, offset {example.offset}",
            "; ".join([*advice(config, look.proposal), peek]),
            warning=not topic_sample.would_pause(config, read, broken) and broken < read,
        )
    ]


def texts_of_topic(
    config: Config,
    limit: int,
    *,
    broken: Callable[[Malformed], None],
    advanced: Callable[[int], None],
) -> Iterator[str]:
    """Yield the texts of the input's latest *limit* records; a broken one goes to *broken*.

    Raises `Stop`: the brokers or the registry do not answer, or refuse us.
    """
    from streamfilter.kafka import topic_sample

    reader, patience = reader_for(config), waiting_of(config)
    records = topic_sample.latest_of_many(config, limit)
    while block := [*islice(records, RECORDS)]:
        for reading in schemas_awaited(patience, partial(reader.read_all, block)):
            if isinstance(reading, Document):
                yield reading.text
            elif isinstance(reading, Malformed):
                broken(reading)
        advanced(len(block))


class Seen(Struct, frozen=True):
    """A record, and how it was read."""

    record: Record
    reading: Reading | SchemasAway
    root: Any  # its value decoded as a whole; None if that is impossible
    pointers: Sequence[str] = ()  # the pointers to the values beside the text

    @property
    def fate(self) -> str:
        """Return what would become of it, in the words of `peek --help`."""
        match self.reading:
            case Document():
                return "document"
            case Malformed():
                return "dead letter"
            case Unjudged():
                return self.reading.verdict.value
        return "waits"

    def as_json(self) -> dict[str, object]:
        source, reading = self.record.source, self.reading
        said: dict[str, object] = {"topic": source.topic, "partition": source.partition}
        said |= {"offset": source.offset, "reading": self.fate.replace(" ", "_")}
        match reading:
            case Document():
                said |= {"id": reading.id, "text": reading.text}
                if self.pointers:
                    said["values"] = dict(zip(self.pointers, reading.values, strict=True))
            case Malformed():
                said |= {"error_code": reading.code.value, "message": reading.message}
            case Unjudged():
                said["reason"] = reading.reason.value
            case _:
                said["message"] = str(reading)
        return said

    def as_text(self) -> str:
        record, reading, source = self.record, self.reading, self.record.source
        size = "no value" if record.value is None else counted(len(record.value), "byte")
        key = "" if record.key is None else f", key {shown(record.key.decode(errors='replace'))}"
        first = f"{source.topic} {source.partition} @ {source.offset}: {self.fate} ({size}{key})"
        match reading:
            case Document():
                text = f"{shown(reading.text)} {counted(len(reading.text.split()), 'word')}"
                named = zip(self.pointers, reading.values, strict=True)
                beside = [
                    f"\n    {name}  {'none' if each is None else shown(each)[1:-1]}"
                    for name, each in named
                ]
                return f"{first}\n    id    {shown(reading.id)}\n    text  {text}{''.join(beside)}"
            case Malformed():
                return f"{first}\n    {reading.code.value}: {reading.message}{self._instead()}"
            case Unjudged():
                return f"{first}\n    {reading.reason.value}"
        return f"{first}\n    {reading}"

    def _instead(self) -> str:
        if not isinstance(self.root, dict) or not self.root:
            return ""
        names = ", ".join(shown(f"/{key}") for key in islice(self.root, SHOWN_FIELDS))
        return f"\n    it has {names}{', …' if len(self.root) > SHOWN_FIELDS else ''}"


class Look(Struct, frozen=True):
    """Some records, as the configuration reads them."""

    config: Config
    seen: Sequence[Seen]
    place: str = ""  # where the records came from

    @classmethod
    def at(cls, config: Config, records: Sequence[Record], *, place: str = "") -> Look:
        read, decode = reader_for(config).read, decoder_of_all(config)
        patience, pointers, found = waiting_of(config), config.scheme().pointers, []
        for record in records:
            root = None
            try:
                reading: Reading | SchemasAway = schemas_awaited(patience, partial(read, record))
                if (value := record.value) is not None and not isinstance(reading, SchemasAway):
                    root = schemas_awaited(patience, partial(decode, value, record.headers))
            except SchemasAway as away:
                reading = away
            except Unreadable:
                pass  # the reading gives the reason
            found.append(Seen(record, reading, root, pointers))
        return cls(config, found, place)

    @property
    def broken(self) -> list[Seen]:
        return [each for each in self.seen if isinstance(each.reading, Malformed)]

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.documents]

    @property
    def documents(self) -> list[Document]:
        readings = [each.reading for each in self.seen]
        return [each for each in readings if isinstance(each, Document)]

    @property
    def proposal(self) -> Proposal | None:
        """Return where text and id seem to be; None if the records do not show it."""
        given = self.config.input
        if given.format == "text" or given.records:
            return None
        roots = [each.root for each in self.seen if isinstance(each.root, dict)]
        if not roots and any(isinstance(each.record, Row) for each in self.seen):
            return None  # a row's bytes are no value of their own
        if roots:
            found = propose_from(roots, given.format)
        else:
            found = propose([each.record.value for each in self.seen])
        return found if found.records else None

    def as_json(self) -> dict[str, object]:
        answer: dict[str, object] = {"records": [each.as_json() for each in self.seen]}
        if (found := self.proposal) is not None:
            answer["proposal"] = {"format": found.format, "text": found.text, "id": found.id}
        return answer

    def as_text(self) -> str:
        if not self.seen:
            return f"{self.place} holds no records"
        fates = Counter(each.fate for each in self.seen).most_common()
        lines = [each.as_text() for each in self.seen]
        lines.append(", ".join(f"{count:,} {fate}" for fate, count in fates))
        advised = [*map(str, absent(self)), *advice(self.config, self.proposal)]
        return "\n".join([*lines, *advised, *self._example()])

    def _example(self) -> list[str]:
        """Return the example that fits the texts, if the configuration changes no such setting."""
        fit = fitting(self.texts)
        default = self.config.similarity == SimilaritySection()
        return [f"{fit} (streamfilter init --example {fit.name})"] if fit and default else []


def shown(text: str) -> str:
    """Return *text* in quotes for a terminal, cut; unprintable characters are escaped."""
    cut = text[:SHOWN_CHARACTERS]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f'"{safe}{"…" if len(text) > len(cut) else ""}"'
