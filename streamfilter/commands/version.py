"""What ``streamfilter --version`` prints: the version, and what signs texts here."""

import streamfilter
from streamfilter.similarity.kernel.choice import choice


def version() -> str:
    """Return both as two lines; the first one is for scripts."""
    return f"streamfilter, version {streamfilter.__version__}\nsigning: {choice()}"
