"""Records that an output refuses for good are dead letters, and the others are judged without them.

Brokers refuse a timestamp that is too new: first the whole transaction, and then, if deliveries
are watched, they name the records or blame a request of several for one of them.
"""

import pytest

from streamfilter.engine.ports import Blame, Outgoing, RecordsRefused
from tests.engine.scripted import ScriptedLog
from tests.engine.world import VALUES, World
from tests.support.values import replace

TOO_NEW = 10**15
SOME = {3, 4, 17, 37, 38, 39}
REQUEST = 4
"""Records of a request, where a broker does not name the one to blame."""


class RefusingLog(ScriptedLog):
    """Refuses records with timestamps of microseconds, and those without a key where asked to."""

    names_each = True
    watched = False
    keys_for: frozenset[str] = frozenset()

    def open(self, *, watched: bool = False) -> None:
        self.watched = watched
        super().open(watched=watched)

    def compacted(self, topics):
        return [topic for topic in topics if topic in self.keys_for]

    def flush(self) -> int:
        assert self._open is not None
        outs = self._open[0]
        bad = [n for n, out in enumerate(outs) if self._refuses(out)]
        if not bad:
            return super().flush()
        why = "INVALID_RECORD" if self.keys_for else "INVALID_TIMESTAMP"
        blame = Blame(tuple(bad), each=True, reason=why, for_time=not self.keys_for)
        if not self.names_each:
            request = range(bad[0], min(bad[0] + REQUEST, len(outs)))
            blame = replace(blame, numbers=tuple(request), each=len(request) == 1)
        raise RecordsRefused(why, blame if self.watched else None)

    def _refuses(self, out: Outgoing) -> bool:
        return out.timestamp >= TOO_NEW or (out.key is None and out.topic in self.keys_for)


def refusing(bad: set[int], *, values=VALUES) -> tuple[World, RefusingLog]:
    """Return a world whose records *bad* are refused."""
    world = World(values=values)
    world.log = log = RefusingLog(values, world.clock)
    log.input = [
        replace(each, key=b"k%d" % n, timestamp=TOO_NEW + n) if n in bad else each
        for n, each in enumerate(log.input)
    ]
    return world, log


def letters(world: World) -> list[Outgoing]:
    return [out for out in world.log.outputs if out.topic == "dead"]


def headers(out: Outgoing) -> dict[str, str]:
    return {
        name.removeprefix("__streamfilter.error."): (value or b"").decode()
        for name, value in out.headers
    }


@pytest.mark.parametrize(
    ("bad", "names_each"),
    [(SOME, True), (set(range(40)), True), (SOME, False)],
    ids=["some", "all", "some, and a request is blamed for one of its records"],
)
def test_they_are_dead_letters_and_the_rest_is_judged_without_them(bad, names_each):
    world, log = refusing(bad)
    log.names_each = names_each
    world.until(40)
    found = letters(world)
    assert [int(headers(each)["offset"]) for each in found] == sorted(bad)
    for each, number in zip(found, sorted(bad), strict=True):
        assert (each.key, each.value) == (b"k%d" % number, VALUES[number])
        said = headers(each)
        assert (said["code"], said["timestamp"]) == ("refused", str(TOO_NEW + number))
        assert "INVALID_TIMESTAMP" in said["message"]
    plain = World(values=[value for number, value in enumerate(VALUES) if number not in bad])
    plain.until(40 - len(bad))
    rest = sorted(out for out in world.result() if out[0] != "dead")
    assert rest == sorted(plain.result())  # watched, each topic has its turn
    assert len(world.store.index) == len(plain.store.index)


def test_a_dead_letter_that_its_topic_refuses_is_sent_again_with_the_present_time() -> None:
    world, _ = refusing({10}, values=[*VALUES[:10], b"{", *VALUES[10:19]])
    world.until(20)
    (letter,) = letters(world)
    assert (letter.value, letter.timestamp) == (b"{", -1)
    assert headers(letter)["code"] == "refused"
    assert "invalid_json" in headers(letter)["message"]
    assert len(world.result()) == 20


def test_a_document_that_the_changelog_cannot_take_is_a_dead_letter_before_it_is_judged() -> None:
    """A record of fields may be larger there than it came; here an id is."""
    long = b'{"id": "%s", "text": "one two three four"}' % (b"x" * 1_000)
    world = World(values=[VALUES[0], long, VALUES[1], long], changelog_limit=1_000)
    world.until(4)
    found = letters(world)
    assert [each.value for each in found] == [long, long]
    for each in found:
        said = headers(each)
        assert said["code"] == "too_large"
        assert "the changelog takes 1000" in said["message"]
    assert len(world.result()) == 4
    assert "abort" not in world.log.calls


def test_a_compacted_output_gets_no_record_without_a_key(caplog) -> None:
    """Whole topics are learned at once: each record cost a transaction and a producer."""
    world, log = refusing(set())
    log.keys_for = frozenset({"unique", "dead"})
    world.until(40)
    plain = World()
    plain.until(40)
    unique = [value for topic, value in plain.result() if topic == "unique"]
    found = letters(world)
    assert [each.value for each in found] != []
    assert {headers(each)["code"] for each in found} == {"refused"}
    assert all(each.key == b"in/0/%s" % headers(each)["offset"].encode() for each in found)
    assert not [out for out in log.outputs if out.topic == "unique"]
    assert unique[0] == found[0].value
    assert log.calls.count("abort") <= 2
    assert "became compacted: no record without a key goes there any more" in caplog.text
