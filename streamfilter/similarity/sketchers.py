"""Makes a sketcher from the scheme that an index stores; needs no configuration."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from streamfilter.similarity.scheme import ALGORITHM, Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher, Spread


def scheme_of(canonical: str) -> Scheme:
    """Return the scheme whose `Scheme.as_json` is *canonical*.

    Raises:
        ValueError: this version does not know it, or makes other tokens under the same name
            (a list of stop words has changed, say).
    """
    try:
        scheme = _scheme_in(json.loads(canonical))
        same = scheme.algorithm == ALGORITHM and scheme.as_json() == canonical
    except (TypeError, AttributeError, OverflowError):  # of another shape
        raise ValueError("this version of streamfilter does not know the index's scheme") from None
    if not same:
        raise ValueError("this version of streamfilter makes other tokens than the index holds")
    return scheme


def _scheme_in(values: dict[str, Any]) -> Scheme:
    shingling = {key: _plain(value) for key, value in values.pop("shingling", {}).items()}
    normalisation = Normalisation(**values.pop("normalisation", {}))
    known = {field.name for field in fields(Shingling)}
    return Scheme(
        **{key: _plain(value) for key, value in values.items()},
        shingling=Shingling(**{key: shingling[key] for key in shingling.keys() & known}),
        normalisation=normalisation,
    )


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def sketcher_of(canonical: str, *, seed: bytes, spread: Spread | None = None) -> Sketcher:
    """Return the sketcher for the scheme *canonical* and the secret *seed*, with worker processes.

    Raises:
        ValueError: as `scheme_of`.
    """
    return Sketcher(scheme_of(canonical), seed=seed, spread=spread)
