"""A real schema registry on this machine: Apicurio's, on a free loopback port.

    with RealRegistry() as registry:
        id_ = registry.register("articles-value", "AVRO", schema)

It speaks Confluent's API. What it was told is kept in files until the end, so that a registry that
was killed and comes back knows it still; its own way is to forget. It starts within seconds (7 of
processor time) and holds 0.3 GB.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from streamfilter.documents.registry import Reference, Registry
from streamfilter.documents.registry_calls import Access
from streamfilter.kafka.broker.jars import find_java, registry_jars
from streamfilter.kafka.broker.node import free_ports
from streamfilter.kafka.broker.owned import Owned, Restarted

READY_TIMEOUT_SECONDS = 600
ANSWER_TIMEOUT_SECONDS = 60
OPTIONS = ("-Xmx400m", "-XX:+UseSerialGC")
API = "/apis/ccompat/v7"


class RealRegistry(Owned, Restarted):
    """A registry that we own. It runs between `start` and `kill`, and may be started again."""

    def __init__(self, *, port: int | None = None) -> None:
        """Prepare a registry; nothing runs yet.

        Args:
            port: where it answers; a free one by default.

        Raises:
            BrokerUnavailableError: no Java or no Maven; the message names the cure.
        """
        self._java, (self._jar,) = find_java(), registry_jars().glob("*-runner.jar")
        self.port = free_ports(1)[0] if port is None else port
        self._temporary = tempfile.TemporaryDirectory(prefix="streamfilter-registry-")
        self._directory = Path(self._temporary.name)
        super().__init__("the schema registry", self._directory / "registry.log")

    @property
    def url(self) -> str:
        """Return what `input.registry.url` says."""
        return f"http://127.0.0.1:{self.port}{API}"

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises:
            BrokerUnavailableError: it died, or did not answer in time; with its log's end.
        """
        database = f"jdbc:h2:file:{self._directory / 'schemas'};WRITE_DELAY=0"
        properties = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.datasource.jdbc.url": database,
            # Its own 5 s are too few for a busy machine to open a file.
            "quarkus.datasource.jdbc.acquisition-timeout": str(ANSWER_TIMEOUT_SECONDS),
        }
        options = [*OPTIONS, *(f"-D{name}={value}" for name, value in properties.items())]
        command = [str(self._java), *options, "-jar", str(self._jar)]
        self.run(command)
        self.wait_until(self._answers, time.monotonic() + READY_TIMEOUT_SECONDS)

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[Reference] = ()
    ) -> int:
        """Add a schema to a subject, and return its id."""
        registry = Registry(Access(self.url, seconds=ANSWER_TIMEOUT_SECONDS))
        return registry.register(subject, kind, text, references)

    def close(self) -> None:
        """Kill it, and delete what it was told."""
        self.kill()
        self._temporary.cleanup()

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/subjects", timeout=ANSWER_TIMEOUT_SECONDS):
                return True
        except HTTPError as error:
            error.close()
        except OSError:
            pass
        return False
