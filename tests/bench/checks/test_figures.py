"""The table of saved runs is what its command prints."""

import json

from tests.bench import figures


def test_the_table_is_what_the_saved_runs_say():
    readme = (figures.RUNS / "README.md").read_text()
    _, _, rest = readme.partition(figures.BEGIN)
    assert rest.partition(figures.END)[0] == figures.table()


def test_every_saved_run_has_a_row_and_every_picture_is_named():
    readme = (figures.RUNS / "README.md").read_text()
    for path in figures.RUNS.iterdir():
        assert path.name == "README.md" or f"({path.name})" in readme, path.name


def test_the_main_readme_counts_the_kills_of_the_saved_runs():
    runs = [json.loads(path.read_text()) for path in figures.RUNS.glob("faults-*.json")]
    kills = [run for run in runs if "kills" in run]
    assert not any(run["findings"] for run in kills)
    said = f"| {sum(run['kills'] for run in kills):,} kills in the [saved runs]"
    assert said in (figures.RUNS.parents[1] / "README.md").read_text()


def test_a_missed_target_and_a_finding_are_said():
    target = {"name": "times rensa", "got": 0.4, "wanted": 0.65, "at_most": False, "met": False}
    answer = {"question": "?", "checks": [{"passed": False}], "targets": [target]}
    right, missed = figures.of_benchmark(answer)
    assert right.found == "0 of 1 results right"
    assert missed.found == "0.4 (missed)"
    run = json.loads((figures.RUNS / "faults-workers.json").read_text())
    spoilt = figures.of_kills({**run, "findings": [{}]})
    assert ": 1 lost, doubled, misjudged" in spoilt.found
