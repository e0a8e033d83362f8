"""Implements `seed`: this process owns the task for a while, and reads seeds instead of the input.

It joins the group as the service does, so no other process can work meanwhile. A service that
starts in between waits as a standby.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import inf
from typing import Any

from confluent_kafka.admin import AdminClient
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.config.configuration import Config
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.seeding import (
    NoOutputs,
    SeedCounts,
    SeedObserver,
    SeedReader,
    SeedSource,
)
from streamfilter.engine.parts import Parts
from streamfilter.kafka.connection import clients
from streamfilter.kafka.group_reset import members_of
from streamfilter.kafka.lifecycle.seed_sources import SeedIndex, StoredSketches
from streamfilter.kafka.lifecycle.seed_trial import DryRun, trial_copy
from streamfilter.kafka.service_start import Start, StoppedEarly, task_factory
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.showcase import Showcase
from streamfilter.process.health import Health, State
from streamfilter.quality.live.audit import OFF
from streamfilter.stops import ConfigError, Problem, Temporary, counted

logger = logging.getLogger("streamfilter.seed")
UNBOUNDED = 1 << 40  # bytes of a record that is not forwarded
SHOWN = 20  # ids in both indexes that are listed for people
ALONE_AGAIN_SECONDS = 0.5
OWNED_SECONDS = 30.0
"""Longest time without the task, beyond the session timeout: the group gives it, or gives it back
after a rebalance."""


Readers = Callable[[Config], Sequence[SeedReader]]


class Seeding(Struct):
    """One run of `seed`, and its results."""

    config: Config
    readers: Readers
    trusted: bool = False  # all documents are added as they are
    errors_max: int = 0  # records that may be broken
    counts: SeedCounts = field(default_factory=SeedCounts)
    trial: DryRun | None = None  # nothing is written; it counts what would be
    documents: int | None = None  # of the index at the end; None: the task was not owned then
    finished: bool = False
    seconds: float = 0.0
    _source: SeedSource | None = None
    _read: Sequence[SeedReader] = ()

    def run(self, stopping: Callable[[], bool]) -> None:
        """Read the seeds until *stopping*, or raise `Stop`; `finished` says whether all is read."""
        refuse_partitions(self.config)
        health = Health(bound_seconds=self.config.http.stalled_after.total_seconds())
        start = Start(self.config, health, stopping)
        try:
            _alone(self.config, start)
            copy = trial_copy(self.config) if self.trial else nullcontext(self.config)
            with copy as config:
                self._run(config, start, stopping)
        except StoppedEarly:
            return

    def _run(self, config: Config, start: Start, stopping: Callable[[], bool]) -> None:
        health, metrics = start.health, Metrics(start.health)
        creates = self.trial is None
        factory = task_factory(config, health, metrics, Showcase(), start, creates=creates)
        self._read = self.readers(config)
        seeds = tuple(seed for reader in self._read for seed in reader.seeds)
        hashes = None if self._index is None else self._index.identity.seed
        factory = replace(factory, seeds=seeds, adapted=self._adapted, hashes=hashes)
        patience = OWNED_SECONDS + config.kafka.session_timeout.total_seconds()
        owned = begun = start.clock.monotonic()

        def ended() -> bool:
            nonlocal owned
            state, now = health.status.state, start.clock.monotonic()
            if state is State.PAUSED_DISK:
                raise Temporary(
                    f"{health.status.detail}\n    what stays: everything up to the last batch"
                    "\n    cure: make room, and run it again: it goes on there"
                )
            owns = bool(health.status.tasks or self.trial)
            owned = now if owns else owned
            if now - owned > patience:
                raise Temporary(
                    f"another process of {config.kafka.group} has the task\n"
                    "    what stays: everything up to the last batch\n"
                    "    cure: stop that process, and run it again: it goes on there"
                )
            self.documents = health.status.documents if owns else None
            self.finished = self._source is not None and self._source.done
            return self.finished or stopping()

        try:
            if self.trial:
                self.trial.run(factory, ended)
            else:
                factory.service(accept_positions=False, rewrite_changelog=False).run(ended)
        finally:
            self.seconds = start.clock.monotonic() - begun
            factory.worker.close()
            factory.crew.close()

    def _adapted(self, parts: Parts) -> Parts:
        """Return the *parts* of the task, with the seeds in place of input and outputs."""
        source = SeedSource(
            parts.source,
            parts.inputs,
            self._read,
            self.counts,
            retention=parts.retention,
            clock=parts.clock,
        )
        self._source = source
        incoming = parts.incoming
        assert isinstance(incoming, Incoming)
        to = incoming.to
        to = replace(to, limits=dict.fromkeys(to.limits, UNBOUNDED), compacted=set())
        incoming = replace(incoming, to=to, shadow=False, fixed=True)
        observer = SeedObserver(parts.observer.process, to)
        observer.source, observer.counts = source, self.counts
        return replace(
            parts,
            source=source,
            seeds=source,
            observer=observer,
            incoming=StoredSketches(incoming) if self._index else incoming,
            forwarder=NoOutputs(self.counts, self.errors_max),
            # Full batches, also after slow transactions or one that ended early: after a kill they
            # are the same ones.
            bounds=replace(parts.bounds, latency=inf),
            pace=Pace(parts.clock, parts.bounds.transaction_seconds, fixed=True),
            rules=replace(parts.rules, trusted=self.trusted),
            breaker=Breaker(1.0),
            rates=OFF,
        )

    @property
    def _index(self) -> SeedIndex | None:
        return next((each for each in self._read if isinstance(each, SeedIndex)), None)

    def as_json(self) -> dict[str, Any]:
        verdicts = self.counts.verdicts
        return {
            "records": self.counts.documents,
            "added": verdicts["unique"],
            "duplicates": verdicts["exact_duplicate"] + verdicts["near_duplicate"],
            "not_judged": verdicts["passthrough"] + verdicts["dropped"],
            "broken": verdicts["broken"],
            "older_than_retention": self.counts.old,
            "index_documents": self.documents,
            "seconds": round(self.seconds, 3),
            **({"first_broken": self.counts.broken} if self.counts.broken else {}),
            **({} if (i := self._index) is None else {"ids_in_both": i.shared, "ids": i.listed}),
            **(self.trial.as_json() if self.trial else {}),
        }

    def as_text(self) -> str:
        counts, old = self.as_json(), "older than the retention"
        parts = [f"{counts['added']:,} added", counted(counts["duplicates"], "duplicate")]
        rare = {"not_judged": "not judged", "broken": "broken", "older_than_retention": old}
        parts += [f"{counts[key]:,} {said}" for key, said in rare.items() if counts[key]]
        more = f"\nthe first broken one: {self.counts.broken}" if self.counts.broken else ""
        if (index := self._index) is not None and index.shared:
            more += f"\n{counted(index.shared, 'id')} in both: {', '.join(index.listed[:SHOWN])}"
            more += ", …" if index.shared > SHOWN else ""
        more += f"\n{self.trial}" if self.trial else ""
        has = "" if self.documents is None else counted(self.documents, "document")
        return (
            f"{counted(counts['records'], 'record')} = {' + '.join(parts)}; "
            f"{has and f'the index has {has}; '}{self.seconds:.1f} s, "
            f"{counts['records'] / max(self.seconds, 0.001):,.0f} records/s{more}"
        )


def refuse_partitions(config: Config) -> None:
    if config.index.scope == "partition":
        cure = "seed needs index.scope: topic, where one index has all documents"
        raise ConfigError([Problem("index.scope", "it is partition", cure)])


def _alone(config: Config, start: Start) -> None:
    admin, group = clients.admin_client(config), config.kafka.group
    if members := members_after_a_session(start, admin, group):
        got = f"a process owns the task: {', '.join(sorted(members))}"
        cure = (
            "stop every process of the group, standbys too (SIGTERM), seed, and start them "
            "again; a service that starts meanwhile waits as a standby"
        )
        raise ConfigError([Problem("kafka.group", got, cure)])


def members_after_a_session(start: Start, admin: AdminClient, group: str) -> tuple[str, ...]:
    """Return the members of *group* that stay: a killed one counts until its session ends."""
    session = start.config.kafka.session_timeout.total_seconds()
    begun = start.clock.monotonic()
    said = False
    while members := start.patiently(lambda: members_of(admin, group)[0]):
        if start.clock.monotonic() > begun + session + 1.0:
            break
        if not said:
            who = ", ".join(sorted(members))
            logger.info("waits up to %g s (kafka.session_timeout) for %s to end", session, who)
        said = True
        start.clock.sleep(ALONE_AGAIN_SECONDS)
    return members
