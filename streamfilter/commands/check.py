"""``streamfilter check``: everything that is wrong with a configuration, before it runs.

The checks themselves are in ``preflight/``.
"""

import os
import re
from pathlib import Path

import click

from streamfilter.assembly import sketcher_for
from streamfilter.commands import options
from streamfilter.commands.states import failing, found_state_option, state_of
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.inspection import Inspected, Wholeness, inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import FormatError, IndexDamaged, IndexMismatch
from streamfilter.preflight.report import RightsAsked, preflight
from streamfilter.similarity.scheme import scheme_of
from streamfilter.stops import ExitCode

NOT_WHOLE = 1
EXAMPLES = """\b
Examples:
  streamfilter check --config streamfilter.yaml
  streamfilter check --config streamfilter.yaml --connect
  streamfilter check --config streamfilter.yaml --connect --apply --role edge --principal User:edge
  streamfilter check --set similarity.bands=20 --set similarity.rows=8
  streamfilter check --index --state state/
\b
--index reads everything, which takes a minute or two for each million documents. The index may be
in use. Exit 0: whole. Exit 1: not whole. For the service, delete index.path: the next start
restores it from the changelog. filter --state and Deduplicator have no changelog: restore a backup.
"""


@click.command("check", epilog=EXAMPLES)
@options.config_options
@click.option(
    "--connect",
    is_flag=True,
    help="Ask the broker too: topics, partitions, rights, and whether the latest records can be "
    "read; and the schema registry: whether text and id are in the newest schema.",
)
@click.option(
    "--apply",
    "create",
    is_flag=True,
    help="Create missing topics and, where the brokers allow it, missing ACLs; then check as "
    "--connect does.",
)
@click.option(
    "--role",
    type=click.Choice(["edge", "judge"]),
    help="With cluster.enabled: check the rights of this role.  [default: of both]",
)
@click.option(
    "--principal",
    metavar="User:NAME",
    help="Whose rights are checked.  [default: the user of kafka.common]",
)
@click.option(
    "--index",
    is_flag=True,
    help="Check instead whether an index is whole: every block, each entry against the others.",
)
@found_state_option
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], connect: bool, create: bool,
    role: str | None, principal: str | None, index: bool, state: Path | None, output: str,
) -> int:  # fmt: skip
    """List everything that is wrong with a configuration, before it runs.

    Changes nothing unless --apply is given. Exit codes: 0 if all is well, 78 if something is wrong,
    75 if only the brokers or the registry did not answer; with --index 1 if it is not whole.
    """
    if index:
        if connect or create or role or principal:
            raise click.UsageError("--index reads no configuration of brokers: give it alone")
        found_index = _wholeness(files, overrides, state)
        options.answer(found_index, output)
        return ExitCode.OK if found_index.whole else NOT_WHOLE
    if state is not None:
        raise click.UsageError("--state belongs to --index")
    options.say_unread(files)
    if principal is not None and not re.fullmatch(r"[^\s:]+:[^\0\r\n]+", principal):
        raise click.BadParameter(f"{principal!r} is no TYPE:NAME; write User:news")
    reading = options.read(files, overrides)
    if role is not None and not reading.config.cluster.enabled:
        raise click.UsageError("--role needs cluster.enabled: true")
    roles = (role,) if role or not reading.config.cluster.enabled else ("edge", "judge")
    asked = RightsAsked(roles, principal)
    if {str(file) for file in files} & {each.key for each in reading.problems}:
        connect = create = False  # the brokers of a file that cannot be read are not known
    found = preflight(reading, connect=connect, create=create, asked=asked)
    options.answer(found, output, masked=True)  # librdkafka quotes the values that it refuses
    if found.only_unreachable:
        return ExitCode.TEMPORARY
    return ExitCode.CONFIG if found.wrong else ExitCode.OK


def _wholeness(
    files: tuple[Path, ...], overrides: tuple[str, ...], given: Path | None
) -> Wholeness:
    state, seed = state_of({"files": files, "overrides": overrides, "state": given})
    with failing():
        # A database that lost its marker is an index, too.
        alone = os.path.isdir(state / DATABASE_NAME)
        paths = [state] if alone else indexes_in(state)
        return Wholeness([_inspected(path, seed) for path in paths])


def _inspected(path: Path, seed: bytes | None) -> Inspected:
    try:
        with viewed(path, seed=seed) as view:
            sketcher = sketcher_for(scheme_of(view.identity.scheme), seed=view.identity.seed)
            with options.progress(f"checking {path}", len(view)) as advanced:
                found = inspect(view, sketcher.keys_of, advanced=advanced)
            return Inspected(path, view.identity, found)
    except (IndexDamaged, IndexMismatch, FormatError) as fault:
        return Inspected(path, None, None, str(fault))
