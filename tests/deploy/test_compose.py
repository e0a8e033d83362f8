"""The compose demo: valid by the specification, closed to the outside, wired to what exists."""

import json
import re
import shlex
import subprocess

import pytest
import yaml

from deploy.composition import AVRO, CLUSTER, COMPOSE, OURS, services
from deploy.local.registry import API
from streamfilter.commands.demo import encoding, record_value
from streamfilter.config.loading import load_config
from streamfilter.documents.codecs.registry import Registry
from streamfilter.documents.codecs.schemas import Schema
from streamfilter.documents.reader import Reader
from streamfilter.model import Document, Record, Source
from streamfilter.stories.stream import stories
from tests.documents.registry_stub import Handler, url
from tests.documents.test_avro import Shelf
from tests.support.cases import cases

__all__ = ["url"]

DEPLOY = COMPOSE.parent
RAW = yaml.safe_load(COMPOSE.read_text())
BESIDE = [yaml.safe_load(path.read_text())["services"] for path in (AVRO, CLUSTER)]
RUNNING = RAW["services"] | {
    name: each for more in BESIDE for name, each in more.items() if "image" in each
}
EDGES = {name for name in RUNNING if name.startswith("edge-")}
MINE = {name: each for name, each in RUNNING.items() if each["image"] == OURS}

each_service = pytest.mark.parametrize("name", RUNNING)


def check(composition: dict) -> None:
    """Raise ValueError unless *composition* is what the Compose specification allows."""
    import compose_spec  # slow to import, of each worker

    compose_spec.PyCompose.from_json(json.dumps(composition)).validate()


def test_it_is_valid_by_the_compose_specification():
    check(RAW)
    check({**RAW, "services": RUNNING})
    for path in (AVRO, CLUSTER):
        check(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("avro", [False, True])
def test_whatever_is_waited_for_says_when_it_is_ready(avro):
    """A generator met a registry that was still starting, and the demo had no traffic."""
    both = services(avro=avro)
    conditions = {"service_healthy": "checked", "service_completed_successfully": "once"}
    for each in both.values():
        for name, condition in each.waits_for.items():
            assert getattr(both[name], conditions[condition]), f"{each.name} waits for {name}"
    for name in MINE.keys() - EDGES:
        assert ("registry" in both[name].waits_for) is avro
        assert both[name].waits_for.keys() & {"kafka", "topics"}, "what is beside takes none away"


def test_the_registry_is_healthy_when_it_answers_and_not_before(url):
    path = f"/{API.strip('/')}/subjects"
    _, command = RUNNING["registry"]["healthcheck"]["test"]
    (port,) = services(avro=True)["registry"].published
    assert f"localhost/{port}" in command

    def healthy(at: int) -> bool:
        here = ["sh", "-c", command.replace(f"localhost/{port}", f"127.0.0.1/{at}")]
        return subprocess.run(here, capture_output=True, check=False).returncode == 0

    answers = int(url.rpartition(":")[2])
    assert not healthy(1)
    assert not healthy(answers)
    Handler.answers[path] = (200, [])
    assert healthy(answers)


@each_service
def test_a_health_check_reads_the_same_to_every_compose(name):
    """Debian's podman-compose joins the words of a CMD unquoted, and overlooks `disable`.

    The registry was never healthy there, and the generator had the check of a filter.
    """
    check = RUNNING[name].get("healthcheck", {})
    assert "disable" not in check
    match check.get("test"):
        case None | ["NONE"] | ["CMD-SHELL", _]:
            pass
        case ["CMD", *words]:
            assert [shlex.quote(word) for word in words] == words, "CMD-SHELL is for a shell"
        case other:
            pytest.fail(f"{other} is no health check")


@cases("more", BESIDE)
def test_what_is_laid_over_a_service_reads_the_same_to_every_compose(more):
    """Debian's podman-compose appends a list to the one below: `run … run … --role judge`."""
    for name in more.keys() & RAW["services"].keys():
        both = more[name].keys() & RAW["services"][name].keys()
        assert not [key for key in both if isinstance(more[name][key], list)]


@each_service
def test_ports_are_published_on_loopback_only(name):
    assert all(port.startswith("127.0.0.1:") for port in RUNNING[name].get("ports", ()))


def test_no_two_services_publish_one_port():
    published = [
        out
        for service in services(avro=True, cluster=True).values()
        for out in service.published.values()
    ]
    assert len(published) == len(set(published))


@each_service
def test_an_image_has_a_version(name):
    assert re.fullmatch(r"[\w./-]+:[\w.-]+", RUNNING[name]["image"])
    assert not RUNNING[name]["image"].endswith(":latest")


@each_service
def test_what_is_mounted_or_waited_for_exists(name):
    for volume in RUNNING[name].get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / source).exists()
            assert volume.endswith(":ro")
        else:
            assert source in RAW["volumes"]
    assert set(RUNNING[name].get("depends_on", ())) <= RUNNING.keys()


@cases("name", MINE)
def test_our_containers_may_do_nothing_more_than_they_need(name):
    mine = MINE[name]
    assert mine["read_only"] is True
    assert mine["cap_drop"] == ["ALL"]
    assert mine["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in mine


@cases("name", MINE)
def test_no_container_of_ours_gets_a_volume_without_a_name(name):
    """Debian's podman-compose leaves those behind, even by `down --volumes`."""
    (volume,) = re.findall(r"^VOLUME (\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    named = [inside for _, inside in services(cluster=True)[name].volumes]
    assert volume in [*named, *MINE[name]["tmpfs"]]


def test_one_service_builds_our_image_before_anybody_starts_and_the_others_use_it():
    """Four built one tag at once, and a first parallel build collided."""
    building = [name for name, mine in MINE.items() if "build" in mine]
    assert building == ["topics"]
    base = re.search(r"^ARG PYTHON=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M)[1]
    by_digest = MINE["topics"]["build"]["args"]["PYTHON"]
    assert re.fullmatch(re.escape(base) + r"@sha256:[0-9a-f]{64}", by_digest)
    for name in MINE.keys() - building:
        assert MINE[name]["pull_policy"] == "never"
        waits = MINE[name]["depends_on"]["topics"]["condition"]
        assert waits == "service_completed_successfully"


def test_two_filters_share_a_configuration_and_no_directory():
    a, b = (dict(services()[name].volumes) for name in ("streamfilter-a", "streamfilter-b"))
    assert services()["streamfilter-a"].command == services()["streamfilter-b"].command
    assert a.keys() & b.keys() == {"./demo/streamfilter.yaml"}


def test_a_cluster_has_two_judges_on_their_disks_and_three_edges_without_one():
    found = services(cluster=True)
    roles = {name: found[name].command[-1] for name in MINE if "--role" in found[name].command}
    assert sorted(roles.values()) == ["edge"] * 3 + ["judge"] * 2
    for name, role in roles.items():
        told = found[name].environment
        config = load_config([DEPLOY / "demo/streamfilter.yaml"], told)
        assert config.cluster.enabled
        assert told["KAFKA_BOOTSTRAP_SERVERS"] == "kafka:9092"
        kept = [source for source, _ in found[name].volumes if not source.startswith(".")]
        assert len(kept) == (role == "judge")
    (file,) = (each for each in found["prometheus"].command if each.startswith("--config.file"))
    config = yaml.safe_load((DEPLOY / "prometheus" / file.rpartition("/")[2]).read_text())
    (job,) = config["scrape_configs"]
    assert {t.partition(":")[0] for t in job["static_configs"][0]["targets"]} == set(roles)
    plain = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert {**config, "scrape_configs": 0} == {**plain, "scrape_configs": 0}


def test_a_scraped_address_is_a_service_with_that_port():
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    targets = config["scrape_configs"][0]["static_configs"][0]["targets"]
    inside = {f"{name}:{port}" for name, each in services().items() for port in each.published}
    assert set(targets) <= inside
    assert len(targets) == 2


def test_alerts_are_sent_to_the_alertmanager_of_this_file():
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (named,) = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, _, port = named.partition(":")
    assert int(port) in services()[name].published


def test_what_only_looks_is_not_needed_to_come_up():
    """An image that cannot be had stops everybody: these two are asked for by name."""
    looking = {name for name, each in RUNNING.items() if each.get("profiles") == ["look"]}
    assert looking == {"kafka-ui", "grafana"}
    for name in RUNNING.keys() - looking:
        assert looking.isdisjoint(RUNNING[name].get("depends_on", ()))


def test_grafana_asks_the_prometheus_of_this_file():
    path = DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml"
    (source,) = yaml.safe_load(path.read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert 9090 in services()["prometheus"].published


def test_grafana_finds_the_dashboards_where_they_are_mounted():
    path = DEPLOY / "grafana" / "provisioning" / "dashboards" / "streamfilter.yaml"
    (provider,) = yaml.safe_load(path.read_text())["providers"]
    mounts = {inside: source for source, inside in services()["grafana"].volumes}
    assert mounts[provider["options"]["path"]] == "./grafana/dashboards"
    home = RUNNING["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    folder, _, file = home.rpartition("/")
    assert (DEPLOY / mounts[folder] / file).is_file()


def test_kafka_is_found_by_its_advertised_address():
    advertised = RUNNING["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    (outside,) = services()["kafka"].published.values()
    assert f"OUTSIDE://localhost:{outside}" in advertised
    for name in MINE:
        assert f"INSIDE://{MINE[name]['environment']['KAFKA_BOOTSTRAP_SERVERS']}" in advertised


@pytest.mark.usefixtures("alone")
def test_with_avro_all_of_ours_ask_the_registry_and_read_what_is_fed(monkeypatch):
    known = {}

    def add(_, subject, kind, text):
        known[7] = Schema(kind, text)
        return 7

    monkeypatch.setattr(Registry, "register", add)
    both = services(avro=True)
    (port,) = both["registry"].published
    for name in MINE.keys() - EDGES:
        told = both[name].environment
        assert told["KAFKA_BOOTSTRAP_SERVERS"] == "kafka:9092", "what is beside takes nothing away"
        config = load_config([DEPLOY / "demo/streamfilter.yaml"], told)
        assert config.input.registry.url == f"http://registry:{port}{API}"
        value = record_value(next(stories(1)), 1, encoding(config, config.input.topic))
        reading = Reader("avro", schemas=Shelf(known)).read(Record(Source("in", 0, 1), None, value))
        assert isinstance(reading, Document)
