"""`feed`: stories go where stories belong."""

import pytest

from streamfilter import cli


@pytest.mark.parametrize("where", ["input.text=/body", "input.id=/uuid", "input.id=null"])
def test_a_configuration_that_stories_are_not_for_is_refused_before_anything_is_sent(where, capsys):
    nobody = "kafka.common.bootstrap.servers=127.0.0.1:9"
    assert cli.main(["feed", "--set", where, "--set", nobody, "--seconds", "1"]) == 78
    assert "stories have /text and /id" in capsys.readouterr().err
