"""``streamfilter check``: everything that is wrong, in one run, before anything is touched.

From the cheap to the dear: the settings, their meaning together, the state directory, the
properties as librdkafka takes them, and only on request the broker. Each finding is a
`Problem` with its key and its cure; none of them stops the search for the next.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from streamfilter.assembly import reader_for, retention_for
from streamfilter.commands import options
from streamfilter.commands.check_changelog import Kept, check_changelog
from streamfilter.commands.check_places import check_places
from streamfilter.commands.check_records import check_records
from streamfilter.commands.check_schemas import check_schemas
from streamfilter.config.configuration import Config, ConfigError, Reading
from streamfilter.documents.schemas import SchemasAway
from streamfilter.process import standard
from streamfilter.process.cures import CURES
from streamfilter.process.limits import small_limits
from streamfilter.process.logs import MASKER
from streamfilter.stops import ExitCode, Problem, Refused, Temporary

BROKERS = ("bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers")

EXAMPLES = """\b
Examples:
  streamfilter check --config streamfilter.yaml
  streamfilter check --config streamfilter.yaml --connect
  streamfilter check --set similarity.bands=20 --set similarity.rows=8
"""


@click.command("check", epilog=EXAMPLES)
@options.config_options
@click.option(
    "--connect",
    is_flag=True,
    help="Ask the broker too: topics, partitions, rights, and whether the latest records can be "
    "read; and the schema registry: whether text and id are in the newest schema.",
)
@click.option("--apply", "create", is_flag=True, help="Create missing output topics, then check.")
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], connect: bool, create: bool, output: str
) -> int:
    """Say everything that is wrong with a configuration, before it runs.

    Changes nothing unless --apply is given. Exits with 0 if all is well, 78 if something is
    wrong, 75 if only the broker could not be reached.
    """
    from streamfilter.kafka import topics

    options.say_unread(files)
    reading = options.read(files, overrides)
    broken = any(problem.key.startswith("similarity") for problem in reading.problems)
    scheme = None if broken else reading.config.scheme()
    problems = [*reading.problems, *check_places(reading.config, scheme)]
    problems += _properties(reading.config, problems) + _format(reading)
    unreachable: list[Problem] = []
    made: list[str] = []
    kept: list[Kept] = []
    if _has_schemas(reading.config, problems, connect or create):
        try:
            problems += check_schemas(reading.config)
        except SchemasAway as away:
            unreachable = [Problem("input.registry.url", str(away), "")]
    # Properties that are wrong let no client connect: to wait for brokers would be in vain.
    wrong = [each.key for each in problems if not each.warning]
    if (connect or create) and not any(key.startswith("kafka.common") for key in wrong):
        try:
            if create and all(problem.warning for problem in problems):
                made = topics.create_outputs(reading.config)
            problems += topics.inspect(reading.config, made=made)
            problems += _limits(reading.config)
            if not any(each.key.startswith("input") for each in problems if not each.warning):
                problems += check_records(reading.config)
            if retention_for(reading.config).limited:
                more, kept = check_changelog(reading.config)
                problems += more
        except Temporary as stop:
            unreachable.append(Problem("kafka.common.bootstrap.servers", str(stop), ""))
        except Refused as stop:
            problems.append(Problem("kafka.common", str(stop), ""))
    found = [replace(each, cure=CURES.completed(each.cure)) for each in [*problems, *unreachable]]
    answer = Answer(reading.config, tuple(found), connect or create, tuple(made), tuple(kept))
    # librdkafka quotes the values that it refuses.
    standard.answer(MASKER.mask(answer.as_json() if output == "json" else answer.as_text()))
    if unreachable and len(unreachable) == len(answer.wrong):
        return ExitCode.TEMPORARY
    return ExitCode.CONFIG if answer.wrong else ExitCode.OK


def _limits(config: Config) -> list[Problem]:
    """Return the limits of this process that are too low; those of `run` may differ."""
    if config.index.scope == "topic":
        return []
    from streamfilter.kafka.needs import need_of

    return [replace(each, warning=True) for each in small_limits(need_of(config))]


def _properties(config: Config, known: list[Problem]) -> list[Problem]:
    """Return what librdkafka refuses, unless we have already said so."""
    from streamfilter.kafka import clients

    said = {problem.key for problem in known}
    found = clients.validate_properties(_without_brokers(config))
    return [problem for problem in found if problem.key not in said]


def _format(reading: Reading) -> list[Problem]:
    """Return what the input's format needs and does not have, if its settings are right."""
    if any(problem.key.startswith("input") for problem in reading.problems):
        return []
    try:
        reader_for(reading.config)
    except ConfigError as error:
        return list(error.problems)
    return []


def _has_schemas(config: Config, known: list[Problem], connect: bool) -> bool:
    """Return whether there are schemas that may be looked at: a file's, or the registry's."""
    if not config.input.has_schema or any(each.key.startswith("input") for each in known):
        return False
    return connect or config.input.schema_file is not None


def _without_brokers(config: Config) -> Config:
    """Return *config* without brokers, so that a client made from it connects to nothing.

    librdkafka connects in the background as soon as a client is created. Without ``--connect`` no
    connection is allowed.
    """
    common = {k: v for k, v in config.kafka.common.items() if k not in BROKERS}
    kafka = config.kafka.model_copy(update={"common": common | {"log_level": "0"}})
    return config.model_copy(update={"kafka": kafka})


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the command."""

    config: Config
    problems: tuple[Problem, ...]
    connected: bool
    made: tuple[str, ...] = ()
    """Topics that were created just now."""
    kept: tuple[Kept, ...] = ()
    """By the changelog of an index that forgets, if the broker was asked."""

    @property
    def wrong(self) -> tuple[Problem, ...]:
        """Return the problems that are more than warnings."""
        return tuple(problem for problem in self.problems if not problem.warning)

    def as_json(self) -> str:
        """Return it for programs; secrets are masked."""
        answer: dict[str, object] = {"ok": not self.wrong, "connected": self.connected}
        answer["created"] = list(self.made)
        answer["problems"] = [asdict(problem) for problem in self.problems]
        answer["changelog"] = [asdict(each) for each in self.kept]
        if not self.wrong:
            scheme = self.config.scheme()
            shape = {"slots": scheme.slots, "bands": scheme.bands, "rows": scheme.rows}
            answer["scheme"] = {"fingerprint": scheme.fingerprint, **shape}
        return options.as_json(answer | {"settings": self.config.masked()})

    def as_text(self) -> str:
        """Return it for people: what was made, every problem, then one line that sums up."""
        made = [f"created {', '.join(self.made)}"] if self.made else []
        kept = map(str, self.kept)
        return "\n".join([*made, *map(str, self.problems), *kept, self._summary()])

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
