"""What `run --take-over` does before the service: the old group has ended, and its end is known.

1   refuse by name what cannot be taken over, and wait until the old group has no member
2   fence its last process: the open transaction of a killed one ends
3   see how it stands
4   read what the unique topic has received into the index: it may be more than was seeded. The
    service then takes the positions (`tasks/take_over.py`), if the old group stands as in step 3
"""

from __future__ import annotations

import logging
from collections.abc import Container
from contextlib import AbstractContextManager, nullcontext

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    DOCUMENT,
    HEADER,
    PREFIX,
    SUCCESSOR,
    VERSION,
    decode_header,
    kind_of,
)
from streamfilter.index.input_table import Spot
from streamfilter.kafka.brokers.broker_queries import bounds_of
from streamfilter.kafka.brokers.rights import GROUP, TOPIC, TRANSACTIONS, Right
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import asked_once, listed
from streamfilter.kafka.lifecycle.seed_sources import Advanced, topic_seed
from streamfilter.kafka.lifecycle.seeding import Seeding, members_after_a_session
from streamfilter.kafka.predecessor import OldGroup, TakeOver
from streamfilter.kafka.service_start import Start, StoppedEarly, explained
from streamfilter.kafka.topic_reader import TopicReader, no_progress
from streamfilter.process.health import State
from streamfilter.stops import BrokenInput

logger = logging.getLogger("streamfilter.take_over")
INIT_SECONDS = 30.0
_NOTHING = PREFIX.pack(VERSION, DOCUMENT)


def preview(config: Config, group: str) -> str:
    """Return what taking *group* over would do, or raise `Stop`; nothing is changed."""
    old = OldGroup(config, clients.admin_client(config), group)

    def waiting(spot: Spot) -> int:
        return max(0, bounds_of(old.admin, TopicPartition(*spot)).end - found.offsets[spot])

    with explained(config, more=rights_over(group)), asked_once():
        found = old.look(fenced=False)
        return old.as_text(found, waiting, _unseeded(config, old.admin))


def rights_over(group: str) -> list[Right]:
    """Return the rights that are needed beside those of the service, to take *group* over."""
    return [
        Right(GROUP, group, ("DESCRIBE",)),
        Right(TOPIC, f"{group}.changelog", ("READ", "WRITE")),
        Right(TRANSACTIONS, f"{group}.0", ("WRITE",)),
    ]


def prepared(start: Start, group: str) -> TakeOver | None:
    """Return what the service takes over from *group*; None: it has it. Raises `Stop`."""
    config = start.config
    old = OldGroup(config, clients.admin_client(config), group)
    found = start.patiently(lambda: old.look(fenced=False))
    if found.successor:
        logger.info("%s took over from %s already", config.kafka.group, group)
        return None
    if members := members_after_a_session(start, old.admin, group):
        got = f"it works: {', '.join(sorted(members))}"
        cure = (
            "stop every process of it, standbys too (SIGTERM), and run this again; until then it "
            "goes on as before"
        )
        raise old.refusal(got, cure)
    start.patiently(lambda: _fence(config, group))
    found = start.patiently(old.look)
    logger.info("%s has ended, at %s", group, found.places)
    if start.patiently(lambda: _unseeded(config, old.admin)) is None:
        logger.warning(
            "copies of what %s has forwarded count as new: this changelog takes no seed yet", group
        )
    else:
        _read_tail(start)
    return TakeOver(old, found)


def _read_tail(start: Start) -> None:
    """Seed what the unique topic has that the index has not. Raises `Stop` or `StoppedEarly`."""
    config, topic = start.config, start.config.output.unique

    def stopping() -> bool:
        start.health.enter(State.STARTING, f"what {topic} has received is read into the index")
        return start.stopping()

    with topic_seed(config, topic, None, None, (None, None), _unshown) as tail:
        seeding = Seeding(config, lambda _: [tail])
        try:
            seeding.run(stopping)
        except BrokenInput as error:
            more = f"that is an option of `streamfilter seed --topic {topic}`; then take over again"
            raise BrokenInput(f"{error}\n    {more}") from error
    if not seeding.finished:
        raise StoppedEarly
    logger.info("%s is in the index: %s", topic, seeding.as_text())


def _unshown(label: str, length: int) -> AbstractContextManager[Advanced]:
    return nullcontext(no_progress)


def _unseeded(config: Config, admin: AdminClient) -> int | None:
    """Return how many offsets of the unique topic come after what was seeded of it.

    None: our changelog has ended, because the input was taken over from us. It takes no seed.
    """
    if kind_of(_newest(config, admin, (BATCH, SUCCESSOR)) or _NOTHING) == SUCCESSOR:
        return None
    header = _newest(config, admin, (HEADER,))
    seeds = decode_header(header).inputs.seeds if header else ()
    topic, seeded = config.output.unique, {each.name: each.position for each in seeds}
    with TopicReader(config, topic) as reader:
        bounds = reader.bounds(admin, stable=True)
    begin = {p: max(start, seeded.get(f"{topic}/{p}", 0)) for p, (start, _) in bounds.items()}
    return sum(max(0, end - begin[p]) for p, (_, end) in bounds.items())


def _newest(config: Config, admin: AdminClient, kinds: Container[int]) -> bytes | None:
    """Return the newest record of these *kinds* in our changelog, if there is one."""
    if config.changelog_topic not in listed(config, admin):
        return None
    with TopicReader(config, config.changelog_topic) as reader:
        for block in reader.newest_first(reader.bounds(admin, stable=True)):
            values = [each.value or _NOTHING for each in block]
            found = [each for each in values if kind_of(each) in kinds]
            if found:
                return found[-1]
    return None


def _fence(config: Config, group: str) -> None:
    """End the open transaction of the group's last process, and fence it."""
    sizes = clients.Sizes(message=1_000_000, batch=1_000_000)
    properties = clients.producer_properties(config, transactional_id=f"{group}.0", sizes=sizes)
    producer = clients.producer(config, properties)
    with kafka_errors(f"fencing the group {group}"):
        producer.init_transactions(INIT_SECONDS)
        producer.close()
