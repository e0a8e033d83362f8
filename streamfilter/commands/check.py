"""``streamfilter check``: everything that is wrong, in one run, before anything is touched.

From the cheap to the dear: the settings, their meaning together, the state directory, the
properties as librdkafka takes them, and only on request the broker. Each finding is a
`Problem` with its key and its cure; none of them stops the search for the next.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.config import Config
from streamfilter.stops import ExitCode, Problem, Temporary

EXAMPLES = """\b
Examples:
  streamfilter check --config streamfilter.yaml
  streamfilter check --config streamfilter.yaml --connect
  streamfilter check --set similarity.bands=20 --set similarity.rows=8
"""


@click.command("check", epilog=EXAMPLES)
@options.config_options
@click.option("--connect", is_flag=True, help="Ask the broker too: topics, partitions, rights.")
@click.option("--apply", "create", is_flag=True, help="Create missing output topics, then check.")
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], connect: bool, create: bool, output: str
) -> int:
    """Say everything that is wrong with a configuration, before it runs.

    Changes nothing unless --apply is given. Exits with 0 if all is well, 78 if something is
    wrong, 75 if only the broker could not be reached.
    """
    reading = options.read(files, overrides)
    problems = [*reading.problems, *check_places(reading.config)]
    problems += _properties(reading.config, problems)
    unreachable: list[Problem] = []
    if connect or create:
        try:
            problems += _broker(reading.config, create=create and not problems)
        except Temporary as stop:
            cure = "check the address and that the broker runs"
            unreachable = [Problem("kafka.common.bootstrap.servers", str(stop), cure)]
    answer = Answer(reading.config, (*problems, *unreachable), connect or create)
    click.echo(answer.as_json() if output == "json" else answer.as_text())
    if answer.wrong and unreachable == list(answer.wrong):
        return ExitCode.TEMPORARY
    return ExitCode.CONFIG if answer.wrong else ExitCode.OK


def check_places(config: Config) -> list[Problem]:
    """Return what is wrong with the paths of the configuration."""
    return [*_state_directory(config.index.path), *_seed_file(config.index.seed_file)]


def _state_directory(path: Path) -> Iterator[Problem]:
    key = "index.path"
    if path.is_symlink():
        yield Problem(key, f"{path} is a symbolic link", "name the directory itself")
    elif not path.exists():
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            yield Problem(key, f"{path} cannot be created in {above}",
                          "make that directory writable, or name another")  # fmt: skip
    elif not path.is_dir():
        yield Problem(key, f"{path} is not a directory", "name a directory")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Problem(key, f"{path} is not readable and writable", "change its owner or mode")
    elif stat.S_IMODE(path.stat().st_mode) & 0o077:
        # It holds the seed that keeps strangers from crafting collisions.
        yield Problem(key, f"{path} is open to other users", f"chmod 700 {path}")


def _seed_file(path: Path | None) -> Iterator[Problem]:
    if path is None:
        return
    if not path.is_file():
        yield Problem("index.seed_file", f"{path} is not a file",
                      f"head -c 32 /dev/urandom > {path}, and keep it for ever")  # fmt: skip
    elif not os.access(path, os.R_OK):
        yield Problem("index.seed_file", f"{path} is not readable", "change its owner or mode")


def _properties(config: Config, known: list[Problem]) -> list[Problem]:
    """Return what librdkafka refuses, unless we have already said so."""
    from streamfilter.kafka import clients

    said = {problem.key for problem in known}
    return [problem for problem in clients.validate_properties(config) if problem.key not in said]


def _broker(config: Config, *, create: bool) -> list[Problem]:
    from streamfilter.kafka import topics

    if create:
        topics.create_outputs(config)
    return list(topics.inspect(config))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command says."""

    config: Config
    problems: tuple[Problem, ...]
    connected: bool

    @property
    def wrong(self) -> tuple[Problem, ...]:
        """Return the problems that are more than warnings."""
        return tuple(problem for problem in self.problems if not problem.warning)

    def as_json(self) -> str:
        """Return it for programs; secrets are masked."""
        answer: dict[str, object] = {"ok": not self.wrong, "connected": self.connected}
        answer["problems"] = [asdict(problem) for problem in self.problems]
        if not self.wrong:
            scheme = self.config.scheme()
            shape = {"slots": scheme.slots, "bands": scheme.bands, "rows": scheme.rows}
            answer["scheme"] = {"fingerprint": scheme.fingerprint, **shape}
        return options.as_json(answer | {"settings": self.config.masked()})

    def as_text(self) -> str:
        """Return it for people: every problem, then one line that sums up."""
        return "\n".join([*map(str, self.problems), self._summary()])

    def _summary(self) -> str:
        if self.wrong:
            return f"{len(self.wrong)} problem{'s' if len(self.wrong) > 1 else ''} found"
        config, scheme = self.config, self.config.scheme()
        asked = "the broker agrees" if self.connected else "the broker was not asked: --connect"
        return (
            f"ok: {config.input.topic} → {config.output.unique}, duplicates to "
            f"{config.output.duplicates}; {scheme.bands} bands x {scheme.rows} rows, scheme "
            f"{scheme.fingerprint} ({asked})"
        )
