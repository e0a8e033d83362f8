"""The directed sweep counts what happened and was judged, and nothing else; and it finds."""

import json
from pathlib import Path

import pytest

from deploy.local.real import RealKafka
from tests.faults.chain import KILLED, Chain
from tests.faults.directed import Directed, killed_at
from tests.faults.places import Place
from tests.faults.results import File, Result
from tests.long.side_by_side import FINDINGS_MAX, SideBySide
from tests.long.sweep import DIRECTED, live
from tests.support.forge import Forge
from tests.support.topics import Input, produce, read_committed

SEED = "20261126"


@pytest.fixture(scope="module")
def place(kafka: RealKafka, forge: Forge) -> Place:
    return Place(kafka.bootstrap, launch=forge.launch)


def test_two_rows_get_their_trials_and_runs_add_up_in_a_file(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"

    def sweep(trials: int) -> int:
        side_by_side: SideBySide[Place] = SideBySide(
            (7, 12),
            trials,
            2,
            lambda row, number, count, place: live(
                DIRECTED[row], count, f"{SEED}/{row}/{number}", place
            ),
            File(path, f"trials {trials}"),
        )
        return side_by_side.run([place, place])

    assert sweep(2) == 0
    assert sweep(1) == 0
    told = json.loads(path.read_text())
    assert [run["command"] for run in told["runs"]] == ["trials 2", "trials 1"]
    assert {row: each["trials"] for row, each in told["rows"].items()} == {"7": 3, "12": 3}
    assert told["rows"]["7"]["seen"] == {"killed at transaction.offsets": 3}
    assert told["rows"]["7"]["exit_codes"] == {"-9": 3, "0": 2}
    assert told["rows"]["12"]["exit_codes"] == {"0": 5}
    assert all(each["records"] >= 120 and not each["findings"] for each in told["rows"].values())


def test_a_kill_point_that_is_not_passed_is_no_trial(place: Place) -> None:
    def strike(chain: Chain) -> str:
        chain.patience = 3.0
        return killed_at("transaction.aborted")(chain)

    result = live(Directed((strike,)), 1, SEED, place)
    assert (result.trials, result.missed, result.findings) == (0, 1, [])


def test_a_record_that_came_out_twice_is_found(place: Place) -> None:
    def strike(chain: Chain) -> str:
        chain.kill(chain.moving(chain.start()))
        again, *_ = [r for r in read_committed(place.direct, chain.stage.unique) if r.key]
        twice = Input(again.value, key=again.key, headers=again.headers, timestamp=again.timestamp)
        produce(place.direct, chain.stage.unique, [twice])
        return "doubled"

    result = live(Directed((strike,)), 1, SEED, place)
    assert any("B doubled" in finding for finding in result.findings), result.findings


def test_an_exit_code_that_is_not_the_fault_s_is_found(place: Place) -> None:
    def strike(chain: Chain) -> str:
        process = chain.moving(chain.start())
        process.child.stop(60)
        return "killed" * chain.ended(process, KILLED)

    result = live(Directed((strike,)), 1, SEED, place)
    assert any("E exit" in finding for finding in result.findings), result.findings


def counting(*results: Result) -> tuple[int, SideBySide[str]]:
    """Return the exit code and the state after lives that came to these *results*."""
    left = list(results)
    side_by_side = SideBySide[str]((3,), 2, 1, lambda *_: left.pop(0), File(None, ""))
    return side_by_side.run(["slot"]), side_by_side


def happened(seen: str) -> Result:
    result = Result(lives=1)
    result.saw(seen)
    return result


def test_what_was_missed_is_tried_again() -> None:
    code, done = counting(happened("a"), happened(""), happened("b"))
    assert code == 0
    assert (done.results[3].trials, done.results[3].missed) == (2, 1)


def test_a_row_that_never_happens_is_given_up_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, done = counting(*(happened("") for _ in range(100)))
    assert code == 1
    assert done.results[3].trials == 0
    assert "rows without all of their trials: [3]" in capsys.readouterr().out


def test_an_exception_of_a_life_is_a_finding_and_ends_its_row() -> None:
    code, done = counting()  # pop from an empty list
    assert code == 1
    assert len(done.results[3].findings) == FINDINGS_MAX
    assert "harness" in done.results[3].findings[0]
