"""Runs the demo of compose.yaml without containers: `python -m deploy.native`. Ctrl-C ends it.

The processes have the same arguments, environment and configuration files as in the containers.
`translation` turns each address ``service:port`` into the published loopback port, and each path in
a container into a path on this machine. Kafka is a real one and runs on Java. Prometheus and
Alertmanager are Debian's. Kafka UI and Grafana are left out. So a wrong scrape target or topic is
found without a container engine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from deploy.composition import OURS, REGISTRY, Service, image_environment, services
from deploy.local.node import free_ports, is_free
from deploy.local.owned import Owned
from deploy.local.real import RealKafka
from deploy.local.registry import RealRegistry
from deploy.translation import Translation
from streamfilter.demo.running_filter import Child
from streamfilter.process.signals import Interruption

KAFKA, KAFKA_INSIDE, HTTP_PORT = "kafka", 9092, 9464
DEBIANS = {"prom/prometheus": "prometheus", "prom/alertmanager": "prometheus-alertmanager"}
"""Image → the name of its program in Debian, which is also the package's name."""
SCRAPE = "scrape_interval: 5s"  # the exact text in prometheus.yml
ONCE_TIMEOUT_SECONDS = 90
LOG_LINES_SHOWN = 20


class Native(Owned):
    """Runs the demo's processes. All files that they write are in one directory."""

    def __init__(
        self,
        directory: Path,
        *,
        any_ports: bool = False,
        avro: bool = False,
        replacing: Mapping[str, str] | None = None,
    ) -> None:
        """Read the services to start; nothing runs yet.

        Args:
            directory: for data, translated configuration and logs.
            any_ports: take free ports instead of those that compose.yaml publishes.
            avro: merge compose.avro.yaml too, and so run a schema registry.
            replacing: texts in the configuration files to replace.
        """
        self.directory = directory
        self.services = services(avro=avro)
        self.children: dict[str, Child] = {}
        self.ports = _ports(self.services, any_ports=any_ports)
        """Loopback port by (service, port in the container)."""
        (kafka_port,) = (port for (name, _), port in self.ports.items() if name == KAFKA)
        self.kafka = RealKafka(port=kafka_port)
        registry = [port for (name, _), port in self.ports.items() if self._is_registry(name)]
        self.registry = RealRegistry(port=registry[0]) if registry else None
        addresses = {**self.ports, (KAFKA, KAFKA_INSIDE): kafka_port}
        self._translation = Translation(directory, addresses, dict(replacing or {}))

    def url(self, service: str, port: int) -> str:
        """Return the URL on this machine of *port* in the container of *service*."""
        return f"http://127.0.0.1:{self.ports[service, port]}"

    def start(self) -> None:
        """Start all services. Those that run once have ended when this returns."""
        self.kafka.start()
        if self.registry is not None:
            self.registry.start()
        mine = [service for service in self.services.values() if service.image == OURS]
        for service in sorted(mine, key=lambda service: not service.once):
            self._start(service)
        for service in self.services.values():
            if program := DEBIANS.get(service.image.partition(":")[0]):
                self._start_debians(program, service)

    def start_one(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the service *name* again, with more variables in its *environment*."""
        service = self.services[name]
        self._start(replace(service, environment={**service.environment, **(environment or {})}))

    def _is_registry(self, name: str) -> bool:
        return self.services[name].image.startswith(REGISTRY)

    def _start(self, service: Service) -> None:
        command = [sys.executable, "-m", "streamfilter", *self._arguments(service)]
        child = Child(command, log=self.log(service.name), environment=self._environment(service))
        if not service.once:
            self.children[service.name] = child
        elif code := child.wait(ONCE_TIMEOUT_SECONDS):
            raise self._failed(service.name, code)

    def _environment(self, service: Service) -> dict[str, str]:
        # The user's STREAMFILTER_* variables are for another service, and are not passed on.
        ours = {k: v for k, v in os.environ.items() if not k.startswith("STREAMFILTER_")}
        for name, value in {**image_environment(), **service.environment}.items():
            ours[name] = self._translation.of(value, service)
        if (service.name, HTTP_PORT) in self.ports:
            ours["STREAMFILTER_HTTP__PORT"] = str(self.ports[service.name, HTTP_PORT])
        return ours

    def _start_debians(self, name: str, service: Service) -> None:
        program = shutil.which(name)
        if program is None:
            click.echo(f"no `{name}` here (Debian: apt-get install {name}): left out")
            return
        (port,) = (port for (of, _), port in self.ports.items() if of == service.name)
        command = [program, *self._arguments(service), f"--web.listen-address=127.0.0.1:{port}"]
        self.children[service.name] = Child(command, log=self.log(service.name))

    def _arguments(self, service: Service) -> list[str]:
        return [self._translation.of(argument, service) for argument in service.command]

    def log(self, name: str) -> Path:
        """Return the file with the output of *name*."""
        return self.directory / f"{name}.log"

    def check(self) -> None:
        """Raise an error if a process that should keep running has ended."""
        for name, child in self.children.items():
            if (code := child.exit_code) is not None:
                raise self._failed(name, code)

    def _failed(self, name: str, code: int) -> click.ClickException:
        lines = self.log(name).read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return click.ClickException(f"{name} ended with {code}. Its log:\n" + "\n".join(lines))

    def close(self) -> None:
        """Stop all processes in reverse order, and the broker last."""
        while self.children:
            name, child = self.children.popitem()
            click.echo(f"{name} stopped ({child.stop()})")
        if self.registry is not None:
            self.registry.close()
        self.kafka.close()


def _ports(known: Mapping[str, Service], *, any_ports: bool) -> dict[tuple[str, int], int]:
    """Return the loopback port for each published port of the services that run here."""
    inside = {
        (service.name, port): outside
        for service in known.values()
        if service.image == OURS or service.image.startswith((*DEBIANS, REGISTRY, "apache/kafka"))
        for port, outside in service.published.items()
    }
    if any_ports:
        return dict(zip(inside, free_ports(len(inside)), strict=True))
    if busy := [port for port in inside.values() if not is_free(port)]:
        raise click.ClickException(
            f"ports in use: {', '.join(map(str, busy))}\n"
            "    cure: end what listens there, or take others with --any-ports"
        )
    return inside


@click.command()
@click.option("--any-ports", is_flag=True, help="Take free ports, not those of compose.yaml.")
@click.option("--avro", is_flag=True, help="With compose.avro.yaml: Avro, and a registry.")
@click.option("--scrape-interval", help="Let Prometheus look more often, such as 1s.")
def main(any_ports: bool, avro: bool, scrape_interval: str | None) -> None:
    """Run the demo of compose.yaml on this machine until Ctrl-C; nothing is kept."""
    told = Interruption()
    faster = {SCRAPE: f"scrape_interval: {scrape_interval}"} if scrape_interval else {}
    with (
        told.listening(again=None),
        tempfile.TemporaryDirectory(prefix="streamfilter-native-") as directory,
    ):
        click.echo("starting Kafka, two filters, a generator, Prometheus and Alertmanager …")
        with Native(Path(directory), any_ports=any_ports, avro=avro, replacing=faster) as native:
            click.echo(f"kafka            {native.kafka.bootstrap}")
            if native.registry is not None:
                click.echo(f"registry         {native.registry.url}")
            for name, port in native.ports:
                if name in native.children:
                    click.echo(f"{name:<16} {native.url(name, port)}")
            click.echo(f"logs and data    {directory}\nCtrl-C ends all, and deletes that")
            while not told.wait(1):
                native.check()


if __name__ == "__main__":
    main()
