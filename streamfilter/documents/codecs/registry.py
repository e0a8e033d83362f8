"""The client of a schema registry (Confluent's API): schemas by id, with their references.

"The registry is away" and "this id has no schema" are different results. An id is unknown if the
registry rejects it and also answers a request that every registry must answer. Everything else
raises `SchemasAway`, and the records wait: unreachable, slow, 5xx, 401, a page of a proxy. A slow
answer raises it too: the answer is cached, but many slow answers must not hold up the loop.

An unknown id may be a new one that this registry does not have yet. It raises `SchemaUnsettled`,
and is looked up again, until it has been unknown for `SETTLE_SECONDS`. Then the record is at fault,
and the id is looked up ever more rarely. `ask_all` looks many ids up at once: they wait together.

An empty registry has no schema either, but this is not the record's fault. Such a registry keeps
its schemas in memory and was restarted, lost its store, or is the wrong one. It counts as away
until it holds something. Not detected: it came back empty, and then some schemas were added. Its
answers count, even for ids that it has lost.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

from msgspec import Struct

from streamfilter.documents.codecs.registry_calls import (
    BYTES_MAX,
    CONNECTIONS_MAX,
    SLOW_SECONDS,
    Access,
    Calls,
    TooLarge,
)
from streamfilter.documents.codecs.registry_tokens import Client, ClientTokens
from streamfilter.documents.codecs.schemas import (
    Recent,
    Schema,
    SchemaId,
    SchemasAway,
    SchemasWithheld,
    SchemaUnsettled,
)
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.model import ErrorCode, Malformed

ID_MAX = (1 << 31) - 1
"""The highest schema id (Java's `int`). Some registries answer a higher one like a bad address."""
UNKNOWN_CODES = (40401, 40402, 40403)  # a registry's: subject, version, schema not found
UNKNOWN_STATUSES = (400, 404, 405, 406, 410, 414, 422)
"""Statuses for an id that this registry cannot have. A server that is no registry sends them, too.
"""
REFUSALS = (401, 403)
ELSE = "input.registry.url may name a proxy, a login page, or another server"
SETTLE_SECONDS = 5.0
"""How long to wait for an unknown id: a registry may lag behind the one that took the schema."""
AGAIN_SECONDS = 0.5
UNKNOWN_SECONDS = 30.0  # the shortest and the longest time between two requests for one unknown id
ASKING_SECONDS = 2.0
"""The time limit of `ask_all`. A batch has some more seconds, in which it is also read."""
RECHECK_SHARE = 10  # of the time, settled unknown ids take at most one in so many parts
UNKNOWN_MAX = 50_000  # how many unknown ids are remembered: more than a batch has records
REFERENCES_MAX = 100
SUBJECTS_BYTES = 1 << 10  # of the list of subjects: enough to see whether there are any

T = TypeVar("T")
Reference = tuple[str, str, int]  # (name in the referring schema, subject, version)

logger = logging.getLogger("streamfilter.run")


class _OtherAnswer(ValueError):
    """The answer is JSON, and none of a registry."""


class _NotFound(Exception):
    """The registry does not have it; or the server is not a registry and rejects every request."""

    def __init__(self, why: str, *, sure: bool) -> None:
        super().__init__(why)
        self.sure = sure  # whether the answer has the form of a registry's own error


class _Doubt(Struct, frozen=True):
    """An id that was unknown at every look-up."""

    since: float
    again: float  # when to look it up again
    settled: bool


class Registry:
    """Schemas by their ids. Thread-safe."""

    def __init__(
        self,
        access: Access,
        clock: Callable[[], float] = time.monotonic,
        *,
        settle: float = SETTLE_SECONDS,
        client: Client | None = None,
    ) -> None:
        """Prepare the client, without a request; an unknown id is retried for *settle* seconds."""
        self._calls = Calls(access, None if client is None else ClientTokens(client))
        self._access = access
        self._clock, self._settle = clock, settle
        self._kept: Recent[SchemaId, Schema | Malformed] = Recent()
        self._parts: Recent[str, dict[str, Any]] = Recent()
        """Answers for the subject versions that schemas refer to; these never change."""
        self._doubts: OrderedDict[SchemaId, _Doubt] = OrderedDict()
        self._recheck = self._say = 0.0
        """When settled ids may be looked up again, and when unknown ids may be logged again."""
        self._unsaid: list[SchemaId] = []

    def schema(self, id: SchemaId) -> Schema:
        """Return the schema with that id.

        Raises `Unreadable` if it has none (SCHEMA_UNKNOWN) or a too large one (SCHEMA_DECODE), and
        `SchemasAway` if the registry does not answer, was slow, is empty, or may not have it yet.
        """
        found = self._kept.get(id) or self._looked_up(id)
        if isinstance(found, Malformed):
            raise Unreadable(found.code, found.message)
        return found

    def _looked_up(self, id: SchemaId) -> Schema | Malformed:
        unknown = Malformed(ErrorCode.SCHEMA_UNKNOWN, f"the registry knows no schema {id}")
        if isinstance(id, int) and id > ID_MAX:
            return unknown
        begun = self._clock()
        if due := self._due([id], begun):
            self._ask(due)
            found = self._kept.get(id)
            if found is not None:
                if (seconds := self._clock() - begun) > SLOW_SECONDS:
                    raise SchemasAway(f"{self._access.url} took {seconds:.1f} s for schema {id}")
                return found
        doubt = self._doubts.get(id)
        if doubt is not None and doubt.settled:
            return unknown
        raise SchemaUnsettled(
            f"{self._access.url} knows no schema {id}; it is asked again for {self._settle:g} s",
            self.ask_all,
        )

    def ask_all(self, ids: Iterable[SchemaId], late: Callable[[], bool]) -> None:
        """Look up those of *ids* that are due, several at once; without an error if it is away."""
        now = self._clock()
        until = now + ASKING_SECONDS
        with suppress(SchemasAway):
            self._ask(self._due(ids, now), lambda: late() or self._clock() >= until)

    def _due(self, ids: Iterable[SchemaId], now: float) -> list[SchemaId]:
        """Return those of *ids* to look up now, the longest waiting first.

        At most `CONNECTIONS_MAX` settled unknown ids are among them, and none before `_recheck`.
        """
        fresh, settled = list[tuple[float, SchemaId]](), list[SchemaId]()
        for id in dict.fromkeys(ids):
            doubt = self._doubts.get(id)
            if isinstance(id, int) and id > ID_MAX:
                continue
            if doubt is None:
                fresh += [(0.0, id)] if self._kept.get(id) is None else []
            elif now >= doubt.again:
                settled += [id] if doubt.settled else []
                fresh += [] if doubt.settled else [(doubt.again, id)]
        fresh.sort(key=lambda each: each[0])
        again = settled[:CONNECTIONS_MAX] if now >= self._recheck else []
        return again + [id for _, id in fresh]

    def _ask(self, ids: Sequence[SchemaId], late: Callable[[], bool] = lambda: False) -> None:
        if not any(id in self._doubts and self._doubts[id].settled for id in ids):
            return self._ask_each(ids, late)
        begun = self._clock()
        try:
            self._ask_each(ids, late)
        finally:
            ended = self._clock()
            self._recheck = ended + max(AGAIN_SECONDS, (ended - begun) * (RECHECK_SHARE - 1))

    def _ask_each(self, ids: Sequence[SchemaId], late: Callable[[], bool]) -> None:
        waiting, missing = deque(ids), list[tuple[SchemaId, bool]]()

        def ask() -> None:
            try:
                while not late():
                    id = waiting.popleft()
                    try:
                        found = self._fetched(id)
                    except _NotFound as error:
                        missing.append((id, error.sure))
                    else:
                        self._kept.put(id, found, found.size if isinstance(found, Schema) else 0)
                        self._doubts.pop(id, None)
            except IndexError:
                return  # all ids are taken
            except SchemasAway:
                waiting.clear()  # the other threads need not wait for it, too
                raise

        if len(ids) == 1:
            ask()
        elif ids:
            with ThreadPoolExecutor(min(len(ids), CONNECTIONS_MAX), "registry") as pool:
                for each in [pool.submit(ask) for _ in range(CONNECTIONS_MAX)]:
                    each.result()
        if missing:
            self._refuse_if_away(missing[0][0], sure=all(sure for _, sure in missing))
            self._doubt([id for id, _ in missing])

    def _fetched(self, id: SchemaId) -> Schema | Malformed:
        kind = "guids" if isinstance(id, UUID) else "ids"
        try:
            return self._whole(self._asked(f"schemas/{kind}/{id}", _checked))
        except TooLarge as error:
            return Malformed(ErrorCode.SCHEMA_DECODE, f"schema {id} is too large: {error}")

    def _refuse_if_away(self, id: SchemaId, *, sure: bool) -> None:
        """Raise `SchemasAway` if the server that does not know *id* is empty, or not a registry.

        If we have no right to list its subjects, its own error code for one schema is enough.
        Without such a code it must at least list its schema types, as every registry does.
        """
        try:
            empty = self._asked("subjects?limit=1", _lists_nothing, enough=SUBJECTS_BYTES)
        except (_NotFound, SchemasWithheld):
            if sure:
                return
            try:
                empty = self._asked("schemas/types", _lists_nothing, enough=SUBJECTS_BYTES)
            except _NotFound as error:
                raise SchemasAway(str(error)) from None
        if empty:
            raise SchemasWithheld(
                f"{self._access.url} is empty: it knows no schema {id}, and no subject at all"
            )

    def _doubt(self, ids: Sequence[SchemaId]) -> None:
        """Remember that *ids* are unknown, and log those whose records are now dead letters."""
        now = self._clock()
        for id in ids:
            known = self._doubts.pop(id, None)
            since = known.since if known else now
            done = now - since >= self._settle
            pause = min(max(now - since, AGAIN_SECONDS), UNKNOWN_SECONDS)
            again = now + pause if done else min(now + pause, since + self._settle)
            self._doubts[id] = _Doubt(since, again, done)
            if done and not (known and known.settled):
                self._unsaid.append(id)
        while len(self._doubts) > UNKNOWN_MAX:
            self._doubts.popitem(last=False)
        if self._unsaid and self._settle and now >= self._say:
            unsaid, self._unsaid, self._say = self._unsaid, [], now + self._settle
            others = f" and {len(unsaid) - 1:,} others" if len(unsaid) > 1 else ""
            logger.warning(
                "%s knows no schema %s%s, asked for %g s: records of it are dead letters "
                "(schema_unknown); it is asked again now and then",
                self._access.url, unsaid[0], others, self._settle,
            )  # fmt: skip

    def newest(self, subject: str) -> Schema | None:
        """Return the newest schema of a *subject*, None if there is no such subject."""
        try:
            return self._whole(self._asked(f"{_versions_of(subject)}/latest", _checked))
        except _NotFound as error:
            if error.sure:
                return None
            raise SchemasAway(str(error)) from None

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[Reference] = ()
    ) -> int:
        """Add a schema to a *subject*, and return its id; or raise `SchemasAway`."""
        body: dict[str, Any] = {"schemaType": kind, "schema": text}
        if references:
            names = "name", "subject", "version"
            body["references"] = [dict(zip(names, each, strict=True)) for each in references]
        try:
            return self._asked(_versions_of(subject), _id_in, body=body)
        except _NotFound as error:
            away = SchemasWithheld if error.sure else SchemasAway
            raise away(f"{self._access.url} takes no schema of {subject}: {error}") from None

    def _whole(self, answer: dict[str, Any]) -> Schema:
        """Return the schema in an *answer*, with the schemas that it refers to."""
        references: dict[str, str] = {}
        try:
            self._follow(answer, references, set())
        except (KeyError, TypeError) as error:
            raise SchemasAway(
                f"{self._access.url}: its references make no sense: {error}"
            ) from None
        kind = answer.get("schemaType") or "AVRO"
        schema = Schema(kind, answer["schema"], (*references.items(),))
        if schema.size > BYTES_MAX:
            raise TooLarge(f"with what it refers to, it has {schema.size:,} characters")
        return schema

    def _follow(self, answer: dict[str, Any], found: dict[str, str], asked: set[str]) -> None:
        """Add to *found* the schemas that *answer* refers to, dependencies first."""
        for each in answer.get("references") or ():
            path = f"{_versions_of(str(each['subject']))}/{each['version']}"
            if path in asked:
                continue
            asked.add(path)
            if len(asked) > REFERENCES_MAX:
                raise TooLarge(f"it refers to more than {REFERENCES_MAX} others")
            needed = self._part(path)
            self._follow(needed, found, asked)
            found[str(each["name"])] = needed["schema"]

    def _part(self, path: str) -> dict[str, Any]:
        """Return the answer to *path*; a slow answer is cached, and raises `SchemasAway`."""
        known = self._parts.get(path)
        if known is not None:
            return known
        begun = self._clock()
        answer = self._asked(path, _checked)
        self._parts.put(path, answer, len(answer["schema"]))
        if (seconds := self._clock() - begun) > SLOW_SECONDS:
            raise SchemasAway(f"{self._access.url} took {seconds:.1f} s for {path}")
        return answer

    def _asked(
        self,
        path: str,
        understood: Callable[[bytes], T],
        *,
        body: object = None,
        enough: int = BYTES_MAX + 1,
    ) -> T:
        """Return the answer to *path*, parsed by *understood*; *enough* bytes of it are read."""
        answer = self._calls.ask(path, body=body, enough=enough)
        why = f"{self._access.url.rstrip('/')}/{path}: HTTP {answer.status} {answer.reason}"
        if answer.status == 200:
            try:
                return understood(answer.content)
            except (ValueError, RecursionError) as error:
                said = error if isinstance(error, _OtherAnswer) else "it is no JSON"
                raise SchemasAway(f"{why}, but {said}; {ELSE}") from None
        if answer.status in UNKNOWN_STATUSES:
            raise _NotFound(why, sure=answer.status == 422 or answer.error_code in UNKNOWN_CODES)
        if 300 <= answer.status < 400:
            why += f"; redirects are not followed; {ELSE}"
        raise (SchemasWithheld if answer.status in REFUSALS else SchemasAway)(why)


def _checked(data: bytes) -> dict[str, Any]:
    answer = json.loads(data)
    if not (isinstance(answer, dict) and isinstance(answer.get("schema"), str)):
        raise _OtherAnswer("the answer holds no schema")
    return answer


def _lists_nothing(data: bytes) -> bool:
    content = b"".join(data.split())
    if not content.startswith(b"["):
        raise _OtherAnswer("the answer is no list")
    return content == b"[]"


def _id_in(data: bytes) -> int:
    answer = json.loads(data)
    if not (isinstance(answer, dict) and isinstance(answer.get("id"), int)):
        raise _OtherAnswer("the answer holds no schema's id")
    return int(answer["id"])


def _versions_of(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}/versions"
