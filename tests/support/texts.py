"""The texts that stand beside what they tell of, for the tests that hold them to the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(
        [
            ROOT / "README.md",
            *(
                p
                for top in ("config", "deploy", "streamfilter", "tests")
                for p in (ROOT / top).rglob("README.md")
            ),
        ]
    )
}
"""Every README of the project, by its path."""


def home_of(title: str) -> str:
    """Return which text has the section *title*."""
    (home,) = [path for path, text in TEXTS.items() if f"\n## {title}\n" in text]
    return home


def commands(title: str) -> list[str]:
    """Return the commands that the operator's page *title* has in its text."""
    found = re.search(
        rf"^(#+) {title}\n(.*?)(?=^##?#? |\Z)", TEXTS["deploy/README.md"], re.M | re.S
    )
    assert found
    return re.findall(r"`(streamfilter [^`]* --[^`]+)`", found[2])


def section(title: str) -> str:
    """Return the section *title*, wherever it stands."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXTS[home_of(title)], re.M | re.S)
    assert found
    return found.group(1)
