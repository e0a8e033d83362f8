"""Partitioner, group metadata, kill points, the breaker: small things with known answers."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import streamfilter
from streamfilter.engine.batches.breaker import RECORDS_MIN, WINDOW_RECORDS, Breaker
from streamfilter.engine.clock_and_worker import bounded
from streamfilter.engine.messages.forwarding import (
    Destinations,
    Forwarder,
    Style,
    murmur2,
    partition_for,
)
from streamfilter.engine.ports import Abortable, Layout, OutcomeUnknown
from streamfilter.kafka.ports.membership import parse_member
from streamfilter.killpoints import KILL_POINTS, VARIABLE
from streamfilter.model import Decision, ErrorCode, Malformed, Match, Record, Source, Verdict
from tests.support.cases import cases
from tests.support.values import replace


@cases(
    ("key", "signed"),
    [
        # the vectors of org.apache.kafka.common.utils.UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_the_partition_number_is_kept_where_the_counts_are_equal() -> None:
    record = Record(Source("t", 3, 9), b"abc", b"")
    assert partition_for(record, inputs=4, outputs=4) == 3
    assert partition_for(record, inputs=4, outputs=5) == (479470107 & 0x7FFFFFFF) % 5


def test_a_record_without_a_key_goes_to_the_same_place_on_every_replay() -> None:
    record = Record(Source("t", 3, 9), None, b"")
    assert partition_for(record, inputs=4, outputs=5) == (3 + 9) % 5


def test_generation_and_member_are_read_out_of_the_opaque_metadata() -> None:
    data = b"CGMDv2:\x07\x00\x00\x00group\x00rdkafka-1\x00\x01"
    member = parse_member(data)
    assert (member.generation, member.member_id, member.token) == (7, "rdkafka-1", data)
    assert parse_member(b"CGMDv2:\xff\xff\xff\xffg\x00\x00\x01").generation == -1
    places = [member, replace(member, generation=0), replace(member, generation=-1),
              replace(member, member_id="")]  # fmt: skip
    assert [each.has_place for each in places] == [True, True, False, False]


@pytest.mark.parametrize("data", [b"", b"CGMDv3:\x07\x00\x00\x00g\x00m\x00\x01", b"CGMDv2:\x07"])
def test_metadata_of_another_layout_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="layout"):
        parse_member(data)


def test_the_breaker_trips_on_a_share_and_not_on_the_first_bad_record() -> None:
    breaker = Breaker(0.5)
    breaker.add(1, 1)
    assert not breaker.tripped
    breaker.add(RECORDS_MIN, RECORDS_MIN // 2)
    assert breaker.tripped
    assert "51 of the last 101" in breaker.reason
    breaker.add(1, 1, "in/0 at 7 (missing_text: no /text)")
    breaker.add(1, 0)
    assert "such as in/0 at 7 (missing_text: no /text); look at" in breaker.reason


def test_the_breaker_forgets_what_is_long_ago() -> None:
    breaker = Breaker(0.5)
    breaker.add(RECORDS_MIN, RECORDS_MIN // 2)
    breaker.add(2 * WINDOW_RECORDS, 0)
    breaker.add(WINDOW_RECORDS, WINDOW_RECORDS * 51 // 100)
    assert breaker.tripped


def test_a_breaker_of_one_never_trips() -> None:
    breaker = Breaker(1.0)
    breaker.add(WINDOW_RECORDS, WINDOW_RECORDS)
    assert not breaker.tripped


def killed(point: str, passes: int) -> subprocess.CompletedProcess[str]:
    program = (
        "from streamfilter.killpoints import kill_point\n"
        f"for n in range({passes}):\n"
        "    print(n, flush=True)\n"
        "    kill_point('batch.consumed')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: point},
        capture_output=True,
        text=True,
    )


def test_a_kill_point_kills_at_the_nth_pass() -> None:
    process = killed("batch.consumed:3", 5)
    assert (process.returncode, process.stdout.split()) == (-9, ["0", "1", "2"])
    assert killed("batch.decided", 2).returncode == 0


def test_a_kill_point_that_does_not_exist_is_refused() -> None:
    process = killed("batch.typo", 1)
    assert process.returncode == 1
    assert "known: start.given, start.producer" in process.stderr
    assert "POINT:N:stop" in killed("batch.consumed:1:slowly", 1).stderr


def test_every_kill_point_of_the_code_has_a_name_to_die_by() -> None:
    files = Path(streamfilter.__file__).parent.rglob("*.py")
    calls = [call for f in files for call in re.findall(r'kill_point\((".+?)\)', f.read_text())]
    passed = {point for call in calls for point in re.findall(r'"(.+?)"', call)}
    assert passed == set(KILL_POINTS)


def test_a_kill_point_may_stop_the_process_instead_until_it_is_let_go_on() -> None:
    program = "from streamfilter.killpoints import kill_point as k; k('batch.consumed'); print(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: "batch.consumed:1:stop"},
        stdout=subprocess.PIPE,
    )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=120)[0] == b"1\n"


def test_a_call_that_outlasts_its_timeout_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamfilter.engine.clock_and_worker.GRACE_SECONDS", 0.05)
    free = threading.Event()
    with pytest.raises(OutcomeUnknown, match=r"asking: no answer within 0\.05 s"):
        bounded(lambda: free.wait(30), seconds=0.05, doing="asking")
    free.set()


def test_a_call_in_time_returns_or_raises_what_it_does() -> None:
    done: list[int] = []
    bounded(lambda: done.append(1), seconds=5, doing="asking")
    assert done == [1]
    with pytest.raises(Abortable, match="gone"):
        bounded(_gone, seconds=5, doing="asking")


def _gone() -> None:
    raise Abortable("gone")


@pytest.mark.parametrize("mode", ["dead letter", "duplicate"])
def test_a_key_too_large_for_a_compacted_topic_gives_way_to_one_of_ours(mode: str) -> None:
    """It gave way to none, which such a topic refuses: 78 at the second time and each start."""
    topics = ("unique", "duplicates", "dead")
    to = Destinations(
        *topics,
        limits={"unique": 10_000, "duplicates": 2_000, "dead": 2_000},
        compacted=set(topics),
    )
    record = Record(Source("t", 3, 9), b"k" * 3_000, b"{")
    layout = Layout(1, dict.fromkeys(topics, 1))
    forwarder = Forwarder(to, Style(False, "annotate", "scheme", 0.8), layout)
    if mode == "dead letter":
        malformed = Malformed(ErrorCode.INVALID_JSON, "no JSON", stage="read")
        left = forwarder.output(record, malformed)
    else:
        left = forwarder.output(
            record,
            Decision(Verdict.EXACT_DUPLICATE, (Match("d1", 1.0, 0, record.source, 0),)),
            "d9",
        )
    assert left is not None
    assert (left.topic, left.key) == ("dead" if mode == "dead letter" else "duplicates", b"t/3/9")
