"""Boilerplate: a frozen table of the shingles that many documents of a stream share.

The table holds each shingle as its words. A token depends on the index's secret seed, so no file
can hold tokens: they are computed once, when a sketcher is made. The file names the normalisation
and the shingling that its words come from, and it is refused for any other. Its digest is a part of
the scheme, as the digest of a list of stop words is.

File: a line with the format, a digest of 16 bytes, and the packed content. Content: a line of JSON,
the words' lengths, the words, and for each shingle the numbers of its words.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.similarity.columns import U32, U64, Flags
from streamfilter.similarity.scheme import ALGORITHM, Normalisation, Shingling

MAGIC = b"streamfilter boilerplate 1\n"
SHINGLES_MAX = 200_000  # shingles of a table. Most sites have some thousand.
WORD_BYTES_MAX = 256  # longest word of a table, in bytes: longer ones are data inside a page
CONTENT_MAX = 64 << 20  # bytes of the unpacked content: what a file may unpack to
FEW = 8  # a document with fewer shingles left is one that has few left
LEFT = ("all", "enough", "few")
"""What a table leaves of a document: all its shingles, enough of them, or fewer than `FEW`."""
_DIGEST_BYTES = 16


class TableError(ValueError):
    """A file is no table, or it is one for other settings."""


class Sample(Struct, frozen=True):
    """The sample that a table was counted on."""

    documents: int  # documents with different texts
    least: int  # documents that a shingle of the table stands in, at least
    error: int  # shingles in up to this many more documents than `least` may be missing
    left: tuple[int, int, int]
    """How many documents the table leaves all, enough, few of their shingles (`LEFT`)."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Return `left` as shares of the documents."""
        return tuple(each / max(self.documents, 1) for each in self.left)


class Table(Struct, frozen=True, eq=False):
    """The shingles of a table, as numbers of words."""

    normalisation: dict[str, Any]  # `Normalisation.as_fields` of the texts
    shingling: dict[str, Any]
    sample: Sample
    words: tuple[bytes, ...]  # distinct normalised words, sorted
    shingles: U32  # (n, size) numbers of the words, sorted
    digest: str  # 32 hexadecimal digits of the content
    path: str = ""

    @classmethod
    def of(
        cls,
        shingles: Iterable[tuple[bytes, ...]],
        normalisation: Normalisation,
        shingling: Shingling,
        sample: Sample,
    ) -> Table:
        """Return the table of these *shingles*, in any order."""
        ordered = sorted(set(shingles))
        words = sorted({word for each in ordered for word in each})
        number = {word: place for place, word in enumerate(words)}
        rows = np.array([[number[word] for word in each] for each in ordered], np.uint32)
        table = cls(
            _fields_of(normalisation), _shingling_of(shingling), sample, tuple(words),
            rows.reshape(-1, shingling.size), "",
        )  # fmt: skip
        return _parsed(table.content(), "")

    def __len__(self) -> int:
        return len(self.shingles)

    def content(self) -> bytes:
        """Return the content of the file, before it is packed."""
        head = {
            "algorithm": ALGORITHM,
            "normalisation": self.normalisation,
            "shingling": self.shingling,
            "sample": {
                "documents": self.sample.documents,
                "least": self.sample.least,
                "error": self.sample.error,
                "left": list(self.sample.left),
            },
            "words": len(self.words),
            "shingles": len(self.shingles),
        }
        line = json.dumps(head, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        lengths = np.array([*map(len, self.words)], "<u4").tobytes()
        return line + lengths + b"".join(self.words) + self.shingles.astype("<u4").tobytes()

    def to_bytes(self) -> bytes:
        return MAGIC + bytes.fromhex(self.digest) + zlib.compress(self.content(), 9)

    def require(self, normalisation: Normalisation, shingling: Shingling) -> None:
        """Raise `TableError` for other settings than those that the table was made with."""
        wanted = {"normalise": _fields_of(normalisation), "shingle": _shingling_of(shingling)}
        have = {"normalise": self.normalisation, "shingle": self.shingling}
        for part, settings in wanted.items():
            for name in sorted({*settings, *have[part]}):
                mine, yours = have[part].get(name), settings.get(name)
                if mine != yours:
                    raise TableError(
                        f"it was made with similarity.{part}.{name} {_said(mine)}, and the "
                        f"configuration has {_said(yours)}"
                    )


def _said(value: object) -> str:
    return "off" if value in (None, False) else json.dumps(value)


def _fields_of(normalisation: Normalisation) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(normalisation.as_fields()))
    fields.pop("boilerplate", None)
    return fields


def _shingling_of(shingling: Shingling) -> dict[str, Any]:
    """Return what shapes the words of a shingle: not how a token is cut."""
    return {"kind": shingling.kind, "size": shingling.size}


def parse(data: bytes, path: str = "") -> Table:
    """Return the table in the bytes of a file, or raise `TableError`."""
    if not data.startswith(MAGIC):
        known = data.startswith(MAGIC.partition(b" ")[0] + b" boilerplate ")
        raise TableError(
            "its format is of another version" if known else "it is no table of boilerplate"
        )
    begin = len(MAGIC) + _DIGEST_BYTES
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(data[begin:], CONTENT_MAX + 1)
    except zlib.error:
        content = b""
    whole = unpacker.eof and not unpacker.unused_data and len(content) <= CONTENT_MAX
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
    if not whole or digest != data[len(MAGIC) : begin]:
        raise TableError("it is damaged or cut short")
    return _parsed(content, path)


def _parsed(content: bytes, path: str) -> Table:
    line, _, rest = content.partition(b"\n")
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    try:
        head = json.loads(line)
        if head["algorithm"] != ALGORITHM:
            raise TableError(f"its words are those of algorithm {head['algorithm']}")
        sample, size = head["sample"], int(head["shingling"]["size"])
        everything, enough, few = map(int, sample["left"])
        words, count = int(head["words"]), int(head["shingles"])
        lengths = np.frombuffer(rest, "<u4", count=words)
        begin = 4 * words
        ends = begin + np.cumsum(lengths, dtype=np.int64)
        starts = ends - lengths
        text = int(ends[-1]) if words else begin
        rows = np.frombuffer(rest, "<u4", offset=text).astype(np.uint32).reshape(count, size)
        if count > SHINGLES_MAX or (count and int(rows.max()) >= words):
            raise TableError("it is damaged")
        return Table(
            head["normalisation"],
            head["shingling"],
            Sample(
                int(sample["documents"]), int(sample["least"]), int(sample["error"]),
                (everything, enough, few),
            ),
            tuple(rest[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)),
            rows,
            digest,
            path,
        )  # fmt: skip
    except TableError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise TableError("it is damaged") from None


_TABLES: dict[str, Table] = {}
"""The tables that this process has read, by digest: a scheme names its table by digest alone."""


def read_table(path: Path) -> Table:
    """Return the table at *path*, known to this process's sketchers from now on."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise TableError("it is no file")
    with open(path, "rb") as file:
        data = file.read(CONTENT_MAX + 1)
    return known(parse(data, str(path.resolve())))


def known(table: Table) -> Table:
    """Make *table* known to the sketchers of this process, and return it."""
    return _TABLES.setdefault(table.digest, table)


def table_of(digest: str) -> Table:
    """Return the table with this *digest*, or raise `TableError`: it was not read."""
    if digest not in _TABLES:
        raise TableError(
            f"the scheme drops the boilerplate of table {digest}, and no setting names its file; "
            "set similarity.normalise.boilerplate to it"
        )
    return _TABLES[digest]


class TokenSet:
    """A frozen set of tokens that whole columns are tested against.

    A table of flags, addressed by a token's lowest bits, settles most tokens that are not in the
    set. The others are compared with all tokens that have the same highest bits: at most about ten,
    because tokens are uniform. A binary search takes twice the time.
    """

    def __init__(self, tokens: U64) -> None:
        """Make it of distinct, ascending *tokens*."""
        bits = max(len(tokens), 1).bit_length() + 1
        self.tokens = tokens
        self._mask, self._shift = np.uint64((1 << bits) - 1), np.uint64(64 - bits + 1)
        self._near = np.zeros(1 << bits, np.bool_)
        self._near[tokens & self._mask] = True
        ends = np.cumsum(np.bincount((tokens >> self._shift).astype(np.int64),
                                     minlength=1 << (bits - 1)))  # fmt: skip
        self._starts = np.concatenate(([0], ends[:-1]))
        self._most = int(np.diff(ends, prepend=0).max())
        self._padded = np.concatenate((tokens, np.repeat(tokens[-1:], self._most)))

    def __len__(self) -> int:
        return len(self.tokens)

    def __call__(self, values: U64) -> Flags:
        found: Flags = self._near[values & self._mask]
        rows = np.flatnonzero(found)
        chosen = values[rows]
        starts = self._starts[(chosen >> self._shift).astype(np.int64)]
        equal = np.zeros(len(rows), np.bool_)
        for place in range(min(self._most, len(self))):
            equal |= self._padded[starts + place] == chosen
        found[rows] = equal
        return found

    def places(self, values: U64) -> NDArray[np.intp]:
        """Return the place of each of *values*, which are in the set, in `tokens`."""
        return np.searchsorted(self.tokens, values)


def left_of(dropped: Sequence[int] | NDArray[np.int64], set_sizes: NDArray[np.int64]) -> list[int]:
    """Return how many documents have all, enough, few of their shingles left (`LEFT`).

    *dropped* and *set_sizes* are the columns of sketches; a text without shingles has all left.
    """
    dropped = np.asarray(dropped, np.int64)
    few = (dropped < 0) | ((dropped > 0) & (set_sizes < FEW))
    untouched = dropped == 0
    return [int(untouched.sum()), int((~untouched & ~few).sum()), int(few.sum())]
