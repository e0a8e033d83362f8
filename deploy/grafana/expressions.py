"""The PromQL of the dashboards, as a few words: every expression is made here.

So that all of them ask the same way: by ``$job`` and ``$instance``, rates over
``$__rate_interval``, totals over ``$__range``; summed over processes unless a label is kept.
"""

from __future__ import annotations

PREFIX = "streamfilter_"
HERE = 'job=~"$job",instance=~"$instance"'
OF_OTHERS = ("process_", "ALERTS")
RATE, RANGE = "$__rate_interval", "$__range"


def series(name: str, *matchers: str) -> str:
    """Return the selector of *name*; what is not ours has no prefix of ours."""
    full = name if name.startswith(OF_OTHERS) else PREFIX + name
    return f"{full}{{{','.join((HERE, *matchers))}}}"


def known(name: str) -> str:
    """Return a gauge without the NaN of who has not measured it, which would swallow a sum."""
    return f"{series(name)} >= 0"


def summed(expression: str, *by: str) -> str:
    """Return the sum over all processes, one for each value of the labels *by*."""
    return f"sum{_by(by)}({expression})"


def largest(expression: str, *by: str) -> str:
    """Return the largest of all processes, one for each value of the labels *by*."""
    return f"max{_by(by)}({expression})"


def smallest(expression: str, *by: str) -> str:
    """Return the smallest of all processes, one for each value of the labels *by*."""
    return f"min{_by(by)}({expression})"


def rate(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a counter's growth a second."""
    return summed(f"rate({series(name, *matching)}[{RATE}])", *by)


def growth(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a counter's growth over what the dashboard shows."""
    return summed(f"increase({series(name, *matching)}[{RANGE}])", *by)


def steps(name: str, *by: str, matching: tuple[str, ...] = ()) -> str:
    """Return a rare counter's growth at each point of what is shown."""
    return summed(f"increase({series(name, *matching)}[{RATE}])", *by)


def share(part: str, whole: str) -> str:
    """Return *part* / *whole*; no data (not NaN) while there is no *whole*."""
    return f"{part} / ({whole} > 0)"


def quantile(which: float, name: str, *by: str) -> str:
    """Return a histogram's quantile over the last moments."""
    buckets = rate(f"{name}_bucket", *by, "le")
    return f"histogram_quantile({which:g}, {buckets})"


def mean(name: str, *by: str) -> str:
    """Return a histogram's mean over the last moments."""
    return share(rate(f"{name}_sum", *by), rate(f"{name}_count", *by))


def buckets(name: str, *matching: str) -> str:
    """Return what fell into each bucket, for a heat map."""
    return summed(f"increase({series(f'{name}_bucket', *matching)}[{RATE}])", "le")


def since(name: str, *by: str) -> str:
    """Return the seconds since the Unix time in a gauge."""
    return f"time() - {largest(series(name), *by)}"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""
