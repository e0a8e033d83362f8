"""Builds every PromQL expression of the dashboards, so that all use the same conventions.

They select by ``$job`` and ``$instance``. Rates are over ``$__rate_interval``, and totals over
``$__range``. Values are summed over processes unless a label is kept.
"""

from __future__ import annotations

PREFIX = "streamfilter_"
HERE = 'job=~"$job",instance=~"$instance"'
OF_OTHERS = ("process_", "ALERTS")
RATE, RANGE = "$__rate_interval", "$__range"


def series(name: str, *matchers: str) -> str:
    """Return the selector of *name*, with our prefix unless the metric is not ours."""
    full = name if name.startswith(OF_OTHERS) else PREFIX + name
    return f"{full}{{{','.join((HERE, *matchers))}}}"


def known(name: str) -> str:
    """Return a gauge without NaN, which a process exports before it has measured a value.

    One NaN would make the whole sum NaN.
    """
    return f"{series(name)} >= 0"


def summed(expression: str, *by: str) -> str:
    """Return the sum over all processes, for each value of the labels *by*."""
    return f"sum{_by(by)}({expression})"


def largest(expression: str, *by: str) -> str:
    """Return the maximum over all processes, for each value of the labels *by*."""
    return f"max{_by(by)}({expression})"


def smallest(expression: str, *by: str) -> str:
    """Return the minimum over all processes, for each value of the labels *by*."""
    return f"min{_by(by)}({expression})"


def rate(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a counter's rate per second."""
    return summed(f"rate({series(name, *matching)}[{RATE}])", *by)


def growth(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a counter's increase over the dashboard's time range."""
    return summed(f"increase({series(name, *matching)}[{RANGE}])", *by)


def steps(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a rare counter's increase at each point of the chart."""
    return summed(f"increase({series(name, *matching)}[{RATE}])", *by)


def share(part: str, whole: str) -> str:
    """Return *part* / *whole*; no data (not NaN) while there is no *whole*."""
    return f"{part} / ({whole} > 0)"


def quantile(which: float, name: str, *by: str) -> str:
    """Return a histogram's quantile over ``$__rate_interval``."""
    buckets = rate(f"{name}_bucket", *by, "le")
    return f"histogram_quantile({which:g}, {buckets})"


def mean(name: str, *by: str) -> str:
    """Return a histogram's mean over ``$__rate_interval``."""
    return share(rate(f"{name}_sum", *by), rate(f"{name}_count", *by))


def buckets(name: str, *matching: str) -> str:
    """Return the increase of each histogram bucket, for a heat map."""
    return summed(f"increase({series(f'{name}_bucket', *matching)}[{RATE}])", "le")


def since(name: str, *by: str) -> str:
    """Return the seconds since the Unix time in a gauge."""
    return f"time() - {largest(series(name), *by)}"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""
