"""``streamfilter forget``: tombstones for ids into the input topic, so that their documents go.

The service forgets when it comes to them, in the order of judgement, and tells the changelog: so
every standby and restore forgets the same. Nothing here touches an index; what it would forget is
looked up in the index of this host, if there is one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.commands.states import failing
from streamfilter.config.configuration import Config
from streamfilter.documents.fields.selecting import HEADER, ID_BYTES_MAX
from streamfilter.documents.fields.values import written_value
from streamfilter.documents.record_keys import SCOPE_HEADER, key_with, path_in_key
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexRefused
from streamfilter.process import standard
from streamfilter.similarity.digests import Digester
from streamfilter.stops import ConfigError, ExitCode, Problem, Temporary, counted

SHOWN = 20
EXAMPLES = """\b
Examples:
  streamfilter forget --config streamfilter.yaml story-17 story-18         what would go
  streamfilter forget --config streamfilter.yaml story-17 story-18 --yes
  streamfilter forget --config streamfilter.yaml --file ids.txt --yes      an id a line
  streamfilter forget --config streamfilter.yaml --scope north story-17    of one tenant
\b
The service needs input.tombstones: forget. It forgets the documents that came before a tombstone,
and forwards the tombstone to the unique topic. With index.scope: partition each partition gets one.
"""


@click.command("forget", epilog=EXAMPLES)
@options.config_options
@click.argument("ids", nargs=-1)
@click.option("--file", "file", type=click.File(encoding="utf-8"), metavar="IDS",
              help="File with one id on each line; - is standard input.")  # fmt: skip
@click.option("--scope", metavar="VALUE",
              help="With index.scope_field: forget only in this scope; it is JSON or a plain "
                   "string (null: records without a scope). Default: all scopes.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Write the tombstones.")
def command(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    ids: tuple[str, ...],
    file: Iterable[str] | None,
    scope: str | None,
    yes: bool,
) -> int:
    """Make the service forget the documents of IDS: it writes a tombstone for each id.

    A tombstone is a record without a value.

    Without --yes nothing is written. It shows what the index of this host would forget.
    """
    options.say_unread(files)
    config = options.load(files, overrides)
    if not config.input.forgets:
        cure = "set it to forget, in the configuration of the service, too"
        raise ConfigError([Problem("input.tombstones", f"it is {config.input.tombstones}", cure)])
    if scope is not None and config.index.scope_field is None:
        raise click.UsageError("--scope belongs to a service with index.scope_field")
    asked = _asked([*ids, *_lines(file)])
    inside = {} if scope is None else {SCOPE_HEADER: _written(scope)}
    if not yes:
        _say_what_would_go(config, asked, scope)
        standard.say(f"nothing was written; --yes writes {counted(len(asked), 'tombstone')}")
        return ExitCode.OK
    from streamfilter.kafka.connection.clients import plain_producer
    from streamfilter.kafka.topic_sample import written_by_commands
    from streamfilter.kafka.traffic import FEEDING, Feed, TrafficError

    topic = written_by_commands(config)
    # Java's choice of a partition: where a compacted topic has the record that it is to remove.
    by_key = config.kafka.properties("common").get("partitioner", "murmur2_random")
    producer = plain_producer(config, {**FEEDING, "partitioner": by_key})
    try:
        feed = Feed(producer, topic, partition=None)
        partitions = feed.partitions()
        targets = range(partitions) if config.index.scope == "partition" else [None]
        where = config.input.id or ""
        path = path_in_key(where)
        for id_ in asked:
            name = id_.encode() if path is None else key_with(path, id_)
            headers = {where.removeprefix(HEADER): name} if where.startswith(HEADER) else {}
            headers |= inside
            for partition in targets:
                feed.send(None, key=name, partition=partition, headers=headers)
        feed.flush()
    except TrafficError as error:
        raise Temporary(str(error)) from error
    standard.say(f"wrote {counted(len(asked) * len(targets), 'tombstone')} to {topic}")
    return ExitCode.OK


def _lines(file: Iterable[str] | None) -> Iterator[str]:
    try:
        yield from (line.rstrip("\r\n") for line in file or ())
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"--file is not UTF-8: {error}") from error


def _asked(ids: Iterable[str]) -> list[str]:
    """Return the ids, each once, in their order.

    Raises `click.UsageError`: there are none, or one that no document can have.
    """
    asked = list(dict.fromkeys(id_ for id_ in ids if id_))
    if not asked:
        raise click.UsageError("give IDS, or --file with an id a line")
    for id_ in asked:
        try:
            size = len(id_.encode())
        except UnicodeEncodeError:
            raise click.UsageError(
                f"{id_[:40]!r} is not valid Unicode, so no document has it as its id"
            ) from None
        if size > ID_BYTES_MAX:
            raise click.UsageError(
                f"{id_[:40]}… has {size} bytes; no document's id has more than {ID_BYTES_MAX}"
            )
    return asked


def _written(scope: str) -> bytes:
    """Return *scope* as a header holds it, or raise `click.UsageError`: no record can have it."""
    try:
        return scope.encode()
    except UnicodeEncodeError:
        raise click.UsageError("--scope is not valid Unicode, so no record has it") from None


def _say_what_would_go(config: Config, asked: list[str], scope: str | None) -> None:
    """Say how many documents of each id the index of this host remembers."""
    seed = seed_at(config.index.seed_file)
    known: Counter[str] = Counter()
    with failing():
        try:
            places = indexes_in(config.index.path)
        except IndexRefused:
            standard.say(
                f"there is no index in {config.index.path}, so the documents cannot be counted"
            )
            return
        for path in places:
            with viewed(path, seed=seed) as view:
                if not view.ids:
                    standard.say(
                        f"{path} does not find documents by id; `streamfilter run` prints the cure"
                    )
                    return
                hashed = Digester((), (), seed=view.identity.seed)
                inside = b"" if scope is None else hashed.scope(written_value(scope))
                known.update({id_: len(view.ordinals_of(id_, inside)) for id_ in asked})
    for id_ in asked[:SHOWN]:
        held = counted(known[id_], "document") if known[id_] else "not remembered"
        standard.say(f"{id_}: {held}")
    if len(asked) > SHOWN:
        standard.say(f"… and {counted(len(asked) - SHOWN, 'more id')}")
    standard.say(
        f"{counted(known.total(), 'document')} of {counted(len(+known), 'id')} would be forgotten"
    )
