"""The demo on a terminal: no line wraps, nothing scrolls while it draws, colours if wanted."""

import re

import pytest

from deploy.local.node import free_ports
from tests.support.machine.terminal import in_terminal

pytestmark = pytest.mark.slow  # each starts a broker and a filter
BOARD = re.compile(r"\x1b\[(\d+)F\x1b\[J")
ROWS = 24
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(("columns", "colours"), [(80, True), (40, False)])
def test_no_line_wraps_and_the_board_is_drawn_over_itself(columns, colours):
    environment = {"COLUMNS": "", "LINES": "", "NO_COLOR": "" if colours else "1"}
    seen = in_terminal(
        ["demo", "--stories", "120", "--rate", "120", "--http", f"127.0.0.1:{free_ports(1)[0]}"],
        columns=columns,
        rows=ROWS,
        environment=environment,
    )
    assert seen.code == 0, seen.plain
    assert [line for line in seen.plain.splitlines() if len(line) > columns] == []
    drawn = BOARD.split(seen.raw)
    assert len(drawn) > 5
    for back, before in zip(drawn[1::2], drawn[2:-2:2], strict=False):
        assert int(back) < ROWS
        assert before.count("\n") < ROWS
    assert [int(back) for back in drawn[3::2]] == [part.count("\n") for part in drawn[2:-2:2]]
    assert ("\x1b[3" in drawn[-1]) is colours  # some verdict is there, whatever else was drawn
    assert "+ under way 0" in " ".join(_ESCAPE.sub("", drawn[-1]).split())
    assert "every record is in exactly one" in seen.plain
    assert re.search(r"recall +1\.0000", seen.plain)
