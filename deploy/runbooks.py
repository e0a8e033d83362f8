"""Where alerts link to: `python -m deploy.runbooks URL` puts it into the rules.

Each alert's ``runbook_url`` is a base and the alert's anchor in deploy/README.md. The base is
committed as the file's path, since nobody knows where you show it: name your copy (a wiki, your
repository's web page) once, and Alertmanager's messages lead there.
"""

from __future__ import annotations

import re
import sys

from deploy.kubernetes.__main__ import MANIFEST, RULES, manifest

BASE = "deploy/README.md"
_LINK = re.compile(r"(?m)^(\s+runbook_url: )\S*#(\w+)$")


def linked(rules: str, base: str) -> str:
    """Return the text of *rules* with all runbooks below *base*."""
    return _LINK.sub(lambda link: f"{link[1]}{base}#{link[2]}", rules)


def main(arguments: list[str]) -> int:
    """Rewrite the rules of Prometheus, and the operator's manifest from them."""
    if len(arguments) != 1 or not re.fullmatch(r"[^#\s]+", arguments[0]):
        print("usage: python -m deploy.runbooks URL-of-the-page (without #)", file=sys.stderr)
        return 64
    RULES.write_text(linked(RULES.read_text(encoding="utf-8"), arguments[0]), encoding="utf-8")
    MANIFEST.write_text(manifest(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
