"""A stage: one test's own topics, group, directory and filters, on a shared or embedded broker."""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.local.node import free_ports
from streamfilter.config.loading import load_config
from streamfilter.demo.running_filter import Child
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.model import Record
from streamfilter.similarity.scheme import Scheme
from tests.support.filter_process import FilterProcess
from tests.support.topics import Input, create_topics, end_offsets, produce, read_committed

DRAIN_TIMEOUT_SECONDS = 300
OF_A_START = {"LD_PRELOAD", "PYTHONPATH"}
"""What an environment changes only in a process that is started, not in one that is forked."""
SEED_FILE = bytes(range(32))
"""Every filter of a stage has this in its `index.seed_file`, so that runs can be compared.
`read_seed` makes the seed of the hash functions of it."""


class Stage:
    """Four topics with random names, and the filters that run between them."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        partitions: int = 1,
        replication: int = -1,
        launch: Callable[..., Child] = Child,
        embedded: EmbeddedBroker | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.group = f"test-{secrets.token_hex(6)}"
        self.input = f"{self.group}.in"
        self.unique = f"{self.group}.unique"
        self.duplicates = f"{self.group}.duplicates"
        self.dead_letter = f"{self.group}.dead-letter"
        self.changelog = f"{self.group}.changelog"
        """Created by the filter, not here."""
        self.processes: list[FilterProcess] = []
        self.launch = launch
        """How a filter is started; `forge.Forge.launch` forks it."""
        topics = dict.fromkeys(
            (self.input, self.unique, self.duplicates, self.dead_letter), partitions
        )
        if embedded is not None:
            embedded.create_topics({**topics, self.changelog: partitions})
            return
        create_topics(
            bootstrap,
            topics,
            replication=replication,
            config={"retention.ms": "-1"},  # stories are older than a broker's week
        )

    def configuration(self, *, state: str = "state", **sections: Mapping[str, Any]) -> Path:
        """Write a configuration file and return it; *sections* are merged over the stage's own.

        Args:
            state: name of the state directory; a second process needs its own.
            **sections: e.g. ``batch={"documents": 10}``; ``kafka={"consumer": {...}}`` replaces
                that one key.
        """
        seed_file = self.directory / "seed"
        seed_file.write_bytes(SEED_FILE)
        own: dict[str, dict[str, Any]] = {
            "input": {"topic": self.input},
            "output": {
                "unique": self.unique,
                "duplicates": self.duplicates,
                "dead_letter": self.dead_letter,
            },
            "index": {"path": str(self.directory / state), "seed_file": str(seed_file)},
            "kafka": {"group": self.group, "common": {"bootstrap.servers": self.bootstrap}},
            "http": {"host": "127.0.0.1", "port": free_ports(1)[0]},
        }
        if "topics" in sections.get("input", {}):
            del own["input"]["topic"]
        for section, values in sections.items():
            own[section] = {**own.get(section, {}), **values}
        # JSON is YAML too. A file per call: two processes must not share a port.
        path = self.directory / f"config-{secrets.token_hex(4)}.yaml"
        path.write_text(json.dumps(own, indent=2))
        return path

    def scheme(self) -> Scheme:
        """Return the scheme of a filter that is started without other settings."""
        return load_config([self.configuration()]).scheme()

    def start(
        self,
        *,
        state: str = "state",
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        **sections: Mapping[str, Any],
    ) -> FilterProcess:
        """Start `streamfilter run`, behind a *prefix* such as ``strace``; it waits for nothing."""
        config = self.configuration(state=state, **sections)
        port = json.loads(config.read_text())["http"]["port"]
        log = config.with_suffix(".log")
        anew = bool(prefix) or not OF_A_START.isdisjoint(environment or ())
        process = FilterProcess(
            config,
            port=port,
            log=log,
            environment=environment,
            arguments=arguments,
            prefix=prefix,
            launch=Child if anew else self.launch,
        )
        self.processes.append(process)
        return process

    def produce(self, records: Iterable[Input]) -> None:
        """Write to the input topic."""
        produce(self.bootstrap, self.input, records)

    def drain(
        self, process: FilterProcess, *, timeout_seconds: float = DRAIN_TIMEOUT_SECONDS
    ) -> None:
        """Return when *process* has committed everything that is in the input topic now."""
        ends = end_offsets(self.bootstrap, self.input)

        def drained(status: Mapping[str, Any]) -> bool:
            positions = status.get("positions", {})
            return all(positions.get(f"{self.input}/{p}", 0) >= end for p, end in ends.items())

        process.wait_for(drained, what=f"end of the input {ends}", timeout_seconds=timeout_seconds)

    def end(self, process: FilterProcess) -> str:
        """Let *process* come to the end of the input, and stop it; return its log."""
        self.drain(process)
        assert process.terminate() == 0, process.with_log("did not end well")
        return process.log.read_text()

    def run(self, **settings: Any) -> str:
        """Run a filter to the end of the input; return its log."""
        return self.end(self.start(**settings))

    def refused(self, code: int = 78, **settings: Any) -> str:
        """Start a filter that must end with *code*; return its log."""
        process = self.start(**settings)
        assert process.wait_for_exit() == code, process.with_log("ended otherwise")
        return process.log.read_text()

    def outputs(self) -> dict[str, list[Record]]:
        """Return what is committed to ``unique``, ``duplicates`` and ``dead_letter``."""
        topics = {
            "unique": self.unique,
            "duplicates": self.duplicates,
            "dead_letter": self.dead_letter,
        }
        return {name: read_committed(self.bootstrap, topic) for name, topic in topics.items()}

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.kill()
