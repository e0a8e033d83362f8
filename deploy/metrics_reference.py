"""The table of metrics in deploy/README.md, from the catalogue.

Printed by `python -m deploy.metrics_reference`.
"""

from streamfilter.monitoring.catalogue import CATALOGUE, PREFIX, Metric, MetricKind

KINDS = {MetricKind.UNKNOWN_GAUGE: "gauge, NaN until known", MetricKind.INFO: "gauge, always 1"}


def table() -> str:
    """Return the table as Markdown, one line for each metric."""
    head = [f"| metric (`{PREFIX}…`) | kind | meaning |", "|---|---|---|"]
    rows = (
        f"| `{each.name}{_labels(each)}` | {KINDS.get(each.kind, each.kind.value)} | {each.help} |"
        for each in CATALOGUE
    )
    return "\n".join([*head, *rows]) + "\n"


def _labels(metric: Metric) -> str:
    if metric.labels:
        return "{" + ",".join(metric.labels) + "}"
    if not metric.label:
        return ""
    # A bar would end the cell, even inside code.
    values = "=" + " ".join(metric.values) if metric.values else ""
    return "{" + metric.label + values + "}"


if __name__ == "__main__":
    print(table(), end="")
