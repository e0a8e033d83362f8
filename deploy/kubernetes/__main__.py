"""Writes the PrometheusRule from the rules of deploy/prometheus: `python -m deploy.kubernetes`."""

from __future__ import annotations

from pathlib import Path

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


if __name__ == "__main__":
    MANIFEST.write_text(manifest(), encoding="utf-8")
    print(MANIFEST)
