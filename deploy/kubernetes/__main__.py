"""Writes what is generated here: `python -m deploy.kubernetes`.

The PrometheusRule has the rules of deploy/prometheus, and the Helm chart kustomize's manifests.
"""

from __future__ import annotations

from pathlib import Path

from deploy.kubernetes import chart

RULES = Path(__file__).parents[1] / "prometheus" / "streamfilter.rules.yml"
MANIFEST = Path(__file__).parent / "operator" / "prometheusrule.yaml"
HEAD = """\
# Written by `python -m deploy.kubernetes` from deploy/prometheus/streamfilter.rules.yml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: streamfilter
spec:
"""


def manifest() -> str:
    """Return the manifest's text: the unchanged rules, indented by two more columns."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)


def write() -> None:
    """Write the PrometheusRule, and then the chart, which has it."""
    MANIFEST.write_text(manifest(), encoding="utf-8")
    for name, text in chart.files().items():
        path = chart.CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
    print(MANIFEST)
    print(chart.CHART)
