"""The classes that a broker's JVM need not read again; without them it starts all the same."""

import subprocess

import pytest

from deploy.local.jars import find_java, kafka_jars
from tests.support.session import classes


def said(*arguments):
    done = subprocess.run([find_java(), *arguments], capture_output=True, text=True)
    return done.stdout + done.stderr


def said_by_kafka():
    """Without settings it says how it is used, and ends."""
    return said("-cp", f"{kafka_jars()}/*", "kafka.Kafka")


@pytest.mark.long
def test_recorded_classes_are_taken_by_brokers_and_what_does_not_fit_is_passed_over(
    kafka, monkeypatch, tmp_path
):
    if not classes.fit(classes.archive()):
        pytest.skip("who records them is at it still")
    monkeypatch.setenv(classes.VARIABLE, classes.options() + " -Xlog:class+load")
    # Of formatting at least: a broker that needs long to end on a busy machine leaves no more.
    assert "source: shared objects file (top)" in said_by_kafka()
    monkeypatch.setenv(classes.VARIABLE, classes.options())
    assert "[warning]" not in said("-version")
    monkeypatch.setattr(classes, "archive", lambda: tmp_path / "classes")
    assert not classes.fit(classes.archive()), "there is none"
    for left in (b"", b"of another Java" * 1_000):
        classes.archive().write_bytes(left)
        assert not classes.fit(classes.archive())
    monkeypatch.setenv(classes.VARIABLE, classes.options())
    assert said_by_kafka().startswith(("NOTE: Picked up", "USAGE"))
