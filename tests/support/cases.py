"""One test over many small cases: each id of `parametrize` costs every worker its collection."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

Test = Callable[..., None]


def cases(names: str | tuple[str, ...], given: Iterable[Any]) -> Callable[[Test], Test]:
    """Do as `parametrize` in one test, for all that leaves no trace in its fixtures.

    A failure names its case.
    """
    keys = (names,) if isinstance(names, str) else names
    every = [(case,) if isinstance(names, str) else tuple(case) for case in given]
    assert every

    def decorated(test: Test) -> Test:
        @wraps(test)  # by the code of the test itself, `needs` finds what it needs
        def whole(**fixtures: Any) -> None:
            for case in every:
                try:
                    test(**fixtures, **dict(zip(keys, case, strict=True)))
                except Exception as error:
                    error.add_note(f"the case was {case}")
                    raise

        shape = signature(test)
        left = [each for name, each in shape.parameters.items() if name not in keys]
        whole.__signature__ = shape.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return decorated


def over(given: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test, which takes a case and no fixture, for each of *given*."""
    every = [*given]  # `parametrize` calls the test again
    return lambda test: cases(next(iter(signature(test).parameters)), every)(test)
