"""Options of several commands, the configuration they stand for, the answer, and progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

import click

from streamfilter.config.configuration import Config
from streamfilter.config.loading import Reading, load_config, read_config
from streamfilter.config.settings.types import parse_duration
from streamfilter.process import logs, standard
from streamfilter.process.cures import CURES
from streamfilter.similarity.kernel.choice import choose

Option = Callable[[Any], Any]  # a decorator that adds to a command

STARTER = "streamfilter.yaml"  # path that `init` writes by default


def added(*options: Option) -> Option:
    """Return the decorator that adds *options* to a command, in their order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _keys(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the settings that a shell may go on with; what is behind ``=`` is the user's."""
    from streamfilter.config.reference import keys

    return [f"{key}=" for key in keys() if key.startswith(incomplete)]


def completed_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    """Let a shell go on with the names of files: for what is a str to us, ``-`` among it."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class Named(click.Path):
    """A path, but not the one without a name, which would be where the command was typed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return *value* as a path; an empty one is a variable that a script did not set."""
        if not value:
            self.fail("the path is empty; is the variable set that it came from?", param, ctx)
        if "://" in str(value):
            self.fail(f"{value} is no path of this host; an index lives on a disk", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number in a range. ``nan`` is none, although no comparison with a bound refuses it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail("nan is no number", param, ctx)
        return number


class PictureFile(click.Path):
    """The name of a picture's file; refused before any work if it cannot be drawn."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from streamfilter.monitoring.curve_picture import FORMATS, require_matplotlib

        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower()[1:] not in FORMATS:
            named = f"a picture's name ends in .{', .'.join(FORMATS)}"
            self.fail(f"{path}: {named}; name it {path.with_suffix('.svg')}", param, ctx)
        require_matplotlib()
        return path


def moment(_: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """Return the time that *value* names: a duration before now, such as 2h, or a date with zone.

    Raises `click.BadParameter`: it is no such time.
    """
    if value is None:
        return None
    try:
        now = datetime.now(UTC)
        when = datetime.fromisoformat(value) if "-" in value else now - parse_duration(value)
        if when.tzinfo is not None and when.timestamp() >= 0:
            return when
    except (ValueError, OverflowError):
        pass  # the answer to all that is no time is the same
    shown = f"{value!r:.80} is no time; write 2h, 7d, or 2026-11-26T04:00:00Z"
    raise click.BadParameter(shown, param=option)


since_option = click.option(
    "--since", callback=moment, metavar="TIME",
    help="Only records from this time on: 2h or 7d ago, or such as 2026-11-26T04:00:00Z.",
)  # fmt: skip


def plot_option(help: str) -> Option:
    """Return the option ``--plot FILE.svg`` (parameter ``plot``)."""
    kind = PictureFile(dir_okay=False, path_type=Path)
    return click.option("--plot", type=kind, metavar="FILE.svg", help=help)


def file_option(name: str, help: str, *, metavar: str = "PATH", required: bool = False) -> Option:
    """Return the option *name* for a file, which a shell completes; ``-`` may be one."""
    return click.option(
        name, metavar=metavar, required=required, shell_complete=completed_files, help=help
    )


def inputs_argument(metavar: str, *, required: bool = False) -> Option:
    """Return the argument for any number of files (parameter ``inputs``).

    A directory stands for its files, and a quoted pattern for those that it matches.
    """
    return click.argument(
        "inputs", nargs=-1, required=required, metavar=metavar, shell_complete=completed_files,
        callback=_named,
    )  # fmt: skip


def _named(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    from streamfilter.files.inputs import named  # most verbs read no files

    return tuple(named(paths))


dead_letter_option = file_option(
    "--dead-letter",
    "File for lines that cannot be read. Without it the first such line stops the command "
    "(exit 65). With it, only a file of nothing else does.",
)


def once(_: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the only one of an option's *values*, None if there is none.

    Raises `click.BadParameter`: it was given again; the last one would win without a word.
    """
    if len(values) > 1:
        raise click.BadParameter(f"it was given {len(values)} times; give one", param=option)
    return values[0] if values else None


config_options = added(
    click.option("--config", "-c", "files", multiple=True, type=click.Path(path_type=Path),
                 envvar="STREAMFILTER_CONFIG",
                 help="YAML file; may be given again, later files win."),
    click.option("--set", "-s", "overrides", multiple=True, metavar="KEY=VALUE",
                 shell_complete=_keys, help="One setting, such as similarity.threshold=0.9; wins "
                                            "over files and environment."),
)  # fmt: skip
"""``--config`` and ``--set`` (parameters ``files`` and ``overrides``)."""

output_option = click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text",
    help="Format of the answer on standard output.",
)  # fmt: skip


def load(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Config:
    """Return the configuration, which is in force from now on.

    Raises `ConfigError` with every problem found.
    """
    CURES.remember(files)
    config = load_config(files, overrides=overrides)
    put_in_force(config)
    return config


def read(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Reading:
    """Return the configuration as far as it can be read, with its problems."""
    CURES.remember(files)
    reading = read_config(files, overrides=overrides)
    put_in_force(reading.config)
    return reading


def say_unread(files: tuple[Path, ...]) -> None:
    """Answer a configuration in this directory that no option names, to explain the defaults."""
    if not files and os.path.isfile(STARTER):
        standard.say(
            f"{STARTER} in this directory is not read, because no --config is given; to use it: "
            f"--config {STARTER}"
        )


def put_in_force(config: Config) -> None:
    """Log, and sign texts, by the settings; from here on no secret is written."""
    logs.configure(config.log.level, config.log.format, secrets=config.secrets())
    choose(config.batch.kernel)


class JsonAnswer(Protocol):
    """The answer of a command, as JSON values."""

    def as_json(self) -> object:
        """Return it for programs."""


class Answer(JsonAnswer, Protocol):
    """The answer of a command in both of its forms."""

    def as_text(self) -> str:
        """Return it for people."""


def as_json(report: JsonAnswer) -> str:
    return json.dumps(report.as_json(), indent=2, ensure_ascii=False)


def answer(report: Answer, output: str, *, masked: bool = False) -> None:
    """Print *report* as `output_option` says; *masked*: without secrets that a library quotes."""
    text = as_json(report) if output == "json" else report.as_text()
    standard.answer(logs.MASKER.mask(text) if masked else text)


def text_of(argument: str) -> str:
    """Return the argument itself, or the text of the file that ``@path`` names; ``@-`` is stdin.

    ``@@`` stands for an @ that the text itself begins with. The name of a file alone is a text,
    too, and hardly meant as one: a line says so.
    """
    if not argument.startswith("@"):
        if _names_a_file(argument):
            standard.say(f"{argument} is compared as a text; @{argument} reads the file")
        return argument
    if argument.startswith("@@"):
        return argument[1:]
    try:
        return bytes_of(argument[1:]).decode()
    except (OSError, UnicodeDecodeError) as error:
        name = "standard input" if argument == "@-" else argument[1:]
        raise click.BadParameter(f"cannot read {name} as UTF-8 text: {error}") from error


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def bytes_of(path: str) -> bytes:
    """Return the content of the file at *path*; ``-`` is standard input. Raises `OSError`."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


Advanced = Callable[[int], None]  # called with the amount done since its last call


class _Terminal:
    """A terminal that may be closed while something is shown: the work does not end for that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.isatty = stream.isatty

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def progress(label: str, length: int) -> Iterator[Advanced]:
    """Show a bar of *length* on standard error, if that is a terminal."""
    if not length or not sys.stderr.isatty():
        yield lambda _: None
        return
    shown = cast(TextIO, _Terminal(sys.stderr))
    with click.progressbar(length=length, label=label, file=shown) as bar:
        yield bar.update


@contextmanager
def over_files(label: str, paths: Sequence[str]) -> Iterator[Advanced]:
    """Show how much of the files is read, unless the length of one is not known yet."""
    files = paths if all(map(os.path.isfile, paths)) else ()
    with progress(label, sum(map(os.path.getsize, files))) as advanced:
        yield advanced
