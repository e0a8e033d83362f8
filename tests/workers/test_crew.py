"""Workers: the same sketches in whichever process, and nothing lost with one that is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader, reader_of
from streamfilter.documents.sketching import sketched as documents_sketched
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.messages.forwarding import Destinations
from streamfilter.matching.batch import Prepared
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.workers import crew as crew_module
from streamfilter.workers.crew import (
    AUTO_CHARACTERS,
    GOOD,
    PART_CHARACTERS_MIN,
    Crew,
    auto_workers,
    cut,
)
from streamfilter.workers.frames import Drawn
from streamfilter.workers.preparing import Preparing, Read
from tests.support.machine.processes import state_of

pytestmark = pytest.mark.slow(1)  # nearly each starts processes, and one ends them again

MISHAPS_MAX = 4
"""Half of a service's, for each costs the start of a worker."""
SCHEME = Scheme(16, 6)
SEED = bytes(range(16))
TEXTS = [
    f"{number} أخبار اليوم سَلّٰم {'word ' * (number % 200) * 2}{number}" for number in range(200)
]


def alone(texts: list[str] = TEXTS, seed: bytes = SEED) -> bytes:
    return Sketcher(SCHEME, seed=seed).sketch(texts).to_bytes()


def sketched(crew: Crew, texts: list[str] = TEXTS, seed: bytes = SEED) -> bytes:
    documents = [Document("", text) for text in texts]
    sketches = crew.sketch(Sketcher(SCHEME, seed=seed), documents)
    assert isinstance(sketches, Sketches)
    return sketches.to_bytes()


@pytest.fixture
def few_mishaps(monkeypatch):
    monkeypatch.setattr(crew_module, "MISHAPS_MAX", MISHAPS_MAX)


@pytest.fixture(scope="module")
def crew():
    """Two workers for the tests that only ask them."""
    with closing(Crew(2)) as crew:
        yield crew


def lives(pid: int) -> bool:
    return state_of(pid) not in ("", "Z")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_comes_back_whole_and_in_order(workers):
    with closing(Crew(workers)) as crew:
        assert sketched(crew) == alone()
        assert len(crew.pids) in range(1, workers + 1)
        assert sketched(crew, TEXTS[:1]) == alone(TEXTS[:1])
        assert sketched(crew, seed=bytes(16)) == alone(seed=bytes(16))
        pids = crew.pids
    assert not any(map(lives, pids))


def test_any_text_reaches_a_worker_as_it_is(crew):
    """Halves of a pair stay halves, also where one text ends with one and the next begins."""
    strange = ["", "\0", "a \ud83d", "\ude00 b", "\U0001f600 c", "\ud800" * 9, *TEXTS]
    assert sketched(crew, strange) == alone(strange)
    assert len(crew.pids) > 0


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stuck"])
def test_a_worker_that_is_killed_or_stuck_costs_a_line_of_log(blow, caplog):
    with closing(Crew(2)) as crew:
        sketched(crew)
        worker = crew._idle[-1]
        worker._patience = 0.2  # who takes its place has the full time
        os.kill(worker.pid, blow)
        assert sketched(crew) == alone()
        assert "a worker failed: it was killed by signal 9; its" in caplog.text
        assert worker.pid not in crew.pids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit(3)", "it was killed|it ended with 3"),
        ("import sys; print('x' * 100)", "it was killed|it ended with"),
        (
            "import struct, sys; sys.stdin.buffer.read(9);"
            "sys.stdout.buffer.write(struct.pack('<Q', 5) + b'12345'); sys.stdout.flush();"
            "sys.stdin.buffer.read()",
            "it answered nonsense",
        ),
        (
            "from streamfilter.similarity.sketch import Sketcher\n"
            "def full(self, texts, values): raise MemoryError\n"
            "Sketcher.sketch = full\n"
            "from streamfilter.workers.worker import main; main()",
            "it met MemoryError",
        ),
    ],
    ids=["dies", "chatters", "nonsense", "no memory"],
)
def test_workers_that_fail_are_given_up_and_no_text_is_lost(code, why, caplog, few_mishaps):
    wanted = alone()
    with closing(Crew(1, command=[sys.executable, "-P", "-c", code])) as crew:
        for _ in range(MISHAPS_MAX // 2):
            assert "going on without" not in caplog.text
            assert sketched(crew) == wanted
        assert any(each in caplog.text for each in why.split("|")), caplog.text
        assert "going on without" in caplog.text
        caplog.clear()
        assert sketched(crew) == wanted
        assert not caplog.text
        assert crew.pids == []


@pytest.mark.slow
def test_workers_of_which_one_fails_again_and_again_are_given_up(caplog, few_mishaps):
    """It meets a part that it has no memory for, in each batch; the other part always succeeds."""
    code = (
        "from streamfilter.similarity.sketch import Sketcher\n"
        "alone = Sketcher.sketch\n"
        "def full(self, texts, values):\n"
        "    if 'large' in texts: raise MemoryError\n"
        "    return alone(self, texts, values)\n"
        "Sketcher.sketch = full\n"
        "from streamfilter.workers.worker import main; main()"
    )
    texts = ["large", *TEXTS]
    wanted = alone(texts)
    with closing(Crew(2, command=[sys.executable, "-P", "-c", code])) as crew:
        for _ in range(MISHAPS_MAX):
            assert sketched(crew, texts) == wanted
        assert caplog.text.count("it met MemoryError") == MISHAPS_MAX
        assert caplog.text.count("going on without") == 1
        assert crew.pids == []


@pytest.mark.slow
def test_answers_make_mishaps_good(caplog, few_mishaps):
    """Workers that are killed once a day are not given up after a week."""
    with closing(Crew(1)) as crew:
        for _ in range(MISHAPS_MAX + 2):
            sketched(crew)
            crew._good = GOOD
            (pid,) = crew.pids
            os.kill(pid, signal.SIGKILL)
        assert sketched(crew) == alone()
        assert "going on without" not in caplog.text


def test_a_system_that_gives_no_process_costs_no_text(caplog):
    with closing(Crew(2, command=["/nowhere/at/all"])) as crew:
        assert sketched(crew) == alone()
    assert "the system gave no process: No such file" in caplog.text


@pytest.mark.parametrize("starting", [threading.Timer, threading.Thread])
def test_a_system_that_gives_no_thread_costs_no_text(starting, monkeypatch, caplog):
    wanted = alone()

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(Crew(2)) as crew:
        monkeypatch.setattr(starting, "start", none_left)
        assert sketched(crew) == wanted


def test_a_text_is_not_blamed_for_who_was_asked_to_sketch_it():
    class Breaks(Crew):
        def sketch(self, sketcher, texts):
            raise RuntimeError("can't start new thread")

    record = Record(Source("t", 0, 0), None, b"x")
    with pytest.raises(RuntimeError, match="new thread"):  # no dead letter
        preparing(Reader(), Breaks(1)).sketch(Read([record], [Document("1", TEXTS[0])]))


def test_workers_end_with_what_they_work_for():
    script = (
        "import os, signal; from tests.workers.test_crew import *;"
        "crew = Crew(2); sketched(crew); print(*crew.pids, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pids = list(map(int, ran.stdout.split()))
    assert pids, ran.stderr
    while any(map(lives, pids)):  # the suite's own limit of time ends it
        time.sleep(0.01)


def test_auto_starts_none_for_little_and_none_for_few_words():
    with closing(Crew(2, reluctant=True)) as crew:
        sketched(crew)
        crew._seen = AUTO_CHARACTERS
        few = ["some words"] * (4 * PART_CHARACTERS_MIN // 10)
        assert sketched(crew, few) == alone(few)
        assert crew.pids == []
        assert sketched(crew) == alone()
        assert len(crew.pids) > 0


def test_auto_starts_one_for_short_texts_and_keeps_to_it():
    """Two took longer than one there: three processes on two cores, two of them idle half."""
    short = ["a text of some eighty characters, as titles and comments are, and no longer"] * 4_000
    with closing(Crew(2, reluctant=True)) as crew:
        crew._seen = AUTO_CHARACTERS
        for texts in (short, short, TEXTS * 40):
            assert sketched(crew, texts) == alone(texts)
        assert len(crew.pids) == 1
    with closing(Crew(2)) as crew:  # who asks for two gets two
        assert sketched(crew, short) == alone(short)
        assert len(crew.pids) == 2


def test_auto_takes_as_many_as_are_worth_it():
    counts = [auto_workers(cores, mean) for cores in (1, 2, 16) for mean in (10, 130, 3_400)]
    assert counts == [0, 0, 0, 0, 1, 2, 0, 1, 4]


def test_parts_are_all_of_it_none_empty_and_about_even():
    rng = np.random.default_rng(7)
    for _ in range(300):
        lengths = rng.integers(0, 10 ** rng.integers(1, 5), rng.integers(1, 40)).tolist()
        lengths[rng.integers(len(lengths))] += 10**6 * int(rng.integers(2))
        parts = int(rng.integers(1, len(lengths) + 1))
        slices = cut(lengths, parts)
        assert len(slices) == parts
        assert (slices[0].start, slices[-1].stop) == (0, len(lengths))
        assert all(one.stop == following.start for one, following in pairwise(slices))
        assert all(each.stop > each.start for each in slices)
        most = max(sum(lengths[each]) for each in slices)
        assert most <= sum(lengths) / parts + 2 * max(lengths)


def lines() -> list[Record]:
    """Plain documents, and between them what needs a closer look, or is no document."""
    strange = [
        None, b"", b"{", b'{"id": 1}', b'{"text": " ", "id": 2}', b'{"text": null, "id": "n"}',
        b'{"text": "x", "id": "\xff"}', b'{"text": "one two three four", "id": 7}',
        '{"text": "one two three four five", "id": "ein ü"}'.encode(), b'{"text": "no id here"}',
        b'{"text": "a \\ud800 b", "id": "h"}', b"[" * 99,
        b'{"text": "%s", "id": "l"}' % (b"z " * 999),
    ]  # fmt: skip
    values = [json.dumps({"text": text, "id": f"d{text[:2]}"}).encode() for text in TEXTS * 3]
    for row, value in enumerate(strange):
        values.insert(7 * row, value)
    headers = (("who", b"me"),), (("who", b"\xff"),), ()
    return [
        Record(Source("in", row % 3, row), b"key" if row % 5 else None, value, headers[row % 3],
               headers_error="broken" if row == 60 else None)
        for row, value in enumerate(values)
    ]  # fmt: skip


def outcome(prepared: Prepared) -> tuple[object, ...]:
    assert prepared.sketches is not None
    sketches, batch = prepared.sketches.to_bytes(), prepared.batch
    return sketches, prepared.others, prepared.rows, batch.ids, batch.offsets.tolist()


def preparing(reader: Reader, crew: Crew | None) -> Preparing:
    return Preparing(reader, Sketcher(SCHEME, seed=SEED), crew or Crew(0))


def read_by(reader: Reader, records: list[Record], crew: Crew | None) -> tuple[object, ...]:
    read = preparing(reader, crew).read(records)
    assert (read.drawn is None) == (crew is None)
    return outcome(preparing(reader, crew).sketch(read))


@pytest.mark.parametrize(
    "reader",
    [
        Reader(limits=Limits(text_characters=1_500, depth=9)),
        Reader(id="key", empty_text="exact_only", tombstones="forget"),
        Reader(id="header:who"),
        Reader(id=None, text=["/title", "/text"], tombstones="drop", empty_text="drop"),
        Reader("text", id=None),
    ],
    ids=["inside", "key", "header", "place", "text"],
)
def test_workers_read_what_is_a_plain_document_and_nothing_else(reader, crew):
    records = lines()
    assert read_by(reader, records, crew) == read_by(reader, records, None)


def test_what_is_no_document_after_all_leaves_no_sketch(crew):
    """A record that could be forwarded nowhere was read and sketched, and is not judged."""
    records, reader = lines(), Reader()
    found = []
    for each in (preparing(reader, None), preparing(reader, crew)):
        read = each.read(records)
        read.readings[0::4] = [Malformed(ErrorCode.TOO_LARGE, "")] * len(records[0::4])
        found.append(outcome(each.sketch(read)))
    assert found[0] == found[1]


def test_values_of_a_worker_that_is_killed_are_read_by_another_or_here(caplog):
    reader, records = Reader(), lines()
    wanted = read_by(reader, records, None)
    with closing(Crew(2)) as crew:
        read_by(reader, records, crew)
        os.kill(crew._idle[-1].pid, signal.SIGKILL)
        assert read_by(reader, records, crew) == wanted
    assert "a worker failed: it was killed by signal 9; its" in caplog.text
    with closing(Crew(2, command=["/nowhere/at/all"])) as crew:
        assert preparing(reader, crew).read(records).drawn is None
        assert outcome(preparing(reader, crew).prepare(records)) == wanted
        assert read_by(reader, records, Half(1)) == wanted


class Half(Crew):
    """A crew from which only the first half of each batch comes back."""

    def read(self, sketcher, recipe, values):
        rows, ids, documents = reader_of(recipe).plain(values[: len(values) // 2])
        return Drawn(np.array(rows, np.int64), ids, documents_sketched(sketcher, documents))


def test_values_without_a_document_have_no_sketches(crew):
    records = [Record(Source("in", 0, row), None, b"{" + b" " * 9_999) for row in range(8)]
    read = preparing(Reader(), crew).read(records)
    prepared = preparing(Reader(), crew).sketch(read)
    assert read.drawn is not None
    assert prepared.sketches is None
    assert prepared.rejected[0] == len(records)


def test_what_no_topic_takes_is_the_same_whatever_read_it(crew):
    """And the time of who reads and sketches is reported as sketching, which is most of it."""
    records, took = lines(), []
    limits = {"u": 700, "d": 10**6, "x": 10**6}
    places = Destinations("u", "d", "x", limits, changelog_limit=1_500)
    sketcher, found = Sketcher(SCHEME, seed=SEED), []
    for each in (Crew(0), crew):
        incoming = Incoming(Reader(), places, crew=each)
        prepared = incoming.prepare(records, sketcher, SystemClock())
        found.append(outcome(prepared))
        took.append(set(prepared.seconds))
    assert found[0] == found[1]
    assert took == [{"read", "sketch"}, {"sketch"}]
