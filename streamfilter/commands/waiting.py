"""Waits of one-time commands for a schema registry: as long as `run` waits for brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamfilter.config.configuration import Config
from streamfilter.documents.schemas import SchemasAway, SchemasWithheld
from streamfilter.process.waiting import Waiting

T = TypeVar("T")


def waiting_of(config: Config) -> Waiting:
    """Return how long a registry may not answer, from now on."""
    return Waiting(config.kafka.start_timeout.total_seconds())


def schemas_awaited(patience: Waiting, call: Callable[[], T]) -> T:
    """Return what *call* returns, once the registry answers.

    Raises:
        SchemasAway: it does not, or says of no schema what it is.
    """
    return patience.awaited(
        call, SchemasAway, hopeless=lambda error: isinstance(error, SchemasWithheld)
    )
