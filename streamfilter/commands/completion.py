"""How shells are told to go on: with no space behind a setting's ``=``, for its value follows.

`cli` imports this file where a shell asks, and no sooner; what may come next, `options` says.
"""

from __future__ import annotations

from click.shell_completion import BashComplete, ZshComplete, add_completion_class


class _Bash(BashComplete):
    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace",
    )


class _Zsh(ZshComplete):
    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        "if [[ $completions[1] == *= ]]; then compadd -U -V unsorted -S '' -a completions\n"
        "        else compadd -U -V unsorted -a completions; fi",
    )


def offer() -> None:
    """Let shells be answered so. fish leaves the space out by itself."""
    add_completion_class(_Bash, "bash")
    add_completion_class(_Zsh, "zsh")
