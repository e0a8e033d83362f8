"""A schema registry, asked by Confluent's API: the schema of an id, and those that it refers to.

What it says is kept. What it says is unknown is asked for again only after a while, so that broken
records cost no request each. Everything else is no answer (unreachable, slow, 5xx, 401, a page of
a proxy): it raises `SchemasAway`, and nobody calls a record broken for it. So does an answer that
was slow to come: it is kept, but whoever has many to ask for must not stand still for all of them.

A registry that holds nothing at all knows no schema either, but that says nothing of a record: it
keeps its schemas in memory and was started again, or lost its store, or is another one. So it is
away, until something is in it. Residue: one that came back empty and was then told some schemas is
believed, whatever became of the others.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener
from uuid import UUID

from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.schemas import KEPT_MAX, Schema, SchemaId, SchemasAway, SchemasLate
from streamfilter.model import ErrorCode

UNKNOWN_CODES = (40401, 40402, 40403)
"""Subject, version or schema not found; any other 404 is no answer of a registry."""
UNKNOWN_SECONDS = 30.0
"""So long an id that was unknown is not asked for again."""
SLOW_SECONDS = 1.0
BYTES_MAX = 16 << 20
REFERENCES_MAX = 100
SUBJECTS_BYTES = 1 << 10
"""Of the list of subjects: more of it says no better whether there are any."""
REFUSALS = (401, 403, 404, 405)
"""Statuses of what is not for us, or not there, and will not be by itself."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

T = TypeVar("T")
Reference = tuple[str, str, int]
"""Name in the schema that refers to it, subject, and version."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a registry is, and who we are to it."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    seconds: float = 5.0
    """The longest that an answer is waited for."""

    @property
    def authorization(self) -> str | None:
        """Return the header of that name."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is None:
            return None
        return "Basic " + b64encode(f"{self.user}:{self.password or ''}".encode()).decode()


class _NotFound(Exception):
    """The registry knows no such thing."""


class _Refused(SchemasAway):
    """It will not say."""


class _NoRedirects(HTTPRedirectHandler):
    """Our credentials are for this registry alone."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nobody."""


class Registry:
    """Schemas by their ids; any thread may share it."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        """Ask nothing yet.

        Raises:
            OSError: the file of the authority cannot be read.
        """
        context = ssl.create_default_context(cafile=access.ca_file)
        self._open = build_opener(_NoRedirects, HTTPSHandler(context=context)).open
        self._access, self._clock = access, clock
        self._kept: OrderedDict[SchemaId, Schema] = OrderedDict()
        self._unknown: OrderedDict[SchemaId, float] = OrderedDict()

    def schema(self, id: SchemaId) -> Schema:
        """Return the schema of that id.

        Raises:
            Unreadable: SCHEMA_UNKNOWN, the registry knows none.
            SchemasAway: it does not answer, or was slow to, or holds nothing at all.
        """
        known = self._kept.get(id)
        if known is not None:
            return known
        begun = self._clock()
        if begun >= self._unknown.get(id, begun):
            try:
                found = self._fetched(id)
            except _NotFound:
                self._refuse_if_empty(id)
                _keep(self._unknown, id, self._clock() + UNKNOWN_SECONDS)
            else:
                _keep(self._kept, id, found)
                if (seconds := self._clock() - begun) > SLOW_SECONDS:
                    raise SchemasLate(f"{self._access.url} took {seconds:.1f} s for schema {id}")
                return found
        raise Unreadable(ErrorCode.SCHEMA_UNKNOWN, f"the registry knows no schema {id}")

    def _refuse_if_empty(self, id: SchemaId) -> None:
        """Raise `SchemasAway` if the registry, which does not know schema *id*, knows nothing.

        Where nobody may ask what it knows, what it says of one schema is believed.
        """
        try:
            empty = self._asked("subjects?limit=1", _lists_nothing, enough=SUBJECTS_BYTES)
        except (_NotFound, _Refused):
            return
        if empty:
            url = self._access.url
            raise SchemasAway(f"{url} is empty: it knows no schema {id}, and no subject at all")

    def _fetched(self, id: SchemaId) -> Schema:
        kind = "guids" if isinstance(id, UUID) else "ids"
        return self._whole(self._get(f"schemas/{kind}/{id}"))

    def newest(self, subject: str) -> Schema | None:
        """Return the newest schema of a *subject*, None if there is no such subject.

        Raises:
            SchemasAway: the registry does not answer.
        """
        try:
            return self._whole(self._get(f"{_versions_of(subject)}/latest"))
        except _NotFound:
            return None

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[Reference] = ()
    ) -> int:
        """Add a schema to a *subject*, if it is not there, and return its id.

        Raises:
            SchemasAway: the registry does not answer, or does not take it.
        """
        body: dict[str, Any] = {"schemaType": kind, "schema": text}
        if references:
            names = "name", "subject", "version"
            body["references"] = [dict(zip(names, each, strict=True)) for each in references]
        try:
            return self._asked(_versions_of(subject), _id_in, body=body)
        except _NotFound:
            raise SchemasAway(f"{self._access.url} takes no schema of {subject}") from None

    def _whole(self, answer: dict[str, Any]) -> Schema:
        """Return the schema of an *answer*, with what it refers to."""
        references: dict[str, str] = {}
        self._follow(answer, references, set())
        return Schema(answer.get("schemaType") or "AVRO", answer["schema"], (*references.items(),))

    def _follow(self, answer: dict[str, Any], found: dict[str, str], asked: set[str]) -> None:
        """Add to *found* what *answer* refers to, that which others need first."""
        for each in answer.get("references") or ():
            path = f"{_versions_of(str(each['subject']))}/{each['version']}"
            if path in asked:
                continue
            asked.add(path)
            if len(asked) > REFERENCES_MAX:
                raise SchemasAway(f"a schema refers to more than {REFERENCES_MAX} others")
            needed = self._get(path)
            self._follow(needed, found, asked)
            found[str(each["name"])] = needed["schema"]

    def _get(self, path: str) -> dict[str, Any]:
        return self._asked(path, _checked)

    def _asked(
        self,
        path: str,
        understood: Callable[[bytes], T],
        *,
        body: object = None,
        enough: int = BYTES_MAX + 1,
    ) -> T:
        """Return an answer as it is *understood*, of which *enough* bytes are as good as all."""
        url = f"{self._access.url.rstrip('/')}/{path}"
        request = Request(url, headers={"Accept": MEDIA_TYPE})
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", MEDIA_TYPE)
        if self._access.authorization is not None:
            request.add_unredirected_header("Authorization", self._access.authorization)
        try:
            return understood(self._read(request, enough))
        except HTTPError as error:
            with error:
                if error.code == 404 and _code_of(error) in UNKNOWN_CODES:
                    raise _NotFound from None
            away = _Refused if error.code in REFUSALS else SchemasAway
            raise away(f"{url}: HTTP {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise SchemasAway(f"{url}: {type(reason).__name__} {reason}") from None

    def _read(self, request: Request, enough: int) -> bytes:
        """Return the answer, if *enough* of it comes in time and is of a size that a schema has."""
        deadline = time.monotonic() + self._access.seconds
        with self._open(request, timeout=self._access.seconds) as response:
            data = bytearray()
            while len(data) < enough and (part := response.read1(1 << 16)):
                data += part
                if len(data) > BYTES_MAX or time.monotonic() > deadline:
                    raise ValueError(f"no end after {len(data)} bytes")
        return bytes(data)


def _checked(data: bytes) -> dict[str, Any]:
    answer = json.loads(data)
    if not (isinstance(answer, dict) and isinstance(answer.get("schema"), str)):
        raise ValueError("the answer holds no schema")
    return answer


def _lists_nothing(data: bytes) -> bool:
    content = b"".join(data.split())
    if not content.startswith(b"["):
        raise ValueError("the answer is no list")
    return content == b"[]"


def _id_in(data: bytes) -> int:
    answer = json.loads(data)
    if not (isinstance(answer, dict) and isinstance(answer.get("id"), int)):
        raise ValueError("the answer holds no schema's id")
    return int(answer["id"])


def _versions_of(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}/versions"


def _code_of(error: HTTPError) -> object:
    try:
        answer = json.loads(error.read(1 << 16))
    except (OSError, HTTPException, ValueError):
        return None
    return answer.get("error_code") if isinstance(answer, dict) else None


def _keep(kept: OrderedDict[SchemaId, Any], id: SchemaId, value: object) -> None:
    kept[id] = value
    if len(kept) > KEPT_MAX:
        kept.popitem(last=False)
