"""Options of the commands that read an index: its state directory, and a document in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import reader_for
from streamfilter.commands.options import (
    Named,
    Number,
    added,
    bytes_of,
    config_options,
    file_option,
    load,
    once,
    output_option,
    text_of,
)
from streamfilter.config.configuration import Config
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault, as_stop
from streamfilter.inquiry.indexes import AskedDocument
from streamfilter.model import Document, Malformed, Record, Source
from streamfilter.similarity.scheme import pointers_of
from streamfilter.stops import ExitCode, Stop

found_state_option = click.option(
    "--state",
    metavar="DIR",
    type=Named(path_type=Path),
    help="State directory of filter or of a Deduplicator, or the service's index.path (default: "
    "that of --config).",
)


index_options = added(
    click.argument("text", required=False),
    found_state_option,
    file_option("--record", "Take the value of a record, as in the input topic, instead of TEXT; "
                            "--config says how to read it. - is standard input."),
    click.option("--id", "id_", metavar="ID", multiple=True, callback=once,
                 help="Take this document of the index instead of TEXT."),
    click.option("--scope", metavar="VALUE",
                 help="Scope of TEXT, if the index has index.scope_field; it is JSON or a plain "
                      "string. null: the records without a scope."),
    click.option("--field", "fields", metavar="POINTER=VALUE", multiple=True,
                 help="Value of a field that verify.agree_on or also_same names, such as "
                      "/url=https://...; it is JSON or a plain string. May be repeated."),
    click.option("--threshold", type=Number(0, 1, min_open=True), metavar="J",
                 help="Similarity that makes a duplicate, instead of the index's own."),
    config_options,
    output_option,
)  # fmt: skip
"""Options of `query` and `explain`; see `asked_of` and `state_of`."""


def asked_of(given: dict[str, Any]) -> AskedDocument:
    """Return the document that is asked about.

    Raises `click.UsageError`: not one of a text, a record and an id was given.
    """
    text, id_, record = given["text"], given["id_"], given["record"]
    if sum(each is not None for each in (text, id_, record)) != 1:
        raise click.UsageError(
            "give a TEXT (or @file; @@ stands for an @ at its beginning), --record FILE, or "
            "--id ID of a document in the index"
        )
    if record is not None:
        return _recorded(record, given)
    return AskedDocument(
        None if text is None else text_of(text), id_, given["scope"], given["fields"]
    )


def _recorded(path: str, given: dict[str, Any]) -> AskedDocument:
    """Return the document in the record's value at *path*, as the service reads it; it needs no id.

    Raises `Stop`: the service would not judge it. `click.UsageError`: its scope is given twice.
    """
    if given["scope"] is not None or given["fields"]:
        raise click.UsageError("--scope and --field belong to a TEXT; a record has its own")
    config = load(given["files"], given["overrides"])
    try:
        value = bytes_of(path)
    except OSError as error:
        raise click.BadParameter(f"cannot read {path}: {error}") from error
    nameless = config.input.model_copy(update={"id": None})
    reading = reader_for(config.model_copy(update={"input": nameless})).read(
        Record(Source(config.input.name, 0, 0), None, value)
    )
    if not isinstance(reading, Document):
        why = reading.message if isinstance(reading, Malformed) else reading.reason.value
        raise Stop(f"such a record is not judged: {why}", exit_code=ExitCode.USAGE)
    text = value.decode() if config.input.records else reading.text
    values = dict(zip(pointers_of(config.digests), reading.values, strict=True))
    return AskedDocument(text, None, record=values)


def state_of(given: dict[str, Any]) -> tuple[Path, bytes | None]:
    """Return the state directory, and the seed that the configuration has for its indexes.

    Raises `click.UsageError`: neither option names it: the default's may be anybody's.
    """
    config, state = load(given["files"], given["overrides"]), given["state"]
    if state is None and not given["files"] and config.index.path == Config().index.path:
        raise click.UsageError("give --state DIR, or --config with the service's index.path")
    return state or config.index.path, seed_at(config.index.seed_file)


def target_of(target: str | None, given: dict[str, Any], option: str) -> str:
    """Return the target of backups: what *option* gives, or what the configuration has.

    Raises `click.UsageError`: neither names one.
    """
    wanted = target or load(given["files"], given["overrides"]).index.backup.target
    if not wanted:
        raise click.UsageError(f"give {option} TARGET, or --config with index.backup.target")
    return wanted


@contextmanager
def failing(made: Path | None = None) -> Iterator[None]:
    """Turn the index's faults into ends of the process; *made* is of use only if it is whole."""
    try:
        yield
    except IndexFault as fault:
        cure = f"make room, remove {made}, and run it again" if made else "make room, run it again"
        raise as_stop(fault, stays="the existing files are unchanged", cure=cure) from fault
