"""Layout: detects files that should hold a record on each line, and do not.

Without this check each of their lines would be a broken record. Only the first lines are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from streamfilter.stops import BrokenInput

LINES_SEEN = 4
TAR_AT, TAR = 257, b"ustar"  # offset and magic bytes of a tar archive
BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"PAR1": ("a Parquet file", "read it by --format parquet"),
    b"Obj\x01": ("an Avro container file", "read it by --format avro"),
    b"ORC": ("an ORC file", "write it as Parquet, and read it by --format parquet"),
    b"ARROW1": ("an Arrow file", "write it as Parquet, and read it by --format parquet"),
    b"\xff\xfe\0\0": ("UTF-32", "convert it, such as by `iconv -f UTF-32 -t UTF-8 IN > OUT`"),
    b"\xff\xfe": ("UTF-16", "convert it, such as by `iconv -f UTF-16 -t UTF-8 IN > OUT`"),
    b"\xfe\xff": ("UTF-16", "convert it, such as by `iconv -f UTF-16 -t UTF-8 IN > OUT`"),
}


def begun(lines: Iterator[bytes], path: str, json_values: bool) -> Iterator[bytes]:
    """Return all *lines* of the file at *path*; raise `BrokenInput` if they are no records."""
    first = [*islice(lines, LINES_SEEN if json_values else 1)]
    what = _foreign(first) or (_layout(first) if json_values else None)
    if what is not None:
        raise BrokenInput(f"{path} is {what[0]}, not a record on each line\n    cure: {what[1]}")
    return chain(first, lines)


def _foreign(lines: Sequence[bytes]) -> tuple[str, str] | None:
    begin = lines[0] if lines else b""
    if begin.startswith(TAR, TAR_AT):
        return "a tar archive", "unpack it, such as by `tar -xOf IN > OUT`"
    return next((what for magic, what in _FOREIGN.items() if begin.startswith(magic)), None)


def _layout(lines: Sequence[bytes]) -> tuple[str, str] | None:
    """Return the layout of JSON *lines* and the cure, or None for one value on each line.

    A value continues on the next line if its line ends with a comma, a colon or an opening bracket.
    One broken first line is not enough: it must not refuse the other lines.
    """
    stripped = [line.removeprefix(BOM).strip() for line in lines]
    first, *others = [line for line in stripped if line] or [b""]
    goes_on = first.endswith((b"{", b"[", b",", b":"))
    inside = first[1:].lstrip()[:1]
    if first.startswith(b"[") and inside in b'{["' and (goes_on or not others):
        return "one JSON array", "write a line for each element: `jq -c '.[]' IN > OUT`"
    if all(line.startswith(b"\x1e{") for line in (first, *others)):
        return "a JSON text sequence", "leave out its marks: `tr -d '\\036' < IN > OUT`"
    if first.startswith(b"{") and b"}\r{" in first and not others:
        return "lines that end with CR alone", "convert them: `tr '\\r' '\\n' < IN > OUT`"
    if first.startswith(b"{") and goes_on and others and others[0][:1] in b'"}':
        return "JSON over several lines", "write a line for each value: `jq -c . IN > OUT`"
    return None
