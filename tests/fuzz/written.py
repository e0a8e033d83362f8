"""What an operator writes: any configuration gives settings or problems, never an exception."""

import json
import tempfile
from pathlib import Path

from streamfilter.config.configuration import Config
from streamfilter.config.loading import PREFIX, read_config, read_settings
from streamfilter.config.yaml_file import YamlError, parse_yaml
from streamfilter.documents.fields.pointers import parse_pointer, pointer_of
from streamfilter.documents.reader import Reader
from tests.fuzz.pieces import Target, cut, joined

FILE = tempfile.TemporaryFile()  # noqa: SIM115  # without a name: no one is left to remove it
PATH = Path(f"/dev/fd/{FILE.fileno()}")
LINES_MAX = 4


def read_settings_of(data: bytes) -> None:
    """A file, variables and overrides, as texts of lines: all is said, nothing raises."""
    file, variables, overrides = [*cut(data, 3), b"", b""][:3]
    FILE.seek(0)
    FILE.truncate()
    FILE.write(file)
    FILE.seek(0)  # which also flushes
    environment = {
        PREFIX + name: value
        for name, _, value in (line.partition("=") for line in _lines(variables))
    }
    reading = read_config([PATH], environment, _lines(overrides))
    assert isinstance(reading.config, Config)
    json.dumps(reading.config.masked())
    for problem in reading.problems:
        assert problem.key
        assert str(problem)
    if not reading.problems:
        reading.config.scheme()


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").replace("\0", "").splitlines()[:LINES_MAX]


def read_yaml(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        value = parse_yaml(text)
    except YamlError:
        return
    json.dumps(value)  # plain values and nothing else: no object was made
    read_settings((), {}, [f"kafka.common={text}"])


def read_pointer(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        path = parse_pointer(text)
    except ValueError:
        return
    assert pointer_of(path) == text
    Reader(text=text, id=None)


CONFIG = b"""input: {topic: news, text: /text}
output:
  unique: news.unique
similarity: {threshold: 0.8, shingle: {kind: word, size: 3}}
kafka:
  common: {bootstrap.servers: "localhost:9092", sasl.password: ${SECRET:-x}}
batch: {documents: 100, latency: 20ms}
limits: {document: 8Mi}
"""
WORDS = (b"similarity", b"threshold", b": ", b"\n  ", b"${", b"}", b"${A:-", b"!!python/object",
         b"&a", b"*a", b"<<", b"__", b"KAFKA__COMMON__", b"null", b"kafka.common.", b"1e999",
         b"bands", b"rows", b"slots", b"verify", b"index", b"{", b"[", b"\xc2\x85")  # fmt: skip

TARGETS = {
    "configuration": Target(
        read_settings_of,
        (
            joined(CONFIG, b"INPUT__TOPIC=a\nBATCH__DOCUMENTS=7", b"http.port=0\nverify={}"),
            joined(CONFIG, b"", b"similarity.bands=20\nsimilarity.rows=8"),
        ),
        WORDS,
    ),
    "yaml": Target(read_yaml, (CONFIG, b"{a: [1, 0x1f, 1:30, no, ~, 1.5e3, '', \"\\n\"]}"), WORDS),
    "pointer": Target(read_pointer, (b"/a~1b/m~0n", b'/a"b\\'), (b"~0", b"~1", b"/-", b"/0")),
}
