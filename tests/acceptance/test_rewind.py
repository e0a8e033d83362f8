"""An operator rewinds the group by thousands of real texts over two partitions."""

from collections import Counter
from collections.abc import Callable

from streamfilter.model import Record
from tests.acceptance.shipped import Shipped
from tests.kafka.test_beginnings import commit
from tests.support.stage import Stage
from tests.support.topics import Input, read_committed

REWOUND = 3_500
"""Records of each partition, of more than 4,000."""
MINE = "__streamfilter."


def outcome(record: Record) -> tuple[object, ...]:
    """Return everything that a verdict says, and whose it is."""
    evidence = tuple((name, value) for name, value in record.headers if name.startswith(MINE))
    return record.source.topic, record.value, evidence


def run(stage: Stage) -> Counter[tuple[object, ...]]:
    process = stage.start(batch={"documents": 1_500})
    stage.drain(process)
    assert process.terminate() == 0
    outputs = stage.outputs()
    return Counter(outcome(r) for name in ("unique", "duplicates") for r in outputs[name])


def test_thousands_of_records_read_again_get_the_verdicts_they_had(
    make_stage: Callable[..., Stage], of_everybody: Shipped
) -> None:
    stage, lines = make_stage(partitions=2), of_everybody.lines
    stage.produce(Input(line, partition=row % 2) for row, line in enumerate(lines))
    first = run(stage)
    assert sum(first.values()) == len(lines)
    changelog = len(read_committed(stage.bootstrap, stage.changelog))
    begin = len(lines) // 2 - REWOUND
    commit(stage, {0: begin, 1: begin})
    both = run(stage)
    # The same bytes, topic and evidence again, nothing else; each at most once more.
    assert both.keys() == first.keys()
    assert sum((both - first).values()) == len(lines) - 2 * begin
    again = Counter(line for row, line in enumerate(lines) if row // 2 >= begin)
    assert Counter(value for (_, value, _), n in (both - first).items() for _ in range(n)) == again
    assert len(read_committed(stage.bootstrap, stage.changelog)) == changelog
    withheld = stage.outputs()["duplicates"]
    assert len(withheld) > 200
    for record in withheld:
        headers = dict(record.headers)
        assert headers[MINE + "match.id"] != headers[MINE + "id"]
