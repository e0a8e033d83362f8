"""`check --connect` reads the latest records as `run` would; its cures repeat the files."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.engine.messages.changelog_header import Header, encode_header
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.kafka.topic_reader import POLL_SECONDS, TopicReader
from streamfilter.kafka.topic_sample import share_of
from tests.support.stage import Stage
from tests.support.topics import Input, produce


@pytest.fixture
def stage(embedded_stage: Callable[..., Stage]) -> Stage:
    return embedded_stage()


WORDS = "the old mill by the river was sold to a young family from the city on monday"


def filled(stage: Stage, good: int, broken: int) -> None:
    values = [{"id": f"a{n}", "text": f"{WORDS} {n}"} for n in range(good)]
    values += [{"uuid": f"b{n}", "body": f"{WORDS} {n}"} for n in range(broken)]
    produce(stage.bootstrap, stage.input, [Input(json.dumps(each).encode()) for each in values])


def checked(
    stage: Stage, capsys: pytest.CaptureFixture[str], **sections: dict[str, object]
) -> tuple[int, str, Path]:
    configuration = stage.configuration(**sections)
    code = cli.main(["check", "--connect", "--config", str(configuration)])
    return code, capsys.readouterr().out, configuration


def test_pointers_that_no_record_has_are_a_problem_with_what_they_have_instead(stage, capsys):
    filled(stage, 0, 30)
    code, said, configuration = checked(stage, capsys)
    assert code == 78, said
    assert f"30 of the latest 30 records of {stage.input} cannot be read" in said
    assert "30 missing_text" in said
    assert "--set input.text=/body" in said
    assert f"`streamfilter peek --config {shlex.quote(str(configuration))}`" in said
    code, said, _ = checked(stage, capsys, input={"topic": stage.input, "text": "/body",
                                                  "id": "/uuid"})  # fmt: skip
    assert code == 0, said


def test_some_broken_records_are_a_warning_and_a_share_that_would_pause_is_a_problem(stage, capsys):
    filled(stage, 90, 10)
    code, said, _ = checked(stage, capsys)
    assert code == 0, said
    assert "warning: input.text: 10 of the latest 100 records" in said
    filled(stage, 0, 100)
    code, said, _ = checked(stage, capsys)
    assert code == 78, said
    assert "110 of the latest 200 records" in said


def test_what_short_partitions_lack_the_longer_ones_give(embedded_stage, capsys):
    """`init` and `check` looked at 67 of 200 records, as two of three partitions were empty."""
    stage = embedded_stage(partitions=3)
    filled(stage, 0, 300)  # without a key: all are in one partition
    code, said, _ = checked(stage, capsys)
    assert code == 78, said
    assert "200 of the latest 200 records" in said
    shares = {(300, 0, 0): 200, (9, 300, 40): 151, (0,): 0, (9, 9): 9, (300,) * 7: 29}
    assert {held: share_of(held, 200) for held in shares} == shares
    assert share_of([5, 5, 5], 1) == 1, "one of each partition at least"


def test_a_sample_ends_with_what_came_if_the_rest_does_not_come(stage):
    """As of a topic that is cut off, or whose leader goes away, between the question and it."""
    filled(stage, 5, 0)
    with TopicReader(load_config((stage.configuration(),)), stage.input) as reader:
        found = reader.records({0: (2, 9)}, patience=3 * POLL_SECONDS)
        assert [each.source.offset for each in found] == [2, 3, 4]


def test_a_scope_that_no_record_has_is_a_warning(stage, capsys):
    filled(stage, 5, 0)
    code, said, _ = checked(stage, capsys, index={"scope_field": "/tenent"})
    assert code == 0, said
    assert "warning: index.scope_field: none of 5 documents has /tenent" in said


def test_a_wrong_pattern_of_topics_is_the_only_problem(stage, capsys):
    code, said, _ = checked(stage, capsys, input={"topics": ["g.in.?"]})
    assert code == 78
    assert "1 problem found" in said, said


def test_an_empty_topic_is_no_problem(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = checked(stage, capsys)
    assert code == 0, said


@pytest.mark.slow
def test_the_cure_of_a_missing_topic_repeats_the_files(stage, capsys):
    code, said, configuration = checked(
        stage, capsys, output={"unique": f"{stage.unique}.gone", "duplicates": stage.duplicates}
    )
    named = shlex.quote(str(configuration))
    assert code == 78
    assert f"`streamfilter check --config {named} --connect --apply` creates it" in said
    apply = ["check", "--config", str(configuration), "--set", "log.level=loud", "--apply"]
    assert cli.main(apply) == 78
    assert "no topic was created, because of the others" in capsys.readouterr().out
    assert cli.main(["run", "--config", str(configuration)]) == 78
    told = capsys.readouterr().err
    assert f"`streamfilter check --config {named} --connect --apply` creates it" in told


@pytest.mark.slow
def test_records_in_an_output_before_the_first_of_ours_are_a_warning_with_their_number(
    stage, capsys, caplog
):
    filled(stage, 30, 0)
    code, said, _ = checked(stage, capsys)
    assert (code, "judged none" in said) == (0, False), said
    produce(stage.bootstrap, stage.unique, [Input(b"of another program")] * 3)
    warning = f"output.unique: topic {stage.unique!r} has up to 3 records, and the group "
    for more in ({}, {"input": {"topic": stage.input, "take_over": "old"}}):
        code, said, configuration = checked(stage, capsys, **more)
        assert (warning in said) is not bool(more), said
        command = f"`streamfilter seed --config {shlex.quote(str(configuration))} --topic "
        assert (command in said) is not bool(more), said
    assert warning in stage.run()
    assert warning not in stage.run()
    assert checked(stage, capsys)[1].count("judged none") == 0


def test_a_scheme_that_is_not_the_judges_is_named(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """An edge has no index whose scheme `check` could compare: the changelog's header has it."""
    filled(stage, 30, 0)
    identity = Identity.new(
        scheme=(built := stage.scheme()).as_json(), fingerprint=built.fingerprint, created=0,
        seed=read_seed(stage.directory / "seed"),
    )  # fmt: skip
    header = encode_header(Header(identity.encode(), stage.group, 8))
    produce(stage.bootstrap, stage.changelog, [Input(header)])
    roles = {"cluster": {"enabled": True}}
    for shingle in (3, 5):
        other = {**roles, "similarity": {"shingle": {"size": shingle}}}
        _, said, _ = checked(stage, capsys, **other)
        assert ("scheme.shingling.size: it has 3, wanted is 5" in said) is (shingle == 5), said
    assert f"{stage.changelog} does not fit the configuration" in said
