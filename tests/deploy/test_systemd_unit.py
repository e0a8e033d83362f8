"""The systemd unit: what systemd itself says about it, and that it fits our exit codes."""

import re
import sys
from pathlib import Path

import pytest

from streamfilter.stops import ExitCode
from tests.deploy.tools import accepted, tool

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "streamfilter.service"
TEXT = UNIT.read_text()


@pytest.fixture
def here(tmp_path):
    """Return the unit with this machine's streamfilter: systemd looks whether it is there."""
    unit = tmp_path / UNIT.name
    installed = Path(sys.executable).parent / "streamfilter"
    unit.write_text(TEXT.replace("/opt/streamfilter/bin/streamfilter", str(installed)))
    return unit


def verify(unit: Path) -> str:
    return accepted([tool("systemd-analyze", package="systemd"), "verify", "--man=no", str(unit)])


def test_systemd_has_nothing_to_say(here):
    assert verify(here) == ""


def test_little_is_exposed(here):
    analyze = tool("systemd-analyze", package="systemd")
    accepted([analyze, "security", "--offline=yes", "--threshold=20", str(here)])


def test_only_what_needs_a_person_is_not_tried_again():
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", TEXT, re.M)[1]
    assert prevented.split() == [str(int(ExitCode.USAGE)), str(int(ExitCode.CONFIG))]
    assert "Restart=always" in TEXT


def test_it_waits_longer_than_a_stop_takes_and_is_watched():
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", TEXT, re.M)[1]) > 25
    assert "Type=notify" in TEXT
    assert "WatchdogSec=" in TEXT
