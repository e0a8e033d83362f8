"""The one table: which error allows what."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamfilter.engine.ports import (
    Abortable,
    Denied,
    InputLost,
    OutcomeUnknown,
    ProducerFenced,
    RecordsRefused,
    Retriable,
    Unfit,
    Unlike,
)
from streamfilter.kafka.connection.errors import as_stop, classify, kafka_errors, translated
from streamfilter.stops import ExitCode
from tests.support.cases import cases

PLAIN, FATAL, RETRIABLE, ABORT = (
    {}, {"fatal": True}, {"retriable": True}, {"txn_requires_abort": True}
)  # fmt: skip


@cases(
    ("code", "flags", "wanted"),
    [
        # a fence is a fence, whatever else the error claims
        (KafkaError._FENCED, FATAL, ProducerFenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, FATAL, ProducerFenced),
        (KafkaError.PRODUCER_FENCED, ABORT, ProducerFenced),
        # another process has our group.instance.id
        (KafkaError.FENCED_INSTANCE_ID, PLAIN, ProducerFenced),
        (KafkaError.FENCED_INSTANCE_ID, FATAL, ProducerFenced),
        # the group moved: this transaction is lost, the producer lives
        (KafkaError.ILLEGAL_GENERATION, ABORT, Abortable),
        (KafkaError.UNKNOWN_MEMBER_ID, ABORT, Abortable),
        (KafkaError.FENCED_INSTANCE_ID, ABORT, Abortable),
        (KafkaError._TIMED_OUT, ABORT, Abortable),
        # a verdict on records: to send them again would change nothing
        (KafkaError.MSG_SIZE_TOO_LARGE, ABORT, RecordsRefused),
        (KafkaError.MSG_SIZE_TOO_LARGE, PLAIN, RecordsRefused),
        (KafkaError.INVALID_TIMESTAMP, ABORT, RecordsRefused),
        (KafkaError.INVALID_RECORD, ABORT, RecordsRefused),
        (KafkaError.INVALID_MSG, ABORT, Abortable),
        # not yet decided: the same call again
        (KafkaError._TIMED_OUT, RETRIABLE, Retriable),
        (KafkaError.CONCURRENT_TRANSACTIONS, RETRIABLE, Retriable),
        (KafkaError._TIMED_OUT, PLAIN, Retriable),
        (KafkaError._TRANSPORT, PLAIN, Retriable),
        (KafkaError.NOT_COORDINATOR, PLAIN, Retriable),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, PLAIN, Retriable),
        (KafkaError.UNSTABLE_OFFSET_COMMIT, PLAIN, Retriable),
        (KafkaError.LEADER_NOT_AVAILABLE, PLAIN, Retriable),
        # brokers that have not heard of the newest leader yet, or have none
        (KafkaError.UNKNOWN_LEADER_EPOCH, PLAIN, Retriable),
        (KafkaError.FENCED_LEADER_EPOCH, PLAIN, Retriable),
        (KafkaError.NOT_ENOUGH_REPLICAS, PLAIN, Retriable),
        (KafkaError._NOENT, PLAIN, Retriable),
        # a token that expired: the next one is fetched
        (KafkaError._AUTHENTICATION, PLAIN, Retriable),
        (KafkaError.SASL_AUTHENTICATION_FAILED, ABORT, Abortable),
        (KafkaError._AUTHENTICATION, FATAL, OutcomeUnknown),
        # a cluster that is starting, or that wants its administration done more slowly
        (KafkaError.INVALID_REPLICATION_FACTOR, PLAIN, Retriable),
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, PLAIN, Retriable),
        # refused by name
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PLAIN, Denied),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL, Denied),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, ABORT, Denied),
        # the input is not what it was
        (KafkaError._AUTO_OFFSET_RESET, PLAIN, InputLost),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, PLAIN, InputLost),
        # a setting that brokers refuse whatever is tried; a producer calls it fatal
        (KafkaError.INVALID_SESSION_TIMEOUT, PLAIN, Unfit),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, FATAL, Unfit),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, PLAIN, Unlike),
        # everything else: no one knows, so a new producer
        (KafkaError._CONFLICT, PLAIN, OutcomeUnknown),
        (KafkaError._STATE, PLAIN, OutcomeUnknown),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, FATAL, OutcomeUnknown),
        (KafkaError._TRANSPORT, FATAL, OutcomeUnknown),
    ],
)
def test_an_error_allows_what_the_table_says(code: int, flags: dict[str, bool], wanted) -> None:
    assert classify(KafkaError(code, "told", **flags)) is wanted


def test_what_was_tried_stands_in_the_message() -> None:
    with (
        pytest.raises(Retriable, match=r"reading offsets: _TRANSPORT: down"),
        kafka_errors("reading offsets"),
    ):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "down"))


@pytest.mark.parametrize("error", [BufferError("full"), SystemError("append"), KafkaException("?")])
def test_what_the_binding_raises_otherwise_leaves_the_outcome_unknown(error: Exception) -> None:
    with pytest.raises(OutcomeUnknown), kafka_errors("producing"):
        raise error


def test_a_broker_that_is_away_is_temporary_and_a_refusal_is_the_operators() -> None:
    assert as_stop(Retriable("x")).exit_code is ExitCode.TEMPORARY
    assert as_stop(Denied("x")).exit_code is ExitCode.CONFIG
    assert as_stop(ProducerFenced("x")).exit_code is ExitCode.FENCED
    assert as_stop(InputLost("x")).exit_code is ExitCode.CONFIG
    assert "start again: a start names what is gone" in str(as_stop(InputLost("x")))


@pytest.mark.parametrize(
    ("code", "exit_code", "cure"),
    [
        (KafkaError.INVALID_SESSION_TIMEOUT, ExitCode.CONFIG, "kafka.session_timeout must lie"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, ExitCode.CONFIG, "transaction.max.timeout.ms"),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, ExitCode.TEMPORARY, "give all the same"),
    ],
)
def test_a_setting_that_brokers_refuse_is_no_bug_and_has_a_cure(code, exit_code, cure) -> None:
    """The process ended with 70, which is a bug and is started again for ever."""
    stop = as_stop(translated(KafkaError(code, "refused"), "joining"))
    assert stop.exit_code is exit_code
    assert cure in str(stop)


def test_a_consumers_fatal_error_without_a_code_of_its_own_is_reported_by_its_words() -> None:
    words = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
    replaced = KafkaError(KafkaError._FATAL, f"Fatal error: {words}: by another", fatal=True)
    assert classify(replaced) is ProducerFenced
    assert "give each its own" in str(translated(replaced, "polling"))
    other = KafkaError(KafkaError._FATAL, "Fatal error: something else", fatal=True)
    assert classify(other) is OutcomeUnknown
