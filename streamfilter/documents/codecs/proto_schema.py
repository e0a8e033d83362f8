"""A parser of Protobuf schemas: the messages and enums of a ``.proto`` file.

Registries return a schema as text, so the text is parsed here. The parser keeps what determines the
wire format: names, numbers, types, and which fields may be absent. Options, services, extensions
and reserved numbers are skipped. A type's name is resolved only when a pointer leads into a field
of that type (`Types.find`): until then, a missing import is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from msgspec import Struct, field

from streamfilter.documents.codecs.outline import MAP, Outline
from streamfilter.documents.codecs.schemas import NAME_MAX, Broken
from streamfilter.documents.fields.pointers import EACH, Path

NESTED_MAX = 100  # nesting of messages at most; more than any compiler takes


class Field(Struct, frozen=True):
    """A field of a message."""

    name: str
    number: int
    type: str
    """Name of a scalar, or a name for `Types.find`, relative to the message. For a map: the type of
    its values."""
    json_name: str
    repeated: bool = False
    explicit: bool = False
    """Whether it may be absent. If not, a field that is not on the wire has its type's default."""
    oneof: str | None = None  # only the last of a oneof's fields on the wire is present
    map_key: str | None = None  # the type of a map's keys


class MessageType(Struct, frozen=True):
    """A message, by its full name."""

    name: str
    fields: list[Field] = field(default_factory=list)
    messages: list[MessageType] = field(default_factory=list)
    """Nested messages, in the order by which frames number them. As in Java's serializer, the
    messages that the compiler generates for map entries are not counted."""


class EnumType(Struct, frozen=True):
    """An enum: the names of its numbers."""

    name: str
    symbols: dict[int, str] = field(default_factory=dict)


Type = MessageType | EnumType


class Types:
    """The messages of one file, and all types that it can refer to."""

    def __init__(self, text: str, named: Sequence[str] = ()) -> None:
        """Read *text*, and the files *named* that it imports, or raise `Broken`."""
        self._known: dict[str, Type] = {}
        for each in (_WELL_KNOWN, *named):
            _Parser(each, self._known).file()
        self.messages = _Parser(text, self._known).file()

    def find(self, name: str, inside: str = "") -> Type | None:
        """Return the type that *name* means inside the type or package *inside*, or None."""
        if name.startswith("."):
            return self._known.get(name[1:])
        while inside:
            found = self._known.get(f"{inside}.{name}")
            if found is not None:
                return found
            inside = inside.rpartition(".")[0]
        return self._known.get(name)

    def outline(self, message: Type) -> Outline:
        return Outline(message, self._below)

    def _below(self, node: Type | str) -> str | list[tuple[Path, Type | str]]:
        if isinstance(node, MessageType):
            return [way for each in node.fields for way in self._ways(each, node.name)]
        return "a string" if isinstance(node, EnumType) else node

    def _ways(self, field: Field, inside: str) -> Iterator[tuple[Path, Type | str]]:
        each = (EACH,) if field.repeated else ()
        known: Type | str | None = SCALARS.get(field.type) or self.find(field.type, inside)
        if known is not None:  # a pointer cannot lead into an unknown type
            for name in dict.fromkeys((field.name, field.json_name)):
                yield ((name,), MAP) if field.map_key else ((name, *each), known)


SCALARS = {
    "string": "a string",
    "bytes": "bytes",
    "bool": "a boolean",
    "double": "a number",
    "float": "a number",
    **dict.fromkeys(
        ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
         "sfixed32", "sfixed64"),
        "an integer",
    ),
}  # fmt: skip
"""Scalar type → its kind, in JSON's words."""

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?(?:\*/|\Z)
    | (?P<token> "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"? | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?
    | \.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)* | [0-9][\w.]* | . )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TYPE = re.compile(r"\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_UNDERSCORES = re.compile(r"_+(.?)")
_BLOCKS, _ENDS = frozenset("{["), frozenset("}]")
_OPENING, _CLOSING = _BLOCKS | frozenset("(<"), _ENDS | frozenset(")>")


class _Parser:
    """Parses one file, with one token of look-ahead; the types it finds are shared by all files."""

    def __init__(self, text: str, known: dict[str, Type]) -> None:
        self._text, self._known = text, known
        self._tokens = self._all_tokens()
        self._line_at = 0
        self._next = ""
        self._implicit = False  # whether fields are never absent by default, as in proto3
        self._visible: tuple[str, ...] = ()
        """Keywords that may stand before a message or an enum, and limit its visibility."""
        self._take()

    def _all_tokens(self) -> Iterator[str]:
        for match in _TOKEN.finditer(self._text):
            if match["token"]:
                self._line_at = match.start()
                yield match["token"]

    def _take(self) -> str:
        taken, self._next = self._next, next(self._tokens, "")
        return taken

    def _broken(self, wanted: str) -> NoReturn:
        line = self._text.count("\n", 0, self._line_at) + 1
        found = "not there" if not self._next else "something else"
        raise Broken(f"the schema is none: {wanted} in or before line {line} is {found}")

    def _expect(self, token: str) -> None:
        if self._next != token:
            self._broken(repr(token))
        self._take()

    def _matching(self, pattern: re.Pattern[str], what: str) -> str:
        if len(self._next) > NAME_MAX or not pattern.fullmatch(self._next):
            self._broken(what)
        return self._take()

    def _number(self) -> int:
        sign = -1 if self._next == "-" and self._take() else 1
        octal = self._next.isdigit() and self._next.startswith("0")
        try:
            number = int(self._next, 8 if octal else 0)
        except ValueError:
            self._broken("a number")
        self._take()
        return sign * number

    def _pass_over(self) -> list[str]:
        """Skip a statement, up to its semicolon or the end of its block, and return its tokens."""
        passed, depth = [], 0
        while self._next:
            token = self._take()
            passed.append(token)
            depth += (token in _BLOCKS) - (token in _ENDS)
            if depth == 0 and token in (";", "}"):
                return passed
        self._broken("the end of a statement")

    def file(self) -> list[MessageType]:
        messages: list[MessageType] = []
        package = ""
        while self._next:
            match self._next:
                case "syntax":
                    self._implicit = any("proto3" in each for each in self._pass_over())
                case "package":
                    self._take()
                    package = self._matching(_TYPE, "a package's name")
                    self._expect(";")
                case "message":
                    messages.append(self._message(package, NESTED_MAX))
                case "enum":
                    self._enum(package)
                case "option":
                    self._implicit = _implicit(self._pass_over(), self._implicit)
                case "edition":
                    self._pass_over()
                    self._visible = "export", "local"
                case "import" | "service" | "extend" | ";":
                    self._pass_over()
                case word if word in self._visible:
                    self._take()
                case _:
                    self._broken("a message")
        return messages

    def _message(self, inside: str, nested: int) -> MessageType:
        self._take()
        name = self._matching(_NAME, "a message's name")
        return self._body(_joined(inside, name), nested)

    def _body(self, name: str, nested: int) -> MessageType:
        if not nested:
            self._broken("the end of messages within messages")
        message = self._known[name] = MessageType(name)
        self._expect("{")
        while self._next != "}":
            match self._next:
                case "message":
                    message.messages.append(self._message(name, nested - 1))
                case "enum":
                    self._enum(name)
                case "extensions" | "reserved" | "extend" | "option" | ";":
                    self._pass_over()
                case "oneof":
                    self._oneof(message, nested)
                case word if word in self._visible:
                    self._take()
                case _:
                    message.fields.append(self._field(name, nested, None))
        self._take()
        return message

    def _oneof(self, message: MessageType, nested: int) -> None:
        self._take()
        oneof = self._matching(_NAME, "the name of a oneof")
        self._expect("{")
        while self._next != "}":
            if self._next in ("option", ";"):
                self._pass_over()
            else:
                message.fields.append(self._field(message.name, nested, oneof))
        self._take()

    def _field(self, inside: str, nested: int, oneof: str | None) -> Field:
        label = self._take() if self._next in ("optional", "required", "repeated") else ""
        type_ = self._matching(_TYPE, "a field's type")
        map_key = None
        if type_ == "map" and self._next == "<":
            self._take()
            map_key = self._matching(_TYPE, "the type of a map's keys")
            self._expect(",")
            type_ = self._matching(_TYPE, "the type of a map's values")
            self._expect(">")
        name = self._matching(_NAME, "a field's name")
        self._expect("=")
        number = self._number()
        options = self._options()
        if type_ == "group":
            self._body(_joined(inside, name), nested - 1)
            name = name.lower()
        else:
            self._expect(";")
        return Field(
            name,
            number,
            type_,
            json_name=_json_name(options) or _UNDERSCORES.sub(lambda it: it[1].upper(), name),
            repeated=label == "repeated",
            explicit=bool(label or oneof) or not _implicit(options, self._implicit),
            oneof=oneof,
            map_key=map_key,
        )

    def _options(self) -> list[str]:
        """Return the tokens in brackets, if there are any."""
        options: list[str] = []
        depth = int(self._next == "[")
        while depth:
            if not self._next:
                self._broken("a ']'")
            options.append(self._take())
            depth += (self._next in _OPENING) - (self._next in _CLOSING)
        if options:
            self._take()
        return options

    def _enum(self, inside: str) -> None:
        self._take()
        enum = EnumType(_joined(inside, self._matching(_NAME, "an enum's name")))
        self._known[enum.name] = enum
        self._expect("{")
        while self._next != "}":
            if self._next in ("option", "reserved", ";"):
                self._pass_over()
                continue
            symbol = self._matching(_NAME, "an enum's value")
            self._expect("=")
            enum.symbols.setdefault(self._number(), symbol)
            self._options()
            self._expect(";")
        self._take()


def _joined(inside: str, name: str) -> str:
    full = f"{inside}.{name}" if inside else name
    if len(full) > NAME_MAX:
        raise Broken(f"the schema is none: a name of {len(full)} characters")
    return full


def _implicit(options: Sequence[str], otherwise: bool) -> bool:
    """Return whether fields have implicit presence by an edition's *options*, or *otherwise*."""
    for at, token in enumerate(options[:-2]):
        if token.endswith("field_presence"):
            return options[at + 2] == "IMPLICIT"
    return otherwise


def _json_name(options: Sequence[str]) -> str | None:
    for at, token in enumerate(options[:-2]):
        if token == "json_name":
            return options[at + 2][1:-1]
    return None


_WELL_KNOWN = """
syntax = "proto3";
package google.protobuf;
message Any { string type_url = 1; bytes value = 2; }
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Empty {}
message FieldMask { repeated string paths = 1; }
message DoubleValue { double value = 1; }
message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; }
message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; }
message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; }
message StringValue { string value = 1; }
message BytesValue { bytes value = 1; }
message Struct { map<string, Value> fields = 1; }
message Value {
  oneof kind {
    NullValue null_value = 1; double number_value = 2; string string_value = 3;
    bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6;
  }
}
message ListValue { repeated Value values = 1; }
enum NullValue { NULL_VALUE = 0; }
"""
"""The well-known types: any schema may import them, and no registry holds them."""
