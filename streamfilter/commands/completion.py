"""Shell completion without a space after a setting's ``=``, because its value follows.

`cli` imports this module only when a shell asks for completions. `options` has the candidates.
"""

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
    """Register the completions. fish omits the space by itself."""
    add_completion_class(_Bash, "bash")
    add_completion_class(_Zsh, "zsh")
