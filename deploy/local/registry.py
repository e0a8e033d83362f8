"""Runs a real schema registry, Apicurio's, on a free loopback port of this machine.

    with RealRegistry() as registry:
        id_ = registry.register("articles-value", "AVRO", schema)

It has Confluent's API. Its schemas are kept in files until `close`, so they survive a kill and a
restart; by default Apicurio keeps them in memory. It starts within seconds, needs 7 s of processor
time for that, and uses 0.3 GB of memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from deploy.local.jars import find_java, registry_jars
from deploy.local.node import free_ports
from deploy.local.owned import Owned, Restarted
from streamfilter.documents.codecs.registry import Reference, Registry
from streamfilter.documents.codecs.registry_calls import Access

READY_TIMEOUT_SECONDS = 600
ANSWER_TIMEOUT_SECONDS = 60
OPTIONS = ("-Xmx400m", "-XX:+UseSerialGC")
API = "/apis/ccompat/v7"


class RealRegistry(Owned, Restarted):
    """A registry that runs between `start` and `kill`, and may be started again."""

    def __init__(self, *, port: int | None = None) -> None:
        """Prepare a registry; nothing runs yet.

        Args:
            port: its port; a free one by default.

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
        """Return the value for `input.registry.url`."""
        return f"http://127.0.0.1:{self.port}{API}"

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises:
            BrokerUnavailableError: it died, or did not answer in time. The message contains the end
                of its log.
        """
        database = f"jdbc:h2:file:{self._directory / 'schemas'};WRITE_DELAY=0"
        properties = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.datasource.jdbc.url": database,
            # Its default of 5 s is too short for a busy machine to open a file.
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
        """Kill it, and delete its schemas."""
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
