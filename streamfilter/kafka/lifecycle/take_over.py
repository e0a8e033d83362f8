"""The steps of a start with `input.take_over`, before the service runs.

1   refuse by name what cannot be taken over, and wait until the old group has no member
2   fence its last process: this ends the open transaction of a killed one
3   see how it stands: its positions, and the end of its changelog
4   read what the unique topic has received into the index: it may be more than was seeded. The
    service then takes the positions (`tasks/take_over.py`), if those of step 3 have not changed

Later starts find in the old group's changelog that it is done. If that is gone, a group that has
judged goes on.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext

from confluent_kafka import TopicPartition

from streamfilter.config.configuration import Config
from streamfilter.kafka.brokers.broker_queries import bounds_of
from streamfilter.kafka.changelog_ends import UNKNOWN_INDEX, ChangelogEnd, end_of, index_of
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import asked_once
from streamfilter.kafka.lifecycle.seed_sources import topic_seed
from streamfilter.kafka.lifecycle.seeding import Seeding, members_after_a_session
from streamfilter.kafka.predecessor import OldGroup, OldState, TakeOver, settled
from streamfilter.kafka.service_start import Start, StoppedEarly, explained
from streamfilter.kafka.topic_reader import no_progress
from streamfilter.process.health import State
from streamfilter.stops import ConfigError, Problem

logger = logging.getLogger("streamfilter.take_over")
INIT_SECONDS = 30.0
ANY = 1 << 40  # broken records: they were forwarded, and no verdict waits for them


def preview(config: Config, *, back: bool) -> str:
    """Return what a start would take over, or raise `Stop`; nothing is changed."""
    if not config.input.take_over:
        cure = "set it, or `--take-over GROUP`; without it, leave out --dry-run"
        raise ConfigError([Problem("input.take_over", "--dry-run shows what it would do", cure)])
    old = OldGroup(config, clients.admin_client(config), config.input.take_over)
    with explained(config), asked_once():
        found = old.there(fenced=False)
        old.refuse_anew(found)
        if found.successor is None:
            old.refuse_other_unique(found)
            _refuse_by_own(old, back=back)
        bounds = bounds_of(old.admin, [TopicPartition(*spot) for spot in found.offsets])
        ends = {spot: each.end for spot, each in zip(found.offsets, bounds, strict=True)}
        return old.as_text(found, ends)


def _refuse_by_own(old: OldGroup, *, back: bool) -> None:
    """Raise `ConfigError` where our own changelog would refuse (`tasks/take_over.py`)."""
    config, group = old.config, old.config.kafka.group
    own = end_of(config, old.admin, config.changelog_topic)
    if own is None:
        return
    if own.successor is None and own.judges:
        cure = f"`streamfilter reset --yes` of {group}, seed and start it again"
        raise old.refusal(f"{group} has judged records already: it cannot take over", cure)
    if own.successor and not (back and own.successor.group == old.name):
        by = own.successor.group
        raise old.refusal(
            f"{group} was itself taken over by {by}, and the setting takes nothing back",
            f"start {by}; to go back, stop it, and run this with --take-over {by}",
        )


def _refuse_reset(old: OldGroup, own: ChangelogEnd | None, found: OldState) -> None:
    if own is None or own.successor is None or own.successor.group != old.name:
        return
    present = index_of(old.config, old.admin, found.changelog)
    if present not in (own.successor.index_id, UNKNOWN_INDEX):
        raise old.refusal(
            f"it took over from {old.config.kafka.group}, and was reset after that: nothing says "
            "any more what it has judged",
            "begin anew (`streamfilter reset --yes`)",
        )


def prepared(start: Start, *, back: bool) -> TakeOver | None:
    """Return what the service takes over; None: nothing, or it has it. Raises `Stop`.

    If our own input was taken over, the setting alone does not take it *back*.
    """
    config = start.config
    if (group := config.input.take_over) is None:
        return None
    old = OldGroup(config, clients.admin_client(config), group)
    own = start.patiently(lambda: end_of(config, old.admin, config.changelog_topic))
    if own is not None and own.successor and not back:
        return None  # the task's start refuses it by name
    standing = start.patiently(lambda: old.look(fenced=False))
    if own is not None and own.judges and standing is None:
        logger.info("%s has no changelog any more; %s goes on", group, config.kafka.group)
        return None
    found = standing or start.patiently(lambda: old.there(fenced=False))
    start.patiently(lambda: old.refuse_anew(found))
    start.patiently(lambda: _refuse_reset(old, own, found))
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
    found = start.patiently(old.there)
    logger.info("%s has ended, at %s", group, found.places)
    start.patiently(lambda: old.refuse_other_unique(found))
    start.patiently(lambda: settled(config, old.admin, config.output.unique))
    _read_tail(start)
    return TakeOver(old, found)


def _read_tail(start: Start) -> None:
    """Seed what the unique topic has that the index has not. Raises `Stop` or `StoppedEarly`.

    A record that cannot be read with our settings is counted and left out. It was forwarded
    already, so a dead letter of it would be a second copy.
    """
    config, topic = start.config, start.config.output.unique

    def stopping() -> bool:
        start.health.enter(State.STARTING, f"what {topic} has received is read into the index")
        return start.stopping()

    unshown = nullcontext(no_progress)
    with topic_seed(config, topic, None, None, (None, None), lambda *_: unshown) as tail:
        seeding = Seeding(config, lambda _: [tail], errors_max=ANY)
        seeding.run(stopping)
    if not seeding.finished:
        raise StoppedEarly
    logger.info("%s is in the index: %s", topic, seeding.as_text())
    if broken := seeding.counts.verdicts["broken"]:
        logger.warning("%s: %s cannot be read: their copies count as new", topic, broken)


def _fence(config: Config, group: str) -> None:
    """End the open transaction of the group's last process, and fence it."""
    sizes = clients.Sizes(message=1_000_000, batch=1_000_000)
    properties = clients.producer_properties(
        config, transactional_id=clients.transactional_id(group, 0), sizes=sizes
    )
    producer = clients.producer(config, properties)
    with kafka_errors(f"fencing the group {group}"):
        producer.init_transactions(INIT_SECONDS)
        producer.close()
