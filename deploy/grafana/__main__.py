"""Writes the dashboards: `python -m deploy.grafana`."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana import internals, overview
from deploy.grafana.panels import build

DIRECTORY = Path(__file__).parent / "dashboards"


def dashboards() -> dict[str, str]:
    """Return the file text of each dashboard, by its name."""
    built = {
        name: build(each.UID, each.TITLE, each.DESCRIPTION, each.ROWS, overview.MARKS)
        for name, each in (("overview", overview), ("internals", internals))
    }
    return {f"{name}.json": json.dumps(body, indent=1) + "\n" for name, body in built.items()}


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in dashboards().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
        print(DIRECTORY / name)
