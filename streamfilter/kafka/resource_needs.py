"""System resources that `run` will need, computed from the topics and brokers."""

from __future__ import annotations

from streamfilter.config.configuration import Config
from streamfilter.kafka.clients import admin_client
from streamfilter.kafka.one_shot_calls import asked_once, brokers_of
from streamfilter.kafka.topics import described, layout_of
from streamfilter.process.limits import Need


def need_of(config: Config) -> Need:
    """Return the needs of a process that owns all tasks of *config*.

    Raises:
        Stop: the cluster does not answer (`Temporary`), or refuses us.
    """
    admin = admin_client(config)
    found = described(config, admin)
    if config.input.topic not in found:
        return Need()
    with asked_once():
        return Need(layout_of(config, found).tasks, brokers_of(admin))
