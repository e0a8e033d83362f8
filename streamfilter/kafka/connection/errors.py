"""Maps each `KafkaError` to an exception of `ports`, in one table.

librdkafka sets three flags on an error of a transactional call: fatal, abort required, retriable.
They are checked in this order, after the codes of fencing, missing rights and refused records.
Calls outside transactions (metadata, offsets, admin) set no flags. For those, the codes in `AGAIN`
mean "retry": a broker is down, or a partition is electing its leader.

A consumer's fatal error has the code `_FATAL`, and a text that begins with the original code's
text. Only one of them matters here: another member joined with our ``group.instance.id``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from streamfilter.engine.ports import (
    Abortable,
    Denied,
    InputLost,
    LogError,
    OutcomeUnknown,
    ProducerFenced,
    RecordsRefused,
    Retriable,
    Unfit,
    Unlike,
    as_stop,
)


def _codes(names: str) -> frozenset[int]:
    return frozenset(getattr(KafkaError, name) for name in names.split())


FENCED = _codes("_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED")
DENIED = _codes(
    """
    UNSUPPORTED_SASL_MECHANISM
    TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    """
)
REFUSED = frozenset(
    {
        KafkaError.INVALID_TIMESTAMP,  # a CreateTime outside of message.timestamp.*.max.ms
        KafkaError.INVALID_RECORD,  # without key on a compacted topic, or by a broker's own rule
        KafkaError.MSG_SIZE_TOO_LARGE,  # a limit that shrank since the start
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,  # headers on a topic of an old format
    }
)
"""Codes with which a broker refuses the records themselves: a retry gets the same answer. A batch
damaged in transit (INVALID_MSG) is not one of them, for a retry may arrive intact."""
INPUT_LOST = _codes(
    """
    _AUTO_OFFSET_RESET OFFSET_OUT_OF_RANGE _UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_OR_PART
    """
)
UNFIT = {
    KafkaError.INVALID_SESSION_TIMEOUT: "kafka.session_timeout must lie between the brokers' "
    "group.min.session.timeout.ms and group.max.session.timeout.ms; 10s is the default",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "lower kafka.transaction_timeout to the brokers' "
    "transaction.max.timeout.ms, or raise that; 10s is the default",
}
"""Codes with which brokers refuse a setting, whatever is tried, with the cure."""
UNLIKE = {
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "a live process of the group has another "
    "partition.assignment.strategy (kafka.consumer): give all the same, and stop those with the "
    "old one",
}
"""Codes with which a group refuses a setting that differs from its members', with the cure."""
AGAIN = _codes(
    """
    _TIMED_OUT _TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _WAIT_COORD _WAIT_CACHE _RETRY
    REQUEST_TIMED_OUT NETWORK_EXCEPTION BROKER_NOT_AVAILABLE LEADER_NOT_AVAILABLE
    NOT_LEADER_FOR_PARTITION COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS
    NOT_COORDINATOR NOT_CONTROLLER UNSTABLE_OFFSET_COMMIT CONCURRENT_TRANSACTIONS
    FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR THROTTLING_QUOTA_EXCEEDED
    INVALID_REPLICATION_FACTOR _NOENT
    _AUTHENTICATION SASL_AUTHENTICATION_FAILED
    """
)
"""The last two: a token expires while the next one is fetched, and librdkafka authenticates again.
Credentials that never were good end a start, which does not wait for others (`one_shot_calls`)."""

_REPLACED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()


def is_replaced_member(error: KafkaError) -> bool:
    """Return True if the group has another member, or none, for the static member that we are."""
    fatal = error.code() == KafkaError._FATAL and _REPLACED in error.str()
    return fatal or error.code() == KafkaError.FENCED_INSTANCE_ID


def classify(error: KafkaError) -> type[LogError]:
    """Return the exception class for *error*; the class says how to continue."""
    code = error.code()
    if code in FENCED:
        return ProducerFenced
    if code in DENIED:
        return Denied
    if is_replaced_member(error) and not error.txn_requires_abort():
        return ProducerFenced  # outside a transaction it ends the member, and the process
    if code in UNFIT:
        return Unfit
    if code in UNLIKE:
        return Unlike
    if error.fatal():
        return OutcomeUnknown
    if code in REFUSED:
        return RecordsRefused
    if error.txn_requires_abort():
        return Abortable
    if error.retriable() or code in AGAIN:
        return Retriable
    return InputLost if code in INPUT_LOST else OutcomeUnknown


def translated(error: KafkaError, doing: str) -> LogError:
    """Return *error* as a `LogError`; *doing* names the action and the resource."""
    message = f"{doing}: {error.name()}: {error.str()}"
    if is_replaced_member(error):
        message += (
            "; either this process was silent for longer than kafka.session_timeout, or another "
            "one has the same group.instance.id: give each its own"
        )
    if cure := (UNFIT | UNLIKE).get(error.code()):
        message += f"\n    cure: {cure}"
    return classify(error)(message)


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Turn exceptions of confluent_kafka inside the block into a `LogError`."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if isinstance(cause, KafkaError):
            raise translated(cause, doing) from error
        raise OutcomeUnknown(f"{doing}: {cause}") from error
    except (BufferError, SystemError) as error:
        # SystemError: raised by the binding for a produce on a fenced producer.
        raise OutcomeUnknown(f"{doing}: {error}") from error


@contextmanager
def stops() -> Iterator[None]:
    """Turn a `LogError` inside the block into a `Stop`, which ends the process."""
    try:
        yield
    except LogError as error:
        raise as_stop(error) from error
