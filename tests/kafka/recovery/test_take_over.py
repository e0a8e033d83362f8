"""`input.take_over`: each record is judged by exactly one of two groups, whatever is killed."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.messages.changelog import BatchRecord, decode_batch, encode_batch
from streamfilter.engine.messages.changelog_header import BATCH, kind_of
from streamfilter.kafka import predecessor
from streamfilter.kafka.lifecycle.take_over import preview
from streamfilter.kafka.predecessor import KafkaPredecessor, OldState, TakeOver
from streamfilter.killpoints import VARIABLE
from streamfilter.model import SEEDS_FROM, BatchMark, Record, Source, Span
from streamfilter.stops import ConfigError, Temporary
from tests.faults.causes.proxy import END_TXN
from tests.kafka.story import CUT, STATIC, Settings, die_at, records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.session.shared_broker import SHORT_CLOCKS
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, produce, read_committed

STORIES = texts(random.Random(36_000), 240)
PLAIN: Settings = {"batch": CUT, "kafka": {"session_timeout": "6s"}}
OTHER: Settings = {**STATIC, "kafka": {**PLAIN["kafka"], "consumer": {"group.instance.id": "two"}}}
BEFORE = ["takeover.fenced", "takeover.read", "start.assigned", "transaction.produced"]
OTHERS = [f"transaction.{step}" for step in ("begun", "outputs", "flushed", "offsets")]
"""A kill there leaves the old group as it was: the transaction that takes its positions is open."""


def new(stage: Stage, settings: Settings = STATIC) -> dict[str, Any]:
    """Return the settings of the new group: another threshold, other shingles, bands and text."""
    return {
        **settings,
        "input": {"take_over": stage.group},
        "kafka": {**settings["kafka"], "group": f"{stage.group}.new"},
        "similarity": {
            "threshold": 0.6,
            "shingle": {"kind": "char", "size": 7},
            "normalise": {"mask": ["url", "email"]},
        },
    }


def start_new(stage: Stage, point: str = "") -> FilterProcess:
    environment = {VARIABLE: point} if point else None
    return stage.start(state="new", environment=environment, **new(stage))


@contextmanager
def traffic(stage: Stage, first: int) -> Iterator[None]:
    """Produce the stories from *first* on, some at a time, until the block ends; then the rest."""
    ended = threading.Event()

    def work() -> None:
        for at in range(first, len(STORIES), 4):
            ended.wait(0.2)
            stage.produce(records(STORIES[at : at + 4], first=at))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def judged_by(stage: Stage) -> dict[str, list[tuple[int, int]]]:
    """Return the offsets that each group has judged, from and to, by its changelog."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group in (stage.group, f"{stage.group}.new"):
        values = [r.value or b"" for r in read_committed(stage.bootstrap, f"{group}.changelog")]
        spans = [decode_batch(v).mark.spans for v in values if kind_of(v) == BATCH]
        found[group] = [
            (s.start, s.end)
            for each in spans
            for s in each
            if s.start < s.end and s.partition < SEEDS_FROM
        ]
    return found


def seeded(stage: Stage) -> int:
    """Run `seed --topic UNIQUE` for the new group; return how many records it read."""
    return seeded_by(stage, stage.configuration(state="new", **new(stage)))


def seeded_by(stage: Stage, config: Path) -> int:
    with redirect_stdout(StringIO()) as said:
        asked = ["seed", "--config", str(config), "--topic", stage.unique, "-o", "json"]
        assert cli.main(asked) == 0
    return int(json.loads(said.getvalue())["records"])


def die_taking(stage: Stage, point: str, *, seeding: bool = False) -> None:
    """Let the new group die at *point*: while it is *seeding* the tail, or after that."""
    count = 2 if point == "start.assigned" and not seeding else 1
    process = start_new(stage, f"{point}:{count}")
    assert process.wait_for_exit() == -9, process.with_log(f"did not die at {point}")
    assert (f"{stage.unique} is in the index" in process.log.read_text()) is not seeding


def pause_taking(
    stage: Stage, settings: Settings = STATIC, *, point: str = "transaction.offsets"
) -> FilterProcess:
    """Start the new group, and pause it before it has the positions."""
    environment = {VARIABLE: f"{point}:1:stop"}
    process = stage.start(state="new", environment=environment, **new(stage, settings))
    process.wait_until_stopped()
    assert f"{stage.unique} is in the index" in process.log.read_text(), "it takes them now"
    return process


@pytest.mark.slow(100)
@pytest.mark.parametrize(
    ("before", "paused", "after"),
    [
        (BEFORE, "transaction.offsets", "transaction.committed"),
        pytest.param(OTHERS, "takeover.read", "takeover.done", marks=pytest.mark.long),
    ],
    ids=["short", "long"],
)
def test_each_record_is_judged_once_whatever_is_killed(stage, before, paused, after):
    """A paused one takes nothing, if the old group or another process went on meanwhile."""
    stage.produce(records(STORIES[:60]))
    with traffic(stage, 60):
        die_at(stage, "transaction.offsets:9")
        assert seeded(stage) > 0
        for n, point in enumerate(before):
            die_taking(stage, point)
            if n == 1:
                die_at(stage, "transaction.offsets:2")  # the old group goes on meanwhile
                die_taking(stage, "transaction.offsets", seeding=True)
                assert seeded(stage) > 0, "the next one dies behind the tail"
        behind = pause_taking(stage, point=paused)
        die_at(stage, "transaction.offsets:2")
        behind.resume()
        assert behind.wait_for_exit() in (75, 76), behind.with_log("ended otherwise")
        spans = judged_by(stage)[f"{stage.group}.new"]
        assert not spans, "nothing was taken so far"
        assert seeded(stage) > 0
        behind = pause_taking(stage, point=paused)
        other = stage.start(state="other", environment={VARIABLE: after}, **new(stage, OTHER))
        assert other.wait_for_exit() == -9, other.with_log(f"did not die at {after}")
        behind.resume()
        said = stage.refused(**STATIC)
        assert f"the group '{stage.group}.new' took over the input of the group" in said
    behind.kill()
    log = stage.end(start_new(stage))
    assert f"took over from {stage.group} already" in log
    one_after_the_other(stage)


def finished(stage: Stage, taking: FilterProcess, settings: Settings) -> None:
    """Let the new group end its work; one that a fault has ended by name is started again."""
    try:
        stage.drain(taking)
        assert taking.terminate() == 0
    except AssertionError:
        assert taking.wait_for_exit() in (75, 76), taking.with_log("ended otherwise")
        stage.run(state="new", **new(stage, settings))


def one_after_the_other(stage: Stage) -> None:
    """Fail unless all stories were judged, by the old group and then by the new one."""
    assert verdicts(stage).keys() == {f"d{n}" for n in range(len(STORIES))}
    old, taken = judged_by(stage).values()
    assert taken, "the new group has judged"
    edges = [*old, *taken]
    assert all(a[1] == b[0] for a, b in pairwise(edges)), edges
    forwarded_once(stage)


def forwarded_once(stage: Stage) -> None:
    """Fail unless each index has all that the other group forwarded."""
    forwarded = Counter(
        json.loads(each.value or b"{}")["text"] for each in stage.outputs()["unique"]
    )
    assert max(forwarded.values()) == 1, forwarded.most_common(1)


@pytest.mark.long
@pytest.mark.parametrize("pause", [False, True], ids=["kill", "pause"])
@pytest.mark.parametrize("point", [*BEFORE, *OTHERS, "transaction.committed", "takeover.done"])
def test_a_broker_fails_while_a_group_with_workers_takes_over(forge, tmp_path, point, pause):
    settings = {**STATIC, "batch": {**CUT, "workers": 2}}
    with (
        RealKafka(nodes=3, properties=SHORT_CLOCKS) as cluster,
        closing(Stage(cluster.bootstrap, tmp_path, replication=3, launch=forge.launch)) as stage,
    ):
        for first in (0, 60):
            stage.produce(records(STORIES[first : first + 60], first=first))
            stage.run(**settings)
            if first == 0:
                assert seeded_by(stage, stage.configuration(state="new", **new(stage, settings)))
        stage.produce(records(STORIES[120:], first=120))
        environment = {VARIABLE: f"{point}:1:stop"}
        taking = stage.start(state="new", environment=environment, **new(stage, settings))
        taking.wait_until_stopped()
        node = random.Random(point).choice(cluster.nodes)
        node.pause() if pause else node.kill()
        taking.resume()
        time.sleep(8)  # beyond the session timeout
        node.resume() if pause else node.start()
        cluster.wait_until_ready()
        finished(stage, taking, settings)
        one_after_the_other(stage)


@pytest.mark.slow(30)
@pytest.mark.parametrize(
    "fault", ["lost answer", pytest.param("late request", marks=pytest.mark.long)]
)
def test_a_commit_that_is_held_up_takes_over_once_and_a_reset_after_it_judges_nothing_again(
    kafka, proxy, stage, fault
):
    """Its answer is lost, or the broker gets it when a new producer has fenced this one."""
    common = {"bootstrap.servers": kafka.bootstrap_proxied}
    hasty = {"common": common, "transaction_timeout": "5s", "producer": {"socket.timeout.ms": 2000}}
    settings = {**PLAIN, "kafka": {**PLAIN["kafka"], **hasty}}
    stage.produce(records(STORIES[:60]))
    stage.run(**PLAIN)
    assert seeded_by(stage, stage.configuration(state="new", **new(stage, PLAIN))) > 0
    stage.produce(records(STORIES[60:], first=60))
    taking = pause_taking(stage, settings)
    trap = (proxy.hold if fault == "late request" else proxy.mute_after)(END_TXN)
    taking.resume()
    trap.wait(60)
    time.sleep(6)
    trap.release()
    finished(stage, taking, PLAIN)
    assert "took over the input of the group" in stage.refused(**PLAIN)
    one_after_the_other(stage)
    no_group_judges_again_after_a_reset(stage)


def no_group_judges_again_after_a_reset(stage: Stage) -> None:
    config = stage.configuration(state="new", **new(stage, PLAIN))
    assert cli.main(["reset", "--config", str(config), "--yes"]) == 0
    was = f"{stage.group}.new took it over, and was reset after that"
    assert was in refused(stage)
    assert seeded_by(stage, config) > 0
    assert was in refused(stage), "with a changelog, too"
    assert was in stage.refused(state="new", arguments=["--dry-run"], **new(stage, PLAIN))
    said = stage.refused(arguments=["--take-over", f"{stage.group}.new"], **PLAIN)
    assert "nothing says any more what it has judged" in said
    assert not judged_by(stage)[f"{stage.group}.new"]


def refused(stage: Stage, **sections: Any) -> str:
    given = new(stage, PLAIN)
    given |= {name: {**given.get(name, {}), **each} for name, each in sections.items()}
    return stage.refused(state="new", **given)


@pytest.mark.slow(40)
def test_what_cannot_be_taken_over_or_not_yet_is_refused_by_name(stage: Stage) -> None:
    old = stage.group
    stage.produce(records(STORIES[:30]))
    assert "there is no such group" in refused(stage)
    process = stage.start(**PLAIN)
    stage.drain(process)
    said = refused(stage)
    assert f"input.take_over: the group '{old}': it works: " in said
    assert "stop every process of it, standbys too" in said
    assert process.terminate() == 0
    assert "input.take_over: got 'a\\x00b'" in refused(stage, input={"take_over": "a\0b"})
    assert "it is kafka.group itself" in refused(stage, input={"take_over": f"{old}.new"})
    assert f"it reads {stage.input}, and this configuration reads {stage.unique}: no group" in (
        refused(stage, input={"topic": stage.unique}, output={"unique": f"{old}.else"})
    )
    create_topics(stage.bootstrap, {f"{old}.else": 1})
    said = refused(stage, output={"unique": f"{old}.else"})
    assert f"output.unique ({old}.else) has received none" in said
    assert "index.scope is partition" in refused(stage, index={"scope": "partition"})
    with closing(Consumer({"bootstrap.servers": stage.bootstrap, "group.id": old})) as consumer:
        for offset in (7, 30):
            moved = [TopicPartition(stage.input, 0, offset)]
            consumer.commit(offsets=moved, asynchronous=False)
            if offset == 7:
                assert "it was rewound or skipped" in refused(stage)
    third = {**new(stage, PLAIN), "kafka": {**PLAIN["kafka"], "group": f"{old}.third"}}
    stage.run(state="third", **third | {"input": {}})
    assert "has judged records of" in stage.refused(state="third", **third)
    the_tail_is_read_only_once_no_transaction_hides_its_end(stage)


def the_tail_is_read_only_once_no_transaction_hides_its_end(stage: Stage) -> None:
    """Later starts need nothing of the old group."""
    names = {"bootstrap.servers": stage.bootstrap, "transactional.id": f"{stage.group}.other"}
    other = Producer(names)
    other.init_transactions()
    other.begin_transaction()
    other.produce(stage.unique, b"of another program")
    other.flush()
    stage.produce(records(STORIES[30:60], first=30))
    stage.run(**PLAIN)
    hasty = {**new(stage, PLAIN)}
    hasty["kafka"] = {**hasty["kafka"], "start_timeout": "3s"}
    said = stage.refused(75, state="new", **hasty)
    assert f"left a transaction open in {stage.unique}" in said
    other.abort_transaction()
    stage.produce([*records(STORIES[30:53], first=60), Input(b"no JSON")])
    produce(stage.bootstrap, stage.unique, [Input(b"no JSON")])  # forwarded with other settings
    log = stage.run(state="new", **new(stage, PLAIN))
    assert f"{stage.unique}: 1 cannot be read" in log
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.delete_consumer_groups([stage.group])[stage.group].result(30)
    assert "took over from" in stage.run(state="new", **new(stage, PLAIN))
    admin.delete_topics([stage.changelog])[stage.changelog].result(30)
    assert "has no changelog any more" in stage.run(state="new", **new(stage, PLAIN))


@pytest.mark.slow(40)
def test_the_old_group_takes_the_input_back_with_what_was_forwarded_meanwhile(stage: Stage) -> None:
    stage.produce(records(STORIES[:42]))
    stage.run(**PLAIN)
    stage.produce(records(STORIES[42:60], first=42))
    shown = stage.refused(0, state="new", arguments=["--dry-run"], **new(stage, PLAIN))
    assert f"{stage.input}/0 from 42 on; 18 offsets wait" in shown
    assert f"{stage.group} is stopped\nnothing was changed" in shown
    # It may commit between the looks at its changelog and at its offsets, and is not rewound then.
    config = load_config([stage.configuration(state="new", **new(stage, PLAIN))])
    read, ends = predecessor.last_of, []

    def late(*asked: Any) -> Any:
        found = ends.append(1) or read(*asked)
        return found if len(ends) > 1 else replace(found, last=found.last - 2, spans=())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predecessor, "last_of", late)
        assert f"{stage.input}/0 from 42 on" in preview(config, back=False)
    assert len(ends) == 2
    assert f"what {stage.unique} has received since its last seed" in shown
    stage.run(state="new", **new(stage, PLAIN))
    other = {**new(stage, PLAIN), "kafka": {**PLAIN["kafka"], "group": f"{stage.group}.third"}}
    took = f"the group '{stage.group}.new' took it over already"
    assert took in stage.refused(state="third", **other)
    assert "took over the input of the group" in stage.refused(**PLAIN)
    for_back = {**PLAIN, "input": {"take_over": f"{stage.group}.new"}}
    assert "took over the input of the group" in stage.refused(**for_back), "not by the setting"
    assert seeded_by(stage, stage.configuration(**PLAIN)) > 0, "while the new one works"
    assert "took over the input of the group" in stage.refused(**PLAIN), "a seed ends so, too"
    stage.produce(records(STORIES[60:84], first=60))
    stage.run(state="new", **new(stage, PLAIN))
    stage.produce(records(STORIES[84:120], first=84))
    stage.run(arguments=["--take-over", f"{stage.group}.new"], **PLAIN)
    said = stage.refused(state="new", **new(stage, PLAIN))
    assert "took over the input of the group" in said, "the setting that stayed takes nothing back"
    stage.produce(records(STORIES[120:], first=120))
    assert stage.run(**PLAIN), "without --take-over, too"
    assert verdicts(stage).keys() == {f"d{n}" for n in range(len(STORIES))}
    forwarded_once(stage)


@pytest.mark.long
def test_letters_of_the_old_group_go_back_to_the_new_one(stage: Stage) -> None:
    stage.produce(records(STORIES[:10]))
    stage.run(**PLAIN, input={"text": "/body"})
    stage.run(state="new", **new(stage, PLAIN))
    config = str(stage.configuration(state="new", **new(stage, PLAIN)))
    for _ in range(2):
        assert cli.main(["replay", "--config", config, "--yes"]) == 0
    stage.run(state="new", **new(stage, PLAIN))
    forwarded_once(stage)
    assert verdicts(stage).keys() == {f"d{n}" for n in range(10)}


@pytest.mark.long
def test_input_that_is_lost_after_another_process_took_over_is_refused(stage: Stage) -> None:
    stage.produce(records(STORIES[:40]))
    stage.run(**PLAIN)
    environment = {VARIABLE: "takeover.fenced:1:stop"}
    behind = stage.start(state="new", environment=environment, **new(stage, PLAIN))
    behind.wait_until_stopped()
    stage.run(state="other", **new(stage, PLAIN))
    stage.produce(records(STORIES[40:60], first=40))
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for done in admin.delete_records([TopicPartition(stage.input, 0, 50)]).values():
        done.result(30)
    behind.resume()
    assert behind.wait_for_exit() == 78, behind.with_log("did not see it")
    assert f"retention passed us on {stage.input}" in behind.log.read_text()


def test_a_batch_that_is_alone_in_its_block_was_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of 1,000 offsets holds one batch at most, if batches have more documents."""
    batch = BatchRecord(BatchMark(1, 0, 1_500, (Span(0, 0, 1_500),)), highest_timestamp=-1)
    seeded = BatchRecord(BatchMark(2, 1_500, 1_600, (Span(0, 1_500, 1_500),)), highest_timestamp=-1)
    reader = MagicMock()
    reader.__enter__.return_value = reader
    reader.bounds.return_value = {0: (0, 0)}
    monkeypatch.setattr(predecessor, "TopicReader", lambda *_: reader)
    config = load_config((), {}, ["input.topic=in"])
    old = predecessor.OldGroup(config, Mock(), "old")
    for record, wanted in ((batch, pytest.raises(ConfigError)), (seeded, nullcontext())):
        at = Source("old.changelog", 0, 5)
        reader.newest_first.return_value = [[Record(at, None, encode_batch(record))]]
        with wanted:
            old.refuse_other_unique(OldState("old.changelog", {}, last=5))


def test_a_partition_that_brokers_do_not_know_yet_is_not_left_out() -> None:
    old = Mock(look=lambda: OldState("old.changelog", {("in", 0): 5, ("in", 1): 7}, last=9))
    old.alive.return_value = ()
    taking = TakeOver(old, OldState("old.changelog", {}, last=9))
    port = KafkaPredecessor(taking, Inputs("in"), Mock())
    with pytest.raises(Temporary, match=r"\('in', 1\)"):
        port.positions([0])
    assert port.positions([0, 1, 2]) == {0: 5, 1: 7, 2: 0}
