"""The identity of an index: its random id, its scheme, and the secret seed of its keys.

The identity is stored in the state directory and in the changelog's header record. So after a lost
disk, or on a new host, the same keys are computed, and data of another scheme is refused.
If the seed comes from the operator's own file (``index.seed_file``), it is not stored. Only a
keyed check of it is. The check reveals another file, and nothing about the seed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import unicodedata
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.index.errors import FormatError, IndexMismatch
from streamfilter.index.format import FORMAT
from streamfilter.model import SEED_BYTES
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import ALGORITHM, CHANGES, Scheme, scheme_of, widths_of
from streamfilter.similarity.statistics.shape import Shape

ID_BYTES = 16

SHOWN_AT = (0.5, 0.6, 0.7, 0.8, 0.9)  # similarities for which an error says what the keys find

WAYS = """
    ways out: name another index.path, if this is the index of another service; or
    go back to the settings it was built with (if format or scheme.algorithm differs: \
to the version of streamfilter that made it); or
    1. rebuild: remove the index directory and restart: the changelog restores it (same scheme, \
seed and index.bucket_cap only)
    2. new generation: a new kafka.group with the new settings and input.take_over, while this \
one works with the old
    3. reset: stop every process, and run `streamfilter reset --yes`; everything counts as new"""
"""For a service. A caller without a changelog has other ways (`IndexMismatch.with_ways`)."""


class Identity(Struct, frozen=True):
    """The identity of an index, made once, when the index is created."""

    index_id: str  # 32 hexadecimal digits, random
    format: int
    scheme_fingerprint: str
    scheme: str  # canonical JSON of everything that shapes a signature or a band key
    seed: bytes  # 16 bytes that key the hashes. Never shown: see `encode`
    created: int  # milliseconds since the epoch
    unicode_version: str
    external_seed: bool = False  # it comes from ``index.seed_file`` and is not stored

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(self.seed)}")
        if len(bytes.fromhex(self.index_id)) != ID_BYTES:
            raise ValueError(f"an index id has {2 * ID_BYTES} hexadecimal digits")

    def __repr__(self) -> str:
        return f"Identity({self.index_id!r})"  # without the seed

    @classmethod
    def new(
        cls, *, scheme: str, fingerprint: str, created: int, seed: bytes | None = None
    ) -> Identity:
        """Return a new identity with a random id; without *seed*, the seed is random too."""
        return cls(
            index_id=secrets.token_hex(ID_BYTES),
            format=FORMAT,
            scheme_fingerprint=fingerprint,
            scheme=scheme,
            seed=seed or secrets.token_bytes(SEED_BYTES),
            created=created,
            unicode_version=unicodedata.unidata_version,
            external_seed=seed is not None,
        )

    def of_scheme(self, scheme: Scheme) -> Identity:
        """Return it as it would be if the index had this *scheme*."""
        return replace(self, scheme=scheme.as_json(), scheme_fingerprint=scheme.fingerprint)

    @property
    def widths(self) -> Widths:
        """Return how much the scheme stores of a document."""
        scheme = json.loads(self.scheme)
        return widths_of(int(scheme["slots"]), scheme.get("digests", ()))

    @property
    def seed_check(self) -> bytes:
        """Return 16 bytes that show whether two seeds are equal, and nothing else about them."""
        message = f"{self.index_id} {self.scheme_fingerprint}".encode()
        return hashlib.blake2b(
            message, key=self.seed, digest_size=16, person=b"streamfilterseed"
        ).digest()

    def encode(self) -> bytes:
        """Return the identity as JSON with the seed; of an external seed only the check."""
        fields: dict[str, Any] = {
            "format": self.format,
            "index_id": self.index_id,
            "scheme_fingerprint": self.scheme_fingerprint,
            "scheme": json.loads(self.scheme),
            "created": self.created,
            "unicode_version": self.unicode_version,
        }
        if self.external_seed:
            fields["seed_check"] = self.seed_check.hex()
        else:
            fields["seed"] = self.seed.hex()
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def decode_identity(data: bytes, *, seed: bytes | None = None, known: int = FORMAT) -> Identity:
    """Return what `Identity.encode` wrote; *seed* is what ``index.seed_file`` holds.

    *known* is the newest format of where it was stored: a refusal names it. Raises `FormatError`
    for anything else, `IndexMismatch` for another format, algorithm or seed.
    """
    fields = _fields(data)
    if fields["format"] != FORMAT:
        raise mismatch("the index", [f"format: it has {fields['format']}, this version {known}"])
    if named := _other_algorithm(fields.get("scheme")):
        raise mismatch("the index", [named])
    external = "seed_check" in fields
    if external and seed is None:
        raise IndexMismatch(
            "the index was built with a seed from a file; set index.seed_file to that file",
            ("seed",),
        )
    try:
        identity = Identity(
            index_id=str(fields["index_id"]),
            format=FORMAT,
            scheme_fingerprint=str(fields["scheme_fingerprint"]),
            scheme=json.dumps(fields["scheme"], sort_keys=True, separators=(",", ":")),
            seed=seed if external and seed is not None else bytes.fromhex(fields["seed"]),
            created=int(fields["created"]),
            unicode_version=str(fields["unicode_version"]),
            external_seed=external,
        )
        check = bytes.fromhex(fields["seed_check"]) if external else identity.seed_check
        widths = identity.widths
    except (KeyError, TypeError, ValueError, OverflowError):  # JSON's 1e999 is infinite
        # Without a cause, because the original error may quote the seed.
        raise FormatError("an identity lacks a field, or has a broken one") from None
    if widths.slots < 1:
        raise FormatError("an identity's scheme has no slots")
    if not hmac.compare_digest(check, identity.seed_check) or seed not in (None, identity.seed):
        raise mismatch("the index", ["seed: it was built with another one than index.seed_file's"])
    return identity


def _other_algorithm(scheme: object) -> str | None:
    """Return what differs if *scheme* has another hash algorithm than this version; else None."""
    made = scheme.get("algorithm", ALGORITHM) if isinstance(scheme, dict) else ALGORITHM
    if made == ALGORITHM:
        return None
    since = [f"{version}: {what}" for version, what in CHANGES.items() if made in range(version)]
    changes = "".join(f"\n      {each}" for each in since)
    return f"scheme.algorithm: it has {made}, wanted is {ALGORITHM}{changes}"


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError("an identity is not JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
        raise FormatError("an identity does not say its format")
    return fields


def differences(have: Identity, want: Identity) -> list[str]:
    """Return a line for each difference but the Unicode version and the time of creation."""
    named = [
        f"{name}: it has {old}, wanted is {new}"
        for name, old, new in (
            ("format", have.format, want.format),
            ("index_id", have.index_id, want.index_id),
        )
        if old != new
    ]
    named += _scheme_differences(json.loads(have.scheme), json.loads(want.scheme), "")
    if not any(line.startswith("scheme.") for line in named) and (
        have.scheme_fingerprint != want.scheme_fingerprint
    ):
        named.append(
            f"scheme_fingerprint: it has {have.scheme_fingerprint}, "
            f"wanted is {want.scheme_fingerprint}"
        )
    if not hmac.compare_digest(have.seed, want.seed):
        named.append("seed: they differ")
    return named


def _scheme_differences(have: object, want: object, path: str) -> list[str]:
    """Compare two JSON values; return a line with the path of each leaf that differs."""
    if isinstance(have, dict) and isinstance(want, dict):
        names = sorted({*have, *want})
        pairs = ((have.get(name), want.get(name), f"{path}.{name}") for name in names)
        return [line for pair in pairs for line in _scheme_differences(*pair)]
    return [] if have == want else [f"scheme{path}: it has {have}, wanted is {want}"]


def refuse_other_scheme(where: str, have: Identity, scheme: Scheme) -> None:
    """Raise `IndexMismatch` unless the index of *where* was built with this *scheme*."""
    if named := differences(have, have.of_scheme(scheme)):
        raise mismatch(where, named, have)


def mismatch(where: str, named: list[str], have: Identity | None = None) -> IndexMismatch:
    """Return the error for an index that differs, with a service's three ways out.

    *named* are the lines of `differences`. With the identity that the index has, and if only bands
    or rows differ, the message says what share of the pairs its keys find.
    """
    names = tuple(line.split(":", 1)[0] for line in named)
    shown = named if have is None else [*named, *_kept_keys(have, names)]
    lines = "".join(f"\n    {line}" for line in shown)
    return IndexMismatch(f"{where} does not fit the configuration:{lines}", names, ways=WAYS)


def _kept_keys(have: Identity, names: tuple[str, ...]) -> list[str]:
    """Return what the keys of *have* find, if nothing but bands and rows differs."""
    if not set(names) <= {"scheme.bands", "scheme.rows"}:
        return []
    shape = Shape.of(scheme_of(have.scheme))
    found = ", ".join(f"{shape.cut(at)} at {at}" for at in SHOWN_AT)
    return [
        f"its keys, {shape}, find of the pairs {found}; where that is enough at the threshold, "
        f"similarity.bands: {shape.bands} and similarity.rows: {shape.rows} keep it, with that "
        "share as similarity.recall if it is less"
    ]
