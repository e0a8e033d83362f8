"""Implements `reset`: removes a group's state from Kafka, in an order that a kill may interrupt.

The changelog is deleted first and the directory last. So `run` never mistakes the state after a
kill for a valid one:

| removed so far              | result of `run`                                          |
|-----------------------------|----------------------------------------------------------|
| nothing                     | it continues as before                                   |
| the changelog (and outputs) | 78: the group has offsets, and the changelog is missing  |
| the group's offsets, too    | 78: the index has applied what the changelog has not     |
| the directory, too          | it starts with empty state                               |

Each step removes what still exists, so a second `reset` completes an interrupted one. A process
that starts in between finds one of these states. Brokers refuse to delete a group with members.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.engine.messages.changelog_header import HEADER, decode_header, kind_of
from streamfilter.engine.ports import Retriable
from streamfilter.index.errors import FormatError
from streamfilter.kafka.brokers.broker_queries import topic_bounds
from streamfilter.kafka.brokers.topics import Topics, describe, outputs_of
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, asked_once, listed
from streamfilter.kafka.topic_sample import first_of
from streamfilter.stops import ConfigError, Problem, counted

GONE_SECONDS, LOOK_AGAIN_SECONDS = 30.0, 0.2


class Found(Struct, frozen=True):
    """The group's state that `reset` would remove."""

    members: tuple[str, ...]
    group: bool
    changelog: int | None  # number of its offsets, from first to end; None: no such topic
    outputs: dict[str, int]  # number of offsets by output topic
    waiting: int | None  # number of the input's offsets, to be read again; None: no such topic

    def as_text(self, config: Config, places: Sequence[Path], *, outputs: bool) -> str:
        size = self.changelog
        held = " is not there" if size is None else f", {counted(size, 'offset')}"
        lines = ["to be removed:", f"  topic {config.changelog_topic}{held}"]
        lines += [f"  topic {name}" for name in config.cluster_topics.values()]
        emptied = self.outputs if outputs else {}
        lines += [f"  the records of topic {n}, {counted(o, 'offset')}" for n, o in emptied.items()]
        state = "and its offsets" if self.group else "is not there"
        lines.append(f"  the group {config.kafka.group} {state}")
        if config.cluster.enabled:
            lines.append(f"  the group {config.edge_group} and its offsets, if it is there")
        lines += [f"  the index in {place}" for place in places] or [
            f"  there is no index in {config.index.path}"
        ]
        if self.waiting is not None:
            lines.append(
                f"then `run` begins at input.start ({config.input.start}) of {config.input.name}, "
                f"which holds {counted(self.waiting, 'offset')}"
            )
        return "\n".join(lines)


def survey(config: Config, admin: AdminClient) -> Found:
    with asked_once():
        topics = describe(config, admin)
        members, group = members_of(admin, config.kafka.group)
        if config.cluster.enabled:
            members += members_of(admin, config.edge_group)[0]
        read = config.input.among(topics)
        held = {name: _held(admin, name, topics) for name in {*config.topics.values(), *read}}
    waiting = [held[name] or 0 for name in read]
    return Found(
        members=members,
        group=group,
        changelog=held[config.changelog_topic],
        outputs={name: held[name] or 0 for name in outputs_of(config) if name in topics},
        waiting=sum(waiting) if waiting else None,
    )


def refuse_compacted(config: Config, admin: AdminClient) -> None:
    """Stop if an output cannot be emptied: its cleanup.policy is `compact` alone (`Stop`)."""
    with asked_once():
        topics = describe(config, admin)
    cure = "leave out --outputs, and empty or recreate it yourself"
    problems = [
        Problem("output", f"topic {name!r} is compacted, and its records cannot be deleted", cure)
        for name in outputs_of(config)
        if name in topics and topics[name].settings.get("cleanup.policy") == "compact"
    ]
    if problems:
        raise ConfigError(problems)


def refuse_foreign(config: Config) -> None:
    """Stop if ``index.changelog`` is another group's, or no changelog (`Stop`)."""
    name, group = config.changelog_topic, config.kafka.group
    for record in first_of(config, name):
        owner = owner_of(record.value or b"")
        if owner not in (group, ""):
            got = f"topic {name!r} is not the changelog of group {group!r}, but {owner}"
            cure = "name the group's own changelog, or delete that topic yourself if it is to go"
            raise ConfigError([Problem("index.changelog", got, cure)])


def owner_of(value: bytes) -> str:
    """Return the group that a changelog's record names, or "" if it names none."""
    try:
        return decode_header(value).group if kind_of(value) == HEADER else ""
    except FormatError:
        return "holds records of something else"


def members_of(admin: AdminClient, group: str) -> tuple[tuple[str, ...], bool]:
    with kafka_errors(f"asking for the group {group}"):
        answer = admin.describe_consumer_groups([group], request_timeout=CALL_SECONDS)[group]
        try:
            found = answer.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return (), False
            raise
    hosts = tuple(f"{each.client_id} on {each.host.lstrip('/')}" for each in found.members)
    return hosts, found.state != ConsumerGroupState.DEAD


def _held(admin: AdminClient, name: str, topics: Topics) -> int | None:
    if name not in topics:
        return None
    bounds = topic_bounds(admin, name, topics[name].partitions)
    return sum(each.end - each.start for each in bounds)


def delete_topics(config: Config, admin: AdminClient, names: Sequence[str]) -> None:
    """Delete those of the topics *names* that exist; return once the brokers list none of them."""
    answers = admin.delete_topics(list(names), operation_timeout=CALL_SECONDS)
    for name, answer in answers.items():
        with asked_once(), kafka_errors(f"deleting topic {name}"):
            error = answer.exception()
            if error is not None and _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise error
    deadline = time.monotonic() + GONE_SECONDS
    with asked_once(cure="brokers delete slowly: run this again"):
        while left := sorted(set(names) & listed(config, admin).keys()):
            if time.monotonic() > deadline:
                raise Retriable(f"topic {left[0]} was deleted, and brokers still show it")
            time.sleep(LOOK_AGAIN_SECONDS)


def empty_outputs(config: Config, admin: AdminClient) -> None:
    """Delete all records of the outputs; the topics and their settings stay."""
    with asked_once():
        topics = describe(config, admin)
        for name in outputs_of(config):
            if name in topics:
                _empty(admin, name, topics[name].partitions)


def _empty(admin: AdminClient, name: str, partitions: int) -> None:
    bounds = topic_bounds(admin, name, partitions)
    spots = [TopicPartition(name, number, each.end) for number, each in enumerate(bounds)]
    with kafka_errors(f"deleting the records of topic {name}"):
        answers = admin.delete_records(
            spots, request_timeout=CALL_SECONDS, operation_timeout=CALL_SECONDS
        )
        for answer in answers.values():
            answer.result()


def delete_group(config: Config, admin: AdminClient) -> None:
    """Delete the group with its offsets. Brokers refuse this while the group has a member."""
    for group in [config.kafka.group] + [config.edge_group] * config.cluster.enabled:
        _delete_group(admin, group)


def _delete_group(admin: AdminClient, group: str) -> None:
    doing = f"deleting the group {group}"
    alive = "a process of it has started meanwhile: stop it, and run this again"
    with asked_once(cure=alive), kafka_errors(doing):
        answer = admin.delete_consumer_groups([group], request_timeout=CALL_SECONDS)[group]
        error = answer.exception()
        if _code(error) == KafkaError.NON_EMPTY_GROUP:
            raise Retriable(f"{doing}: it has members")
        if error is not None and _code(error) != KafkaError.GROUP_ID_NOT_FOUND:
            raise error


def _code(error: BaseException | None) -> int | None:
    return error.args[0].code() if isinstance(error, KafkaException) else None
