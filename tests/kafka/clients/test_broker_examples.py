"""The examples in config/brokers: each is read beside a user's file.

`tests/faults/test_security.py` connects to a real broker with two of them.
"""

from typing import Any

import pytest
import yaml

from streamfilter.config.loading import load_config
from tests.support.texts import ROOT

EXAMPLES = ROOT / "config" / "brokers"


def example(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["kafka"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_configuration_beside_the_starter(path):
    config = load_config([ROOT / "config" / "streamfilter.yaml", path])
    assert config.kafka.properties("common").items() >= example(path.stem)["common"].items()
