"""The long description of a release: the README, without links that lead nowhere on its page.

A package index shows the README alone. A relative link keeps only its text there, which names the
file in the repository. A relative picture is left out. All other metadata is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.M)
LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?:)[^)]*\)")

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
setup(
    long_description=LINK.sub(r"\1", PICTURE.sub("", readme)),
    long_description_content_type="text/markdown",
)
