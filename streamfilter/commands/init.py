"""``streamfilter init``: a first configuration, from what is known of the topic.

On a terminal it asks for what was not given. With brokers it looks at the topic's latest records
and proposes where text and id are; what a person gave is never overruled.
"""

import os
import sys
from pathlib import Path

import click
from msgspec.structs import replace

from streamfilter.commands import options
from streamfilter.config.configuration import Config
from streamfilter.config.loading import literal, load_config
from streamfilter.config.reference import reference as reference_text
from streamfilter.config.schema import schema_text
from streamfilter.config.starter import EXAMPLES, StarterFile
from streamfilter.documents.proposal import Proposal, propose
from streamfilter.documents.reader import Reader
from streamfilter.model import Document, Record
from streamfilter.preflight.example import fitting
from streamfilter.preflight.proposals import described
from streamfilter.process import standard
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import ConfigError, ExitCode, MissingExtra

RECORDS = 200  # looked at, the latest of all partitions

EPILOG = """\b
Examples:
  streamfilter init                                      asks, on a terminal
  streamfilter init --topic news --text /body --id /uuid
  streamfilter init --broker kafka:9092 --topic news     looks at the topic's records
  streamfilter init --topic tickets --example tickets    short texts, typed in a hurry
  streamfilter init --reference                          every setting and its default
\b
The connection uses settings of the environment, such as STREAMFILTER_KAFKA__COMMON__SASL_PASSWORD.
They are not written to the file.
"""


@click.command("init", epilog=EPILOG)
@click.argument("path", default=options.STARTER, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--broker", metavar="HOST:PORT", help="Read the topic's latest records from these brokers."
)
@click.option("--topic", help="Topic to read.")
@click.option("--text", metavar="POINTER", help="JSON Pointer to the text.")
@click.option("--id", "identity", metavar="POINTER", help="JSON Pointer to the id.")
@click.option(
    "--reference",
    is_flag=True,
    help="Print every setting with its default and meaning, and write nothing.",
)
@click.option(
    "--example",
    type=click.Choice([*EXAMPLES, "none"]),
    help="Take the settings of this example. By default, the one that fits the topic's records.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(
    path: Path,
    broker: str | None,
    topic: str | None,
    text: str | None,
    identity: str | None,
    reference: bool,
    example: str | None,
    force: bool,
) -> int:
    """Write a first configuration to PATH (streamfilter.yaml), and its JSON Schema beside it.

    Without a terminal it asks nothing, and uses the default for each option that is not given.
    """
    if reference:
        standard.answer(reference_text().rstrip("\n"))
        return ExitCode.OK
    schema = path.with_suffix(".schema.json")
    for file in (path, schema):
        if os.path.exists(file) and not force:
            another = f"streamfilter init … {topic or 'other'}.yaml"
            raise click.UsageError(f"{file} exists; write {another}, or overwrite it with --force")
    asks = sys.stdin is not None and sys.stdin.isatty()
    if asks and broker is None:
        broker = click.prompt("Brokers to look at (empty: none)", default="", err=True) or None
    config = _configured(broker, topic)
    if topic is None:
        topic = _topic(config, looking=broker is not None, asks=asks)
        config = _configured(broker, topic)
    seen = _look(config, topic) if broker is not None else []
    found = propose([record.value for record in seen]) if seen else None
    if broker is not None:
        standard.say(described(topic, found or Proposal(0, "json")))
    starter = _starter(config, found, text=text, identity=identity, asks=asks)
    starter = replace(starter, example=_example(starter, seen, example))
    # Two configurations of one directory, such as of two topics, need two indexes.
    state = None if path.name == options.STARTER else f"{path.stem}-state"
    here = replace(starter, schema=schema.name, name=str(path), state=state)
    _write(path, here.text_of_file())
    _write(schema, schema_text())
    standard.say(
        f"wrote {path}, and {schema} for editors\n"
        f"next: {_installation(path)}streamfilter check --config {path} --connect --apply\n"
        f"      streamfilter run --config {path}"
    )
    return ExitCode.OK


def _configured(broker: str | None, topic: str | None) -> Config:
    given = {"kafka.common.bootstrap.servers": broker, "input.topic": topic}
    config = load_config(overrides=[f"{key}={value}" for key, value in given.items() if value])
    options.put_in_force(config)
    return config


def _topic(config: Config, *, looking: bool, asks: bool) -> str:
    """Return the topic if no option named it: ask for it, or use the default without brokers."""
    names = []
    if looking:
        from streamfilter.kafka import topic_sample

        names = topic_sample.names(config)
    if asks:
        if names:
            standard.say(f"topics there: {', '.join(names)}")
        return str(click.prompt("Topic to read", default=config.input.topic, err=True))
    if looking:
        raise click.UsageError(f"--broker needs --topic; there are {', '.join(names) or 'none'}")
    return config.input.topic


def _look(config: Config, topic: str) -> list[Record]:
    """Return the topic's latest records."""
    from streamfilter.kafka import topic_sample
    from streamfilter.kafka.topic_reader import no_topic

    names = topic_sample.names(config)
    if topic not in names:
        raise ConfigError([no_topic("--topic", topic, names)])
    return topic_sample.latest(config, RECORDS)


def _example(starter: StarterFile, seen: list[Record], chosen: str | None) -> str | None:
    """Return the example that was chosen, or the one that fits the records, and say why."""
    if chosen is not None:
        return None if chosen == "none" else chosen
    reader = Reader("text" if starter.format == "text" else "json", text=starter.text, id=None)
    read = map(reader.read, seen)
    fit = fitting([each.text for each in read if isinstance(each, Document)])
    if fit is None:
        return None
    standard.say(f"{fit}; its settings are in the file (without them: --example none)")
    return fit.name


def _starter(
    config: Config, found: Proposal | None, *, text: str | None, identity: str | None, asks: bool
) -> StarterFile:
    """Return what to write: what was given, then what was asked, then what was seen."""
    topic = config.input.topic
    here = StarterFile(
        topic=topic,
        group=f"streamfilter-{topic}",
        brokers=str(config.kafka.common["bootstrap.servers"]),
    )
    if found is not None and found.sure:
        here = replace(here, format=found.format, text=found.text or here.text, id=found.id)
    if text is not None or identity is not None:
        here = replace(here, format="json", text=text or here.text, id=identity or here.id)
    if asks and here.format == "json":
        here = replace(
            here,
            text=text or _prompted("JSON Pointer to the text", here.text),
            id=identity or _prompted("JSON Pointer to the id (empty: none)", here.id or "") or None,
        )
    # What `run` would refuse is refused before it is written.
    identity = "null" if here.id is None else literal(here.id)
    given = [f"input.text={literal(here.text)}", f"input.id={identity}"]
    load_config(overrides=[f"input.topic={here.topic}", *given])
    return here


def _installation(path: Path) -> str:
    """Return the command that installs what the settings of *path* need, if that is missing."""
    try:
        load_config([path])
    except MissingExtra as missing:
        return f"{missing.installation}\n      "
    return ""


def _prompted(question: str, default: str) -> str:
    """Return the answer; a *default* from a record is shown without what steers a terminal."""
    shown = f"{question} [{inline(default)}]" if default else question
    return str(click.prompt(shown, default=default, show_default=False, err=True))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from error
