"""`demo --feed`: stories go where stories belong."""

import pytest

from streamfilter import cli


@pytest.mark.parametrize("where", ["input.text=/body", "input.id=/uuid", "input.id=null"])
def test_a_configuration_that_stories_are_not_for_is_refused_before_anything_is_sent(where, capsys):
    no_broker = "kafka.common.bootstrap.servers=127.0.0.1:9"
    assert cli.main(["demo", "--feed", "--set", where, "--set", no_broker, "--seconds", "1"]) == 78
    assert "stories have /text and /id" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--config", "x.yaml"], ["--create", "4"], ["--set", "a=b"]])
def test_a_demo_touches_no_topic_of_a_service_without_feed(given, capsys):
    assert cli.main(["demo", *given]) == 64
    assert "belong to --feed" in capsys.readouterr().err
