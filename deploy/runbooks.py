"""Sets the runbook links of all alerts: `python -m deploy.runbooks URL`.

Each alert's ``runbook_url`` is a base and the alert's anchor in deploy/README.md. The committed
base is that file's path, because the address of your copy is not known here. Pass the URL of your
copy (a wiki, your repository's web page), and Alertmanager's messages link to it.
"""

from __future__ import annotations

import re
import sys

from deploy.kubernetes.__main__ import RULES, write

BASE = "deploy/README.md"
_LINK = re.compile(r"(?m)^(\s+runbook_url: )\S*#(\w+)$")


def linked(rules: str, base: str) -> str:
    """Return the text of *rules* with *base* as the base of every runbook link."""
    return _LINK.sub(lambda link: f"{link[1]}{base}#{link[2]}", rules)


def main(arguments: list[str]) -> int:
    """Rewrite Prometheus's rules, the manifest for its operator, and the Helm chart."""
    if len(arguments) != 1 or not re.fullmatch(r"[^#\s]+", arguments[0]):
        print("usage: python -m deploy.runbooks URL-of-the-page (without #)", file=sys.stderr)
        return 64
    RULES.write_text(linked(RULES.read_text(encoding="utf-8"), arguments[0]), encoding="utf-8")
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
