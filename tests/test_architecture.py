"""The house, as a test: one library one room, imports as the floor plan has them, no file too long.

`FLOOR_PLAN` says of each room what it may import, from the top down. `LIBRARIES` says who alone
may touch what. A line that fits nowhere is two lines.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "streamfilter"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 400

NOUNS = ("model", "stops", "killpoints")
"""Everybody may use these, unless a room says otherwise below."""

FLOOR_PLAN = {
    # room: what it may import; read from the top, imports point down
    "__main__": "cli",
    "cli": "commands process",
    "commands": "backup bench demo inquiry preflight kafka files quality assembly monitoring "
    "config documents matching entities similarity index process stories",
    "demo": "bench kafka engine quality config documents matching process stories",
    "bench": "documents files similarity stories",
    "inquiry": "files assembly config documents matching entities similarity index process",
    "preflight": "backup kafka files assembly monitoring quality config documents index process "
    "similarity cleaning",
    # the wire, the life of the tasks that work on it, and the engine that moves their batches
    "kafka": "cluster tasks engine quality assembly monitoring config documents matching "
    "similarity index process workers",
    "cluster": "tasks engine assembly documents workers matching similarity index process",
    "tasks": "backup engine assembly matching similarity index process",
    "engine": "workers monitoring quality documents matching similarity index process",
    # the same filter over files
    "files": "backup quality assembly config collection workers documents matching similarity "
    "index process",
    "assembly": "backup monitoring config documents matching entities similarity index process "
    "workers",
    "monitoring": "quality matching entities similarity index process",
    # judging the judge: before, and live
    "quality": "documents matching entities similarity index process",
    "config": "entities similarity cleaning",
    # the library: what `from streamfilter import Deduplicator` gives
    "collection": "workers documents matching similarity index",
    # reading and sketching, here or in other processes
    "workers": "documents matching similarity",
    "documents": "entities similarity cleaning",
    # the filter: true with Kafka replaced by a text file
    "matching": "entities similarity index",
    "entities": "similarity index cleaning",
    # copies of the memory outside of its host
    "backup": "index",
    # the memory, which keeps the columns that the mathematics makes
    "index": "similarity",
    "similarity": "cleaning",
    # what is no part of the story
    "cleaning": "",
    # what needs nothing of ours but the nouns
    "process": "",
    "stories": "",
    "model": "",
    "stops": "",
    "killpoints": "",
}

INNER_FLOORS = {
    # room: its folders from the top; imports between its files point down, too
    "kafka": "kafka/lifecycle kafka kafka/ports kafka/brokers kafka/connection",
    "monitoring": "monitoring/web monitoring",
    "quality": "quality quality/sample quality/live",
    "config": "config config/settings",
    "documents": "documents/formats documents documents/codecs documents/fields",
    "matching": "matching matching/verdict matching/blocking",
    "index": "index/memory index/directory index/rocks index/bands index",
}

LIBRARIES = {
    "confluent_kafka": {"kafka"},
    "rocksdict": {"index"},
    "s3fs": {"backup"},  # and what it brings: fsspec, botocore, aiohttp
    "fsspec": {"backup"},
    "botocore": {"backup"},
    "aiohttp": {"backup"},
    "rapidfuzz": {"entities"},
    "lxml": {"cleaning"},
    "re2": {"cleaning"},
    "prometheus_client": {"monitoring"},
    "matplotlib": {"monitoring"},
    "opentelemetry": {"monitoring"},
    "requests": {"monitoring"},
    "click": {"cli", "commands", "demo", "process"},
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "yaml": {"config"},
    "avro": {"documents"},
    "xxhash": {"files"},  # sums of the lines that were judged
    "pyarrow": {"files"},  # rows of Parquet, and snappy
    "zstandard": {"files"},
}

VALUES = {"Struct", "field", "to_builtins", "structs"}  # of msgspec, in every room
# These rooms decode with msgspec; `collection` checks a scheme that a caller made.
DECODING = {"documents", "matching", "kafka", "monitoring", "workers", "cluster", "collection"}
DATACLASSES = {
    # the law and the truth are plain Python
    *("matching/law.py", "bench/truth.py"),
    # what `--help` and `--version` import
    *("stops.py", "similarity/kernel/choice.py"),
    # fields that a repr hides
    *("documents/codecs/registry_calls.py", "documents/codecs/registry_tokens.py"),
    # fields that are computed at the start
    *("matching/verdict/verification.py", "monitoring/web/pages.py"),
    # records, and what inherits from them
    *("model.py", "cluster/judge.py", "kafka/lifecycle/seed_sources.py"),
}

EXTRAS = {
    # extra: the packages that only it installs
    "records": {"rapidfuzz"},
    "html": {"lxml"},
    "patterns": {"re2"},
    "plot": {"matplotlib"},
    "avro": {"avro"},
    "parquet": {"pyarrow"},
    "zstd": {"zstandard"},
    "s3": {"s3fs", "fsspec", "aiobotocore", "botocore", "aiohttp"},
    "otel": {"opentelemetry", "requests"},
}
WITH_EXTRAS = {
    # files that begin with an extra's package, so others import them inside functions only
    *("documents/codecs/avro_values.py", "documents/formats/avro.py", "files/formats/avro.py"),
    *("files/formats/arrow_values.py", "files/formats/parquet.py", "monitoring/otlp.py"),
}

TOP_FILES_MAX = 8


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Return (module, for types only) of every import, wherever in the file it stands."""
    return list(_imports(parsed(path), path))


def _imports(tree: ast.Module, path: Path) -> Iterator[tuple[str, bool]]:
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in typing_only


def first_imports(path: Path) -> set[str]:
    """Return the modules that an import of *path* imports at once: those outside of functions."""
    found, left = set[str](), list[ast.AST](parsed(path).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            left += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
    return found


def our_rooms(path: Path) -> Iterator[str]:
    for module, typing_only in imports(path):
        parts = module.split(".")
        if parts[0] == "streamfilter" and not typing_only and len(parts) > 1:
            yield parts[1]


MODULES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in FILES}


def modules_of(path: Path) -> set[Path]:
    """Return our files that *path* imports, also for types only."""
    named = (module if module in MODULES else module.rpartition(".")[0]
             for module, _ in imports(path))  # fmt: skip
    return {MODULES[name] for name in named if name in MODULES}


def test_every_file_has_a_room():
    assert {room_of(path) for path in FILES} <= {"__init__", *FLOOR_PLAN}


def test_the_top_floor_is_seen_at_a_glance():
    assert len(list(PACKAGE.glob("*.py"))) <= TOP_FILES_MAX


def test_the_floor_plan_has_no_circle():
    """Each room is named above all that it may import."""
    floors = list(FLOOR_PLAN)
    for room, below in FLOOR_PLAN.items():
        assert all(floors.index(other) > floors.index(room) for other in below.split()), room


@pytest.mark.slow
def test_no_files_of_a_room_import_each_other_in_a_circle():
    """So each can be read after those that it imports."""
    left = {path: {other for other in modules_of(path) if room_of(other) == room_of(path)}
            for path in FILES}  # fmt: skip
    while free := [path for path, needs in left.items() if not needs & left.keys()]:
        for path in free:
            del left[path]
    assert not left


def test_a_plain_install_imports_no_package_of_an_extra():
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    assert EXTRAS.keys() == extras["optional-dependencies"].keys() - {"test"}
    first = {path: first_imports(path) for path in FILES}
    reached = set[str]().union(*EXTRAS.values())
    found: set[Path] = set()
    while more := {
        path
        for path in set(FILES) - found
        if any(name in reached or name.partition(".")[0] in reached for name in first[path])
    }:
        found |= more
        reached |= {name for name, path in MODULES.items() if path in more}
    assert {path.relative_to(PACKAGE).as_posix() for path in found} == WITH_EXTRAS


def test_imports_inside_a_room_point_down():
    def floor(path: Path) -> int:
        floors = INNER_FLOORS[room_of(path)].split()
        place = path.relative_to(PACKAGE).with_suffix("").as_posix()
        return floors.index(max((part for part in floors if place.startswith(part)), key=len))

    for path in (path for path in FILES if room_of(path) in INNER_FLOORS):
        below = [other for other in modules_of(path) if room_of(other) == room_of(path)]
        assert all(floor(other) >= floor(path) for other in below), path


def test_one_library_one_room():
    for path in FILES:
        for module, _ in imports(path):
            allowed = LIBRARIES.get(module.split(".")[0], {room_of(path)})
            assert room_of(path) in allowed, f"{path}: {module} belongs into {allowed}"


def test_a_room_imports_what_the_plan_allows():
    for path in (path for path in FILES if room_of(path) != "__init__"):
        room = room_of(path)
        nouns = () if room in ("similarity", *NOUNS) else NOUNS
        allowed = {room, *FLOOR_PLAN[room].split(), *nouns}
        assert {other for other in our_rooms(path) if other in FLOOR_PLAN} <= allowed, path


def test_a_room_has_no_face_that_everybody_pays_for():
    """Who imports one file of a room imports its `__init__` too, and all that that imports."""
    for face in PACKAGE.glob("*/**/__init__.py"):
        assert not [module for module, _ in imports(face) if module.startswith("streamfilter")], (
            face
        )


@pytest.mark.parametrize(
    ("made", "most"),
    [
        (("memory.MemoryIndex", "opening.open_index", "rocks_index.RocksIndex"), 4),  # carriers
        (("job.Job", "task.Task", "service.Service"), 5),  # roles of a process
    ],
)
def test_a_new_kind_touches_few_files_outside_of_its_room(made, most):
    users = {path for path in FILES if any(name.endswith(made) for name, _ in imports(path))}
    assert len({path for path in users if room_of(path) not in ("index", "tasks")}) in range(
        1, most
    )


def test_no_file_is_longer_than_one_idea():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= LINES_MAX, path


@pytest.mark.slow
def test_values_are_structs_and_only_some_rooms_decode_with_msgspec():
    """A dataclass costs a start forty times as much; `streamfilter/README.md` says where one is."""
    made = ("dataclass", "noun")
    for path in FILES:
        nodes = list(ast.walk(parsed(path)))
        decorators = {
            ast.unparse(each).partition("(")[0]
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for each in node.decorator_list
        }
        assert decorators.isdisjoint(made) or str(path.relative_to(PACKAGE)) in DATACLASSES, path
        used = {
            each.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module == "msgspec"
            for each in node.names
        } | {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "msgspec"
        }
        assert used <= VALUES or room_of(path) in DECODING, (path, used - VALUES)


def test_every_library_we_depend_on_has_its_room():
    """A new dependency must be given a room, or it will be everywhere."""
    free = {"numpy", "msgspec"}  # columns and values cross several rooms
    imported = {"pyyaml": "yaml"}
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    block = text.partition("dependencies = [")[2].partition("\n]")[0]
    lines = [line.strip().strip('",') for line in block.splitlines() if '"' in line]
    named = {re.split("[>=[]", line)[0].replace("-", "_") for line in lines}
    assert {imported.get(name, name) for name in named} <= LIBRARIES.keys() | free


CLIENT_ROOMS = {"engine", "kafka", "tasks"}
NOTING = {
    # words and values
    *("str", "repr", "len", "isinstance", "type", "max", "append", "join", "code", "name"),
    *("monotonic", "time", "sleep"),
    # what an error means to us
    *("translated", "as_stop", "too_late", "unanswered", "without_frames", "is_closed_transaction"),
    *("refuse_broken", "needed", "why", "blame", "blame_last", "_text"),
    # what others are to know
    *("note", "loudly", "alive", "spent", "warning", "debug", "enter", "_alive", "_say_denied"),
    *("transaction", "_learn_pace", "_count_missing"),
}
"""What an `except` or `finally` block may call beside exceptions: none of it reaches a client."""


def handlers(path: Path) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield (kind, body) of every block of *path* that may run while an exception is handled."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ExceptHandler):
            yield "except", node.body
        elif isinstance(node, ast.Try) and node.finalbody:
            yield "finally", node.finalbody


def clients_of(path: Path) -> bool:
    library = "confluent_kafka" in path.read_text() or room_of(path) != "kafka"
    return room_of(path) in CLIENT_ROOMS and library


def test_no_client_is_called_while_an_exception_is_handled():
    """confluent-kafka keeps that exception for ever if its C code then raises: an index each time.

    So a handler notes what happened, or raises; what acts comes behind it. To close is allowed in
    a `finally`: a client that is closed answers no one.
    """
    blocks = ((path, *each) for path in filter(clients_of, FILES) for each in handlers(path))
    for path, kind, body in blocks:
        calls = [
            node.func for line in body for node in ast.walk(line) if isinstance(node, ast.Call)
        ]
        called = {each.id if isinstance(each, ast.Name) else each.attr for each in calls}
        acts = {name for name in called - NOTING if not name[0].isupper()}
        acts -= {"close"} if kind == "finally" else set()
        assert not acts, f"{path}:{body[0].lineno} calls {acts} in its `{kind}` block"


def test_a_context_manager_lets_what_it_catches_rise():
    """Its whole `__exit__` runs while the exception is handled, also what follows an `except`."""
    trees = (parsed(path) for path in FILES if room_of(path) in CLIENT_ROOMS)
    for node in (each for tree in trees for each in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef) and "contextmanager" in map(
            ast.unparse, node.decorator_list
        ):
            caught = [each for each in ast.walk(node) if isinstance(each, ast.ExceptHandler)]
            assert all(isinstance(each.body[-1], ast.Raise) for each in caught), node.name


def test_the_nouns_need_nothing_but_the_standard_library_and_msgspec():
    for path in (path for path in FILES if room_of(path) in (*NOUNS, "stories")):
        assert set(our_rooms(path)) <= {room_of(path), *NOUNS}, path
        assert not {module.split(".")[0] for module, _ in imports(path)} & {"numpy", *LIBRARIES}
