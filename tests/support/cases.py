"""One test over many small cases: each id of `parametrize` costs every worker its setup."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Signature
from typing import Any


def over(cases: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Call a test, which takes a case and no fixture, for each of *cases*; a failure names one."""

    def decorated(test: Callable[[Any], None]) -> Callable[[], None]:
        @wraps(test)  # by the code of the test itself, `needs` finds what it needs
        def whole() -> None:
            for case in cases:
                try:
                    test(case)
                except Exception as error:
                    error.add_note(f"the case was {case}")
                    raise

        whole.__signature__ = Signature()  # type: ignore[attr-defined]
        return whole

    return decorated
