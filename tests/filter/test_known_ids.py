"""What a record means whose id is known: `input.known_id`, on files."""

import json
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from streamfilter.cli import main
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.directory.seed_file import read_seed
from tests.filter.conftest import Desk
from tests.filter.test_state import kill
from tests.support.session.forge import Forge

TEXT = "the old mill by the river was sold to a young family from the city on monday in spring"
OTHER = "the council of the town has voted for a new school and against a third bridge this year"


def file_of(desk: Desk, *records: tuple[str, str | None]) -> Path:
    path = desk.path / "in.jsonl"
    numbered = enumerate(records)
    lines = (json.dumps({"id": id_, "text": text, "row": row}) for row, (id_, text) in numbered)
    path.write_text("\n".join(lines) + "\n")
    return path


def stored(desk: Desk) -> AbstractContextManager[IndexView]:
    return viewed(desk.path / "s" / "index", seed=read_seed(desk.seed))


def came_out(desk: Desk, *records: tuple[str, str | None], **options: str) -> list[int]:
    """Return which of *records* come out."""
    assert desk.run(file_of(desk, *records), **options) == 0
    return [each["row"] for each in desk.records(desk.unique)]


@pytest.mark.parametrize("batch", [1, 2, 1_000])
@pytest.mark.parametrize(
    ("records", "judged", "updated"),
    [
        # the text stays, a correction, and a copy of it under another id
        ([("a", TEXT), ("a", TEXT), ("a", TEXT + " x"), ("b", TEXT + " x")], [0], [0, 1, 2]),
        # a copy of the earlier version is no copy any more
        ([("a", TEXT), ("a", OTHER), ("b", TEXT)], [0, 1], [0, 1, 2]),
        # an update that is a copy of another document: withheld, and its earlier text is free
        ([("a", TEXT), ("b", OTHER), ("a", OTHER), ("c", TEXT), ("a", OTHER)], [0, 1], [0, 1, 3]),
        # the other document changes, so the next version comes out
        ([("a", TEXT), ("b", TEXT), ("a", OTHER), ("b", TEXT)], [0, 2], [0, 2, 3]),
        # an empty id names nothing
        ([("", TEXT), ("", OTHER), ("", TEXT), ("", None)], [0, 1, 3], [0, 1, 3]),
        # an empty and a short text replace the earlier version, too
        ([("a", TEXT), ("a", None), ("b", TEXT)], [0, 1], [0, 1, 2]),
        ([("a", TEXT), ("a", "one"), ("b", TEXT)], [0, 1], [0, 1, 2]),
    ],
)
def test_an_update_is_judged_without_its_earlier_version(desk, records, judged, updated, batch):
    size = f"batch.documents={batch}"
    assert came_out(desk, *records, set=size) == judged
    (desk.path / "config.yaml").write_text("input: {known_id: update}")
    assert came_out(desk, *records, config=desk.path / "config.yaml", set=size) == updated


@pytest.mark.parametrize("batch", [1, 2, 1_000])
@pytest.mark.parametrize(
    ("records", "out"),
    [
        ([("a", TEXT), ("a", OTHER), ("b", OTHER), ("b", TEXT), ("c", OTHER)], [0, 2]),
        # an empty and a short text are remembered for their ids, and are no copies of each other
        ([("a", None), ("b", "one"), ("c", "one"), ("d", ""), ("a", TEXT), ("c", OTHER)],
         [0, 1, 2, 3]),
        # an empty id names nothing
        ([("", TEXT), ("", OTHER), ("", TEXT)], [0, 1]),
        # what was withheld is not known by its id
        ([("a", TEXT), ("b", TEXT), ("b", OTHER), ("b", "one")], [0, 2]),
    ],
)  # fmt: skip
def test_a_known_id_alone_makes_a_duplicate(desk, records, out, batch):
    (desk.path / "config.yaml").write_text("input: {known_id: duplicate}")
    options = {"config": str(desk.path / "config.yaml"), "set": f"batch.documents={batch}"}
    assert came_out(desk, *records, **options) == out
    ids = [each["matches"][0]["id"] for each in desk.records(desk.duplicates)
           if each["method"] == "same_id"]  # fmt: skip
    came = {row: records[row][0] for row in out}
    withheld = [(row, id_) for row, (id_, _) in enumerate(records) if row not in out and id_]
    assert ids == [id_ for row, id_ in withheld if id_ in [came[at] for at in out if at < row]]
    first = desk.outputs
    assert desk.run(desk.path / "in.jsonl", state="s", **options) == 0
    assert desk.run(desk.path / "in.jsonl", state="s", **options) == 0
    assert desk.outputs == first, "read again, each gets its verdict"


def test_what_is_withheld_for_its_id_is_not_judged_by_its_text(desk, capsys):
    path = file_of(desk, ("a", TEXT), ("a", OTHER), ("b", OTHER), ("c", f"{OTHER} x"))
    arguments = ["evaluate", str(path), "--set", "input.known_id=duplicate", "-o", "json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["withheld_by_id"] == found["precision"]["of"] == found["precision"]["right"] == 1


def test_an_empty_text_is_a_short_one_where_ids_decide(desk, capsys):
    (desk.path / "config.yaml").write_text("input: {known_id: duplicate, empty_text: drop}")
    assert desk.run(file_of(desk, ("a", TEXT)), config=desk.path / "config.yaml") == 78
    assert "set it to forward, as input.short_text" in capsys.readouterr().err


@pytest.mark.slow
def test_an_id_that_is_updated_for_ever_leaves_no_trace(desk: Desk) -> None:
    records = [("a", f"{TEXT} {row % 3}") for row in range(3_000)]
    options = {"set": "input.known_id=update", "state": "s"}
    assert came_out(desk, ("b", OTHER), *records, **options) == [*range(3_001)]
    with stored(desk) as view:
        kinds = Counter(kind for tables in view.tables for kind, _, _ in tables.dump())
        assert len(view) == kinds["document"] == kinds["id"] == 2
        columns = 1 + json.loads(view.identity.scheme)["bands"]
        assert kinds["bucket"] == 2 * columns


def test_ids_that_are_positions_are_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(desk, ("a", TEXT))
    assert desk.run(path, set="input.known_id=update", id="none") == 78
    assert "input.known_id: it is update, but ids are positions" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_and_run_again_the_outputs_are_those_of_one_run(forge: Forge, desk: Desk) -> None:
    records = [("a", TEXT), ("b", TEXT), ("a", OTHER), ("c", OTHER), ("c", TEXT), ("b", OTHER)]
    path = file_of(desk, *records)
    options = {"set": "input.known_id=update"}
    assert desk.run(path, **options) == 0
    expected = desk.outputs
    desk.clear()
    arguments = [*desk.arguments(path, state="s", **options), "--set", "batch.documents=1"]
    kill(forge, desk, "index.applied:4", *arguments)
    assert desk.run(path, state="s", **options) == 0
    assert desk.outputs == expected


def test_an_id_is_known_though_a_thousand_documents_of_it_are_out_of_date(desk: Desk) -> None:
    """They are still stored, and older than the one that is remembered."""
    text = [" ".join(f"w{row}x{word}" for word in range(12)) for row in range(3_000)]
    (desk.path / "config.yaml").write_text("index: {documents_max: 1000}")
    same = {"state": "s", "config": desk.path / "config.yaml"}
    came_out(desk, *(("all", each) for each in text), set="input.tombstones=forget", **same)
    later = desk.path / "later.jsonl"
    later.write_text(json.dumps({"id": "all", "text": "another text"}) + "\n")
    assert desk.run(later, set="input.known_id=duplicate", **same) == 0
    assert not desk.records(desk.unique)


def test_an_index_of_one_id_for_all_is_forgotten_in_parts(desk: Desk) -> None:
    """It was made while ids meant nothing: the first update names more than a batch forgets."""
    text = [" ".join(f"w{row}x{word}" for word in range(12)) for row in range(1_100)]
    same = {"state": "s", "set": "input.tombstones=forget"}
    assert len(came_out(desk, *(("all", each) for each in text), **same)) == 1_100
    same["set"] = "input.known_id=update"
    later = desk.path / "later.jsonl"
    later.write_text(json.dumps({"id": "all", "text": text[0]}) + "\n")
    assert desk.run(later, **same) == 0
    assert len(desk.records(desk.unique)) == 1
    with stored(desk) as view:
        assert len(view) == 1
