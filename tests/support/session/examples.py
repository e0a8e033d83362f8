"""The examples of hypothesis: they follow from the test's own name, and from nothing else.

By default hypothesis also draws literals from the source of all modules that this process has
imported. So the examples depended on the tests before, and each worker parsed 400 modules.
"""

from hypothesis import settings
from hypothesis.internal.conjecture import providers


def repeat() -> None:
    """Load the profile of the tests, unless hypothesis has one for CI, and read no sources.

    The time of an example shows how busy the machine is, and no test may fail by chance.
    """
    settings.register_profile("patient", deadline=None, derandomize=True)
    if settings.get_current_profile_name() != "ci":
        settings.load_profile("patient")
    # hypothesis has no setting for it. tests/ci/test_examples.py notices if the name changes.
    providers._get_local_constants = lambda: providers._local_constants
