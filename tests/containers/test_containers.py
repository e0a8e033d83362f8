"""compose.yaml, up for real: built, two filters, a kill, a stop, and nothing left behind.

Its neighbours as well: with a schema registry and stories in Avro, with two judges and three edges.

Long, since it builds images and starts a Kafka in a container: two to five minutes, and ten more
the first time (`images.py` says what is kept). It needs root, and Debian's packages in `engine.py`.
"""

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.composition import AVRO, CLUSTER, COMPOSE, OURS, services
from deploy.local.jars import cache_directory
from deploy.local.registry import API
from tests.containers import images
from tests.containers.engine import PROGRAMS, PROJECT, Engine
from tests.deploy.prometheus import Prometheus
from tests.deploy.tools import tool

pytestmark = pytest.mark.long

IMAGE = f"localhost/{OURS}"
(REGISTRY_PORT,) = services(avro=True)["registry"].published.values()
WAIT_SECONDS, COMPOSE_SECONDS, ANSWER_SECONDS = 1_200, 1_800, 60
"""For a machine whose only core is busy: a Kafka alone takes minutes to start there."""
OURS_BYTES_MAX = 225_000_000
"""What we add to a base: that of the Dockerfile has about 125 MB, and 350 are the limit of both."""
HARDENED = (
    "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp",
)  # fmt: skip
UP = ("kafka", "topics", "streamfilter-a", "streamfilter-b", "generator", "prometheus",
      "alertmanager")  # fmt: skip
EDGES = ("edge-1", "edge-2", "edge-3")


@pytest.fixture(scope="module")
def engine() -> Engine:
    if os.geteuid():
        pytest.skip("a Debian by debootstrap and its containers need root")
    for program in PROGRAMS:
        tool(program, package=program)
    engine = Engine(cache_directory() / "containers")
    images.make(engine)
    return engine


def inside(engine: Engine, *command: str) -> str:
    """Return what a program says in our image, as hardened as compose.yaml has it."""
    entry = ("--entrypoint", command[0], IMAGE, *command[1:])
    return engine.run("podman", "run", "--rm", "--network", "none", *HARDENED, *entry)


def test_our_image_is_as_small_as_it_says(engine):
    def size(image: str) -> int:
        return int(engine.run("podman", "image", "inspect", "-f", "{{.Size}}", image))

    ours = size(IMAGE) - size(images.BASE)
    print(f"ours {ours / 1e6:.0f} MB on a base of {size(images.BASE) / 1e6:.0f} MB")
    assert ours < OURS_BYTES_MAX


def test_it_runs_as_10001_and_writes_nowhere_but_to_its_volume(engine):
    said = inside(engine, "python", "-c", WRITES)
    assert json.loads(said) == {"user": 10001, "writable": ["/tmp", "/var/lib/streamfilter"]}


WRITES = """
import json, os, pathlib
places = ["/", "/etc", "/opt/streamfilter", "/tmp", "/usr", "/var/lib", "/var/lib/streamfilter"]
def writable(place):
    try:
        (pathlib.Path(place) / "x").write_text("x")
    except OSError:
        return False
    return True
print(json.dumps({"user": os.getuid(), "writable": [each for each in places if writable(each)]}))
"""


def test_the_kernel_is_in_it_and_no_start_compiles_it(engine):
    assert "signing: C kernel (/opt/streamfilter/" in inside(engine, "streamfilter", "--version")


class Composition:
    """compose.yaml, as podman-compose runs it; Kafka UI and Grafana are left out by name."""

    def __init__(self, engine: Engine, beside: Path | None = None, *more: str) -> None:
        self.engine = engine
        self._files = ("-f", str(COMPOSE), *(("-f", str(beside)) if beside else ()))
        self.parts = (*UP, *more)

    def compose(self, *arguments: str) -> str:
        file = ("-p", PROJECT, *self._files)
        return self.engine.run("podman-compose", *file, *arguments, timeout=COMPOSE_SECONDS)

    @contextmanager
    def up(self) -> Iterator[None]:
        """All is up, one filter works and the other stands by; then nothing is left of it."""
        self.clear()
        try:
            self.compose("up", "--detach", "--no-build", *self.parts)
            self.wait(lambda: filters(self).keys() == {"running", "standby"})
            yield
        finally:
            self.down()
            # Debian's podman-compose leaves the network; a later one takes it down as well.
            self.engine.attempt("podman", "network", "rm", f"{PROJECT}_default")

    def clear(self) -> None:
        """Remove what a run that was killed has left in the storage of the tests."""
        self.engine.run("podman", "rm", "--all", "--force", "--volumes")
        self.engine.run("podman", "volume", "rm", "--all", "--force")

    def down(self) -> None:
        self.compose("down", "--volumes")

    def container(self, service: str) -> str:
        return f"{PROJECT}_{service}_1"

    def inspect(self, service: str, what: str) -> str:
        return self.engine.run("podman", "inspect", "-f", what, self.container(service)).strip()

    def left(self) -> list[str]:
        """Return all containers and volumes of the storage, those without a name as well."""
        told = self.engine.run("podman", "ps", "-a", "--format", "{{.Names}}")
        return (told + self.engine.run("podman", "volume", "ls", "-q")).split()

    def url(self, service: str) -> str:
        (port,) = services(cluster=True)[service].published.values()
        return f"http://127.0.0.1:{port}"

    def status(self, service: str) -> dict[str, Any]:
        with urllib.request.urlopen(
            f"{self.url(service)}/status", timeout=ANSWER_SECONDS
        ) as answer:
            return dict(json.load(answer))

    def state(self, service: str) -> str:
        try:
            return str(self.status(service)["state"])
        except OSError:
            return "silent"

    def wait(self, until: Callable[[], bool]) -> float:
        """Return the seconds until something holds; fail with the end of every log."""
        start = time.monotonic()
        while not until():
            assert time.monotonic() < start + WAIT_SECONDS, self.logs()
            time.sleep(0.5)
        return time.monotonic() - start

    def logs(self) -> str:
        """Return the last lines of each container, and how it fares."""
        found = [self.engine.attempt("podman", "ps", "-a").stdout]
        for service in self.parts:
            done = self.engine.attempt("podman", "logs", "--tail", "15", self.container(service))
            found.append(f"{service}:\n{done.stdout}{done.stderr}")
        return "\n".join(found)


@pytest.fixture(scope="module")
def demo(engine: Engine) -> Iterator[Composition]:
    demo = Composition(engine)
    with demo.up():
        yield demo


def filters(demo: Composition) -> dict[str, str]:
    """Return the two filters by their states."""
    return {demo.state(name): name for name in ("streamfilter-a", "streamfilter-b")}


def verdicts_flow(demo: Composition) -> Prometheus:
    """Wait until Prometheus has seen each verdict."""
    prometheus = Prometheus(demo.url("prometheus"))
    judged = "sum by (verdict) (streamfilter_documents_total) > 0"

    def seen() -> set[str]:
        try:
            found = prometheus.api("query", query=judged)["result"]
        except OSError:
            return set()
        return {each["metric"]["verdict"] for each in found}

    demo.wait(lambda: seen() >= {"unique", "near_duplicate", "exact_duplicate", "rejected"})
    return prometheus


def scraped(prometheus: Prometheus) -> dict[str, str]:
    """Return the health of each target by its address."""
    targets = prometheus.api("targets")["activeTargets"]
    return {target["labels"]["instance"]: target["health"] for target in targets}


def test_verdicts_flow_and_prometheus_scrapes_both(demo):
    prometheus = verdicts_flow(demo)
    both = dict.fromkeys(("streamfilter-a:9464", "streamfilter-b:9464"), "up")
    assert scraped(prometheus) == both
    (alertmanager,) = prometheus.api("alertmanagers")["activeAlertmanagers"]
    assert alertmanager["url"].startswith("http://alertmanager:9093/")
    assert demo.inspect("topics", "{{.State.ExitCode}}") == "0"


@pytest.mark.parametrize("service", ["kafka", "streamfilter-a", "streamfilter-b", "prometheus"])
def test_who_has_a_health_check_passes_it(demo, service):
    demo.wait(lambda: healthy(demo, service))


def healthy(demo: Composition, service: str) -> bool:
    command = ("podman", "healthcheck", "run", demo.container(service))
    return demo.engine.attempt(*command).returncode == 0


def test_a_stopped_filter_is_unhealthy_until_it_goes_on(demo):
    for signal, well in (("STOP", False), ("CONT", True)):
        demo.engine.run("podman", "kill", "--signal", signal, demo.container("streamfilter-b"))
        demo.wait(lambda well=well: healthy(demo, "streamfilter-b") is well)


def take_over(demo: Composition) -> str:
    """Kill the filter that works; return the name of the other, which works then."""
    working = filters(demo)["running"]
    (other,) = {"streamfilter-a", "streamfilter-b"} - {working}
    demo.engine.run("podman", "kill", "--signal", "KILL", demo.container(working))
    seconds = demo.wait(lambda: demo.state(other) == "running")
    print(f"taken over after {seconds:.0f} s")
    return other


def stop(demo: Composition, service: str) -> None:
    demo.engine.run("podman", "stop", "--time", "30", demo.container(service))
    assert demo.inspect(service, "{{.State.ExitCode}}") == "0"


def test_a_killed_filter_is_followed_by_the_other_and_a_stopped_one_exits_0(demo):
    """The last of this demo: it ends it."""
    stop(demo, take_over(demo))
    demo.down()
    assert demo.left() == []


def test_edges_forward_before_and_after_a_judge_is_killed(engine):
    demo = Composition(engine, CLUSTER, *EDGES)
    with demo.up():
        prometheus = verdicts_flow(demo)
        demo.wait(lambda: {demo.state(edge) for edge in EDGES} == {"running"})
        all_up = {f"{each}:9464": "up" for each in ("streamfilter-a", "streamfilter-b", *EDGES)}
        demo.wait(lambda: scraped(prometheus) == all_up)
        take_over(demo)
        forwarded = "sum(streamfilter_documents_total)"
        (before,) = prometheus.values(forwarded)
        demo.wait(lambda: prometheus.values(forwarded) > [before])
        for edge in EDGES:
            demo.wait(lambda edge=edge: healthy(demo, edge))
            stop(demo, edge)
    assert demo.left() == []


def test_with_avro_stories_are_read_by_the_schema_of_a_registry(engine):
    demo = Composition(engine, AVRO, "registry")
    with demo.up():
        verdicts_flow(demo)
        demo.wait(lambda: healthy(demo, "registry"))
        registry = f"http://127.0.0.1:{REGISTRY_PORT}{API}"
        with urllib.request.urlopen(f"{registry}/subjects", timeout=ANSWER_SECONDS) as answer:
            assert json.load(answer) == ["stories-value"]
    assert demo.left() == []
