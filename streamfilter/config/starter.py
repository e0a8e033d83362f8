"""The starter configuration: the minimum of settings, with comments.

`streamfilter init` writes it; `config/streamfilter.yaml` is the one of the defaults::

    python -m streamfilter.config.starter > config/streamfilter.yaml
"""

import json
import re
import sys
from importlib.resources import files

from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.config.loading import literal
from streamfilter.config.yaml_file import parse_yaml

SCHEMA_LINE = "# yaml-language-server: $schema="
COMMENT_COLUMN = 35

EXAMPLES = ("logs", "mail", "news", "press", "social", "tickets", "titles", "web")
"""Examples of config/ whose settings fit any topic of such texts. Their files are here, too."""

_LEAST = "The settings that each topic needs."
_PLAIN = re.compile(r"[A-Za-z/][\w./-]*", re.ASCII)


class StarterFile(Struct, frozen=True):
    """The known facts about a first topic."""

    topic: str = Config().input.topic
    format: str = Config().input.format
    text: str = Config().input.text[0]
    id: str | None = Config().input.id
    group: str = Config().kafka.group
    brokers: str = str(Config().kafka.common["bootstrap.servers"])
    schema: str = "schemas/configuration.json"  # where the JSON Schema is, seen from the file
    name: str = "config/streamfilter.yaml"  # how the file is called, in its own words
    example: str | None = None  # the one of `EXAMPLES` whose settings the file has
    state: str | None = None  # the directory of the index; None: the default

    def text_of_file(self) -> str:
        given, settings = _settings_of(self.example) if self.example else ([], [])
        parts = [*self._head(), *self._input(), *given, "", *settings]
        return "\n".join([*parts, *self._output(), "", *self._index(), *self._kafka()])

    def _head(self) -> list[str]:
        what = f"The settings of the example {self.example}." if self.example else _LEAST
        return [
            f"{SCHEMA_LINE}{self.schema}",
            f"# {what} This command lists what is wrong or missing:",
            f"#   streamfilter check --config {self.name} --connect",
            "# Every other setting, with its default and its reason: streamfilter init --reference",
        ]

    def _input(self) -> list[str]:
        lines = ["input:"]
        if self.format == "text":
            lines.append(_line("topic", self.topic, "each record's value is its text"))
            return [*lines, "  format: text"]
        comment = "JSON records; text and id are found by JSON Pointer"
        lines.append(_line("topic", self.topic, comment))
        nameless = "" if self.id else "none: a record's place in the topic is its id"
        return [*lines, _line("text", self.text), _line("id", self.id, nameless)]

    def _output(self) -> list[str]:
        head = "output:".ljust(COMMENT_COLUMN)
        names = {name: f"{self.topic}.{name.replace('_', '-')}" for name in _OUTPUTS}
        return [
            f"{head}# the topics must exist; `check --connect --apply` creates them",
            *(_line(name, topic) for name, topic in names.items()),
        ]

    def _index(self) -> list[str]:
        return [] if self.state is None else ["index:", _line("path", self.state), ""]

    def _kafka(self) -> list[str]:
        return [
            "kafka:",
            _line("group", self.group),
            "  common:",
            f"    bootstrap.servers: ${{KAFKA_BOOTSTRAP_SERVERS:-{self.brokers}}}",
            "",
        ]


def example_file(name: str) -> str:
    return (files("streamfilter.config") / "examples" / f"{name}.yaml").read_text("utf-8")


def _settings_of(example: str) -> tuple[list[str], list[str]]:
    """Return the lines that an example adds to the input, and the sections that follow it."""
    sections = [each.splitlines() for each in example_file(example).split("\n\n")]
    ours = ("  topic:", "  text:", "  id:")
    head, after = sections[0], sections[1:]
    added = [line for line in head[head.index("input:") + 1 :] if not line.startswith(ours)]
    own = [each for each in after if each[0] not in ("output:", "kafka:")]
    return added, [line for section in own for line in [*section, ""]]


_OUTPUTS = ("unique", "duplicates", "dead_letter")


def _line(key: str, value: str | None, comment: str = "") -> str:
    line = f"  {key}: {_scalar(value)}"
    return f"{line.ljust(COMMENT_COLUMN)}# {comment}" if comment else line


def _scalar(value: str | None) -> str:
    """Return *value* as YAML that means just this: quoted and escaped where it needs be."""
    if value is None:
        return "null"
    if _PLAIN.fullmatch(value) and parse_yaml(value) == value:
        return value
    quoted = json.dumps(literal(value), ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


if __name__ == "__main__":
    sys.stdout.write(StarterFile().text_of_file())
