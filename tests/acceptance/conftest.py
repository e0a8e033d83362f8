import pytest

from tests.acceptance.shipped import Shipped, shipped


@pytest.fixture(scope="session")
def of_everybody() -> Shipped:
    return shipped()
