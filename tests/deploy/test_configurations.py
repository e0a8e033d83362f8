"""The configurations that deploy/ ships are accepted by `check`, as their environment is."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.composition import image_environment
from streamfilter.commands.check import command

DEPLOY = Path(__file__).parents[2] / "deploy"
ENVIRONMENTS = {
    "demo/streamfilter.yaml": {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"},
    "kubernetes/base/streamfilter.yaml": {"POD_NAME": "streamfilter-0"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_configuration_is_accepted_in_the_image(name, tmp_path, no_settings):
    environment = ENVIRONMENTS[name] | image_environment()
    environment["STREAMFILTER_INDEX__PATH"] = str(tmp_path / "index")
    answer = CliRunner().invoke(
        command, ["--config", str(DEPLOY / name)], env=environment, standalone_mode=False
    )
    assert answer.return_value == 0, answer.output
