"""One test over many small cases: each id of `parametrize` costs every worker its setup."""

from collections.abc import Callable, Iterable
from typing import Any


def over(cases: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Call a test, which takes a case and no fixture, for each of *cases*; a failure names one."""

    def decorated(test: Callable[[Any], None]) -> Callable[[], None]:
        def whole() -> None:
            for case in cases:
                try:
                    test(case)
                except AssertionError as error:
                    error.add_note(f"the case was {case}")
                    raise

        whole.__name__, whole.__doc__ = test.__name__, test.__doc__
        return whole

    return decorated
