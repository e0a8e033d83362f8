"""Both ends of a changelog, as a group shows them that does not own it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.config.configuration import Config
from streamfilter.engine.messages.changelog import decode_batch
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    HEADER,
    SUCCESSOR,
    Successor,
    decode_header,
    decode_successor,
    kind_of,
)
from streamfilter.index.directory import identity
from streamfilter.index.errors import FormatError
from streamfilter.kafka.connection.one_shot_calls import listed
from streamfilter.kafka.topic_reader import TopicReader
from streamfilter.model import SEEDS_FROM, Span
from streamfilter.stops import ConfigError, Problem

UNKNOWN_INDEX = "?"  # of a changelog that lost its beginning


class ChangelogEnd(Struct, frozen=True):
    """The end of a changelog."""

    last: int  # offset of the last record
    spans: Sequence[Span]  # of the last batch, if it is near
    successor: Successor | None = None  # in that record; None: it is a batch

    @property
    def judges(self) -> bool:
        return judges(self.spans)


def judges(spans: Sequence[Span]) -> bool:
    return any(each.start < each.end for each in spans if each.partition < SEEDS_FROM)


def end_of(config: Config, admin: AdminClient, changelog: str) -> ChangelogEnd | None:
    """Return the end of a *changelog*; None: there is none, or it is empty. Raises `Stop`."""
    return last_of(config, admin, changelog) if changelog in listed(config, admin) else None


def last_of(config: Config, admin: AdminClient, changelog: str) -> ChangelogEnd | None:
    """Return the end of a *changelog* that exists; None: it is empty. Raises `Stop`."""
    with TopicReader(config, changelog) as reader:
        for block in reader.newest_first(reader.bounds(admin, stable=True)):
            end, last = None, -1
            for record in block:
                last, value = record.source.offset, record.value or b""
                try:
                    kind = kind_of(value)
                    if kind == BATCH:
                        end = ChangelogEnd(last, decode_batch(value).mark.spans)
                    elif kind == SUCCESSOR:
                        spans = end.spans if end else ()
                        end = ChangelogEnd(last, spans, decode_successor(value))
                except FormatError as error:
                    got, cure = f"{changelog} at {last}: {error}", "use the version that wrote it"
                    raise ConfigError([Problem("index.changelog", got, cure)]) from error
            if end is not None:
                return replace(end, last=last)
    return None


def beginning_of(config: Config, admin: AdminClient, changelog: str) -> bytes | None:
    """Return the value of the first record of a *changelog* that exists; None: it is empty."""
    with TopicReader(config, changelog) as reader:
        first = next(reader.records(reader.bounds(admin, stable=True)), None)
    return None if first is None else first.value or b""


def refuse_other_scheme(config: Config, admin: AdminClient, *, seed: bytes | None) -> None:
    """Raise `IndexFault` if the changelog is of another scheme: edges have no other index."""
    value = beginning_of(config, admin, config.changelog_topic)
    if value is not None and value[1:2] == bytes([HEADER]):
        have = identity.decode_identity(decode_header(value).identity, seed=seed)
        identity.refuse_other_scheme(config.changelog_topic, have, config.scheme())


def index_of(config: Config, admin: AdminClient, changelog: str) -> str:
    """Return the index id in the first record of a *changelog*; empty: there is no record."""
    if changelog not in listed(config, admin):
        return ""
    if (value := beginning_of(config, admin, changelog)) is None:
        return ""
    if value[1:2] != bytes([HEADER]):
        return UNKNOWN_INDEX
    return str(json.loads(decode_header(value).identity)["index_id"])
