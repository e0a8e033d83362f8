"""What signs: tests that use `signer` run with the kernel, and again with numpy."""

import os
from collections.abc import Iterator

import pytest

from streamfilter.similarity.kernel.choice import AUTO, OFF, choice, chosen


@pytest.fixture(params=["kernel", "numpy"])
def signer(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the kernel or numpy sign; CI always has a compiler."""
    with chosen(OFF if request.param == "numpy" else AUTO):
        if request.param == "kernel" and choice().kernel is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(choice().why)
        yield request.param
