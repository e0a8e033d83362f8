import subprocess
import sys

import pytest

from deploy.local import node

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="names without files are Linux's")


@LINUX
def test_a_port_is_given_to_no_other_process_though_no_one_listens_on_it_yet():
    (ours,) = node.free_ports(1)
    around = range(ours - 40, ours + 40)
    ask = f"from deploy.local import node;node.PORTS = {around!r};print(*node.free_ports(55))"
    assert node.is_free(ours)
    asked = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=120, check=True
    )  # fmt: skip
    assert len(asked.stdout.split()) == 55
    assert str(ours) not in asked.stdout.split()


@LINUX
def test_the_ports_that_are_kept_are_bounded():
    for _ in range(4):
        node.free_ports(100)
    assert len(node._reserved) == node.RESERVED_MAX
