"""The demo from the outside, as a spectator has it."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from confluent_kafka.admin import AdminClient

from deploy.local.node import free_ports
from streamfilter import cli
from streamfilter.config.configuration import Config
from streamfilter.demo import running
from streamfilter.demo.ledger import INPUT
from streamfilter.demo.running import GROUP
from streamfilter.kafka import group_reset
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.stops import Stop
from tests.support.topics import create_topics

pytestmark = pytest.mark.slow  # each test starts the program, most of them more than once

TIMEOUT_SECONDS = 240


@pytest.fixture
def demo(tmp_path):
    """Start the demo with its temporary files under the test's directory; killed at the end."""
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "streamfilter", "demo", *arguments]
        if "--http" not in arguments:  # the usual port may be another test's
            command += ["--http", f"127.0.0.1:{free_ports(1)[0]}"]
        environment = {**os.environ, "TMPDIR": str(tmp_path), "STREAMFILTER_INPUT__TOPIC": "mine"}
        started.append(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                cwd=tmp_path,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    told, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, told
    return told


def wait_for_metrics(url: str, pattern: str) -> str:
    """Return the value of the first sample that matches and is not 0."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = re.search(pattern + r" ([1-9][\d.e+]*)$", answer.read().decode(), re.M)
        except OSError:
            found = None
        if found:
            return found[1]
        assert time.monotonic() < deadline, f"no {pattern} at {url}"
        time.sleep(0.1)


def assert_sound(told: str) -> None:
    counts = re.search(
        r"^in ([\d,]+) = unique ([\d,]+) \+ near duplicates ([\d,]+) \+ exact duplicates ([\d,]+)"
        r" \+ dead letters ([\d,]+) \+ under way 0$",
        told,
        re.MULTILINE,
    )
    assert counts, told
    total, *parts = (int(number.replace(",", "")) for number in counts.groups())
    assert total == sum(parts)
    assert all(parts), "each of the four kinds of verdict is to be seen"
    assert "every record is in exactly one place" in told
    recall, precision = (
        float(re.search(rf"^  {name} +([\d.]+) ", told, re.MULTILINE)[1])
        for name in ("recall", "precision")
    )
    assert recall >= 0.99
    assert precision == 1


def test_it_finds_disguises_with_metrics_up_meanwhile_and_leaves_nothing(demo, tmp_path):
    port = free_ports(1)[0]
    process = demo("--seconds", "5", "--rate", "150", "--http", f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}/metrics"
    wait_for_metrics(url, r'streamfilter_documents_total\{verdict="near_duplicate"\}')
    told = ended(process)
    assert url in told
    assert url.removesuffix("metrics") + " " in told, "the page for people"
    assert_sound(told)
    assert re.search(
        r"is a near-duplicate of story-\d+: similarity 0\.\d+, exact 0\.\d+; \d+", told
    )
    assert "proof of nothing" in told
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_it_early_with_the_summary(demo, tmp_path):
    port = free_ports(1)[0]
    process = demo("--seconds", "600", "--http", f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}/metrics"
    wait_for_metrics(url, r'streamfilter_documents_total\{verdict="unique"\}')
    process.send_signal(signal.SIGINT)
    assert "every record is in exactly one place" in ended(process)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "kills"),
    [(("--seconds", "8"), {"the filter": "in the middle"}),
     (("--seconds", "15", "--edges", "2"),
      {"edge 1": "of an edge and of the judge", "the judge": ""})],
)  # fmt: skip
def test_on_a_real_broker_kills_lose_and_double_nothing(kafka, demo, tmp_path, options, kills):
    """Afterwards one of its topics exists there: it is refused and left alone."""
    said = ended(demo("--broker", kafka.bootstrap, "--rate", "80", *options))
    notes = [f"kill -9: {name} is gone" for name in kills] + ["started again", "it works again"]
    places = [said.rindex(note) for note in notes]
    assert places == sorted(places)
    assert_sound(said)
    assert f"a kill -9 {next(iter(kills.values()))}: nothing lost, nothing doubled" in said
    assert list(tmp_path.iterdir()) == []
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    left = admin.list_topics(timeout=30).topics
    assert not [name for name in left if name.startswith(("stories", GROUP))]
    create_topics(kafka.bootstrap, {INPUT: 1})
    refused = demo("--broker", kafka.bootstrap)
    said, _ = refused.communicate(timeout=TIMEOUT_SECONDS)
    assert INPUT in admin.list_topics(timeout=30).topics
    admin.delete_topics([INPUT])[INPUT].result(30)
    assert refused.returncode == 78
    assert "the demo creates this topic, and it exists already" in said


def test_a_seed_gives_the_same_stories_and_verdicts_in_json_and_in_avro(demo):
    def table(format: str) -> list[str]:
        arguments = ("--seconds", "600", "--rate", "1000", "--seed", "5", "--stories", "400")
        told = ended(demo(*arguments, "--format", format))
        return told[told.index("what was sent") : told.index("in 400")].splitlines()

    assert table("json") == table("avro")


@pytest.mark.parametrize("address", ["9464", "localhost:", ":9464", "localhost:99999"])
def test_a_wrong_address_is_refused(capsys, address):
    assert cli.main(["demo", "--http", address]) == 64
    assert "is not HOST:PORT, such as 127.0.0.1:9464" in capsys.readouterr().err


def test_the_reason_why_a_run_ended_is_not_hidden_by_what_could_not_be_deleted(monkeypatch):
    """A killed process is a member of the group for some seconds, and brokers refuse to delete."""

    def refused(*_):
        raise Stop("it has members")

    for room, name in ((topics, "described"), (topic_creation, "create_all")):
        monkeypatch.setattr(room, name, lambda *_: ())
    monkeypatch.setattr(running, "admin_client", lambda _: None)
    monkeypatch.setattr(group_reset, "delete_topics", refused)
    config = Config.model_validate({"input": {"topic": INPUT}})
    with pytest.raises(Stop, match="ended with 76"), running._own_topics(config, 1):
        raise Stop("ended with 76")
    with pytest.raises(Stop, match="it has members"), running._own_topics(config, 1):
        pass
