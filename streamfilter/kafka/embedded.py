"""Runs librdkafka's mock cluster in this process, as a broker for demos only.

It needs no installation. It supports consumer groups and transactional producers, also from other
processes. Its limits:

- it drops the offsets that a transaction sends;
- it shows open and aborted records to every reader;
- it never fences a producer;
- it keeps 5 MiB per partition, and nothing after the process ends.

So a demo can run on it once, but crash guarantees cannot be tested on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from confluent_kafka import cimpl

PRODUCER = 0
BROKER_ID = 1
ERROR_TEXT_BYTES = 512
FIRST_REBALANCE_DELAY_MILLISECONDS = 100  # default: 3 s, a long pause in a short demo


def _library() -> ctypes.CDLL:
    """Return the librdkafka that confluent_kafka uses, the wheel's copy or a system-wide one."""
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (text, [number]),
        "rd_kafka_handle_mock_cluster": (pointer, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_set_controller_id": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        if (function := getattr(library, name, None)) is not None:
            function.restype, function.argtypes = result, arguments
    return library


class EmbeddedBroker:
    """One mock broker on a free loopback port, from construction until `close`."""

    def __init__(self) -> None:
        self._library = library = _library()
        error = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        settings = library.rd_kafka_conf_new()
        for name, value in ((b"test.mock.num.brokers", b"1"), (b"log_level", b"3")):
            library.rd_kafka_conf_set(settings, name, value, error, len(error))
        # This client owns the cluster and is otherwise unused.
        self._client = library.rd_kafka_new(PRODUCER, settings, error, len(error))
        if not self._client:
            raise RuntimeError(f"librdkafka refused a mock cluster: {error.value.decode()}")
        self._cluster = library.rd_kafka_handle_mock_cluster(self._client)
        if hasattr(library, "rd_kafka_mock_set_controller_id"):
            # By default its metadata names controller 0, which does not exist. An admin client
            # would wait for that controller in vain, even for an unsupported request. librdkafka
            # 2.14 lacks this function, and there the demo starts a minute later.
            library.rd_kafka_mock_set_controller_id(self._cluster, BROKER_ID)
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(
            self._cluster, FIRST_REBALANCE_DELAY_MILLISECONDS
        )

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` for clients, of this process or another."""
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create each topic with its partitions: automatically it would get four."""
        for topic, count in partitions.items():
            code = self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), count, 1)
            if code:
                why = self._library.rd_kafka_err2str(code).decode()
                raise RuntimeError(f"the embedded broker refused topic {topic}: {why}")

    def close(self) -> None:
        """End the broker; a second call does nothing."""
        if self._client:
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None

    def __enter__(self) -> EmbeddedBroker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
