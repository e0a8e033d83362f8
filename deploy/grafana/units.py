"""Formats numbers as Grafana does, for the units that the dashboards use."""

from __future__ import annotations

import math

_DECIMAL = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
_BINARY = ((2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"))
_TIMES = ((86_400.0, " d"), (3_600.0, " h"), (60.0, " min"), (1.0, " s"), (1e-3, " ms"))


def written(value: float, unit: str, decimals: int | None = None) -> str:
    """Return *value* as readable text; ``–`` if it is not known."""
    if math.isnan(value):
        return "–"
    if decimals is not None:
        return f"{value:.{decimals}%}" if unit == "percentunit" else f"{value:,.{decimals}f}"
    if unit == "percentunit":
        return (
            f"{value:.2%}"
            if 0.99 < value < 1
            else f"{value:.0%}"
            if value > 0.1
            else f"{value:.1%}"
        )
    if unit == "s":
        return "0 s" if value == 0 else _scaled(value, _TIMES, " µs", below=1e-6)
    if unit in ("bytes", "Bps"):
        return _scaled(value, _BINARY, " B") + ("/s" if unit == "Bps" else "")
    return _scaled(value, _DECIMAL, "") + ("/s" if unit == "cps" else "")


def _scaled(value: float, steps: tuple[tuple[float, str], ...], rest: str, below: float = 1) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{value / size:.3g}{name}"
    return f"{value / below:.3g}{rest}"
