"""Untrusted text on a terminal: control and direction characters are written as escapes.

A key or an id of a record may contain any character. Unescaped, control characters such as ESC
could repaint the reader's terminal, and a direction mark could disguise a name.
"""

import re

# The controls but line feed and tab, the bidirectional ones, the two separators, half characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LINE = str.maketrans({"\n": "\\n", "\t": "\\t"})


def visible(text: str) -> str:
    r"""Return *text* without what steers a terminal: ESC becomes ``\u001b``, as JSON has it."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def inline(text: str) -> str:
    r"""Return *text* as a part of one line: visible, and a line feed in it is ``\n``."""
    return visible(text).translate(_LINE)
