"""The table of commands, and the only place where an exception becomes an exit code."""

import atexit
import gc
import importlib
import io
import logging
import os
import signal
from collections.abc import Sequence

import click

from streamfilter.process import logs, standard
from streamfilter.process.cures import CURES
from streamfilter.stops import ExitCode, Stop, no_room, starved

TASKS = {
    "Run": {
        "run": "Filter between Kafka topics, exactly once, until stopped.",
        "filter": "Filter files: JSON Lines, CSV, Avro, Parquet; needs no broker.",
    },
    "Set up": {
        "init": "Write a first configuration, with text and id found in the topic's records.",
        "check": "List everything that is wrong with a configuration, or with an index.",
        "peek": "Show how a topic's records are read: id, text, or why not.",
        "boilerplate": "Write a table of menus, footers and banners that do not count.",
        "plan": "Show which bands and rows find how many duplicates, and how large an index grows.",
    },
    "Try": {
        "demo": "Watch the filter work on an embedded broker, or feed stories to a service.",
    },
    "Look into": {
        "query": "Find the near-duplicates of a text in an index.",
        "explain": "Show each step of one document's verdict, or how similar two texts are.",
        "pairs": "Find all near-duplicate pairs of a file, or of an index.",
    },
    "Repair": {
        "release": "Forward records that were withheld wrongly, each once.",
        "replay": "Send dead letters back to the input topic, each once.",
        "forget": "Make the service forget documents by their ids.",
        "backup": "Copy a running index.",
        "restore": "Restore an index from a copy.",
        "seed": "Fill the index with documents that were forwarded in the past.",
        "reset": "Start over: remove the group's changelog, offsets and index.",
    },
    "Measure": {
        "evaluate": "Measure recall, precision and lost records against the true similarities.",
        "bench": "Measure speed, stage by stage.",
    },
}
"""The commands (verbs) under the headings of ``--help``.

Every verb is ``commands/VERB.py`` with a click command called ``command``. A file is imported when
its verb is used: one that is broken, or slow to import, does not affect the others."""

VERBS = {verb: line for verbs in TASKS.values() for verb, line in verbs.items()}

FORMER = {"compare": "explain A B", "feed": "demo --feed", "verify": "check --index"}
"""Verbs of older versions, and what to type instead: scripts may still have them."""

EPILOG = """\b
Examples:
  streamfilter demo                                  watch it find near-duplicates
  streamfilter filter news.jsonl --text /body --id /id \\
      --unique once.jsonl --duplicates again.jsonl   filter a file
  streamfilter init --broker kafka:9092 --topic news write a first configuration
  streamfilter check --config streamfilter.yaml      what is wrong, all at once
  streamfilter run --config streamfilter.yaml --set kafka.group=news

\b
Settings: defaults < --config files < STREAMFILTER_SECTION__KEY < --set section.key=value
Exit codes: 0 ok, 1 a check failed (check, evaluate, bench) or a record stays
            (release, replay), 64 usage, 65 broken input line, 70 bug, 75 try again later,
            76 another process took over, 78 configuration or index mismatch,
            129, 130 and 143 a verb over files was ended by a closed terminal, Ctrl-C or SIGTERM;
            its outputs are unchanged,
            141 the reader of standard output has gone
"""

COLLECT_EVERY = (100_000, 20, 20)
"""Thresholds of the garbage collector: new objects between two searches for cycles. Python's 700
suits programs that make cycles. Ours makes few: the collector would walk all modules a dozen times
during imports, and each batch's records, without finding any."""


class Verbs(click.Group):
    """Imports a verb when it is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb's command, or None for an unknown one."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"streamfilter.commands.{cmd_name}")
        command: click.Command = module.command
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see `__main__`
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb's command; refuse a former verb, with the one to use instead."""
        if args[0] in FORMER:
            ctx.fail(f"{args[0]} is a part of another verb now: streamfilter {FORMER[args[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by task, without importing them."""
        for task, verbs in TASKS.items():
            with formatter.section(task):
                formatter.write_dl(list(verbs.items()))


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version and end, if that is *asked*."""
    if asked:
        from streamfilter.commands.version import version

        click.echo(version())
        context.exit()


@click.command(
    cls=Verbs,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version, and what signs texts here: the compiled kernel or numpy.",
)  # fmt: skip
def group() -> None:
    """A near-duplicate filter between two Kafka topics: each story passes once.

    The output has no near-duplicates, and nothing is lost. Duplicates go to a side topic, with the
    ids that they match, the similarity and the reason.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    gc.set_threshold(*COLLECT_EVERY)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # no collection at exit: saves a tenth of a second
    # A pydantic plugin of another installed package would see the configuration with its secrets.
    # The search for plugins also reads the metadata of all packages.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's OpenBLAS would start a thread for every core. Nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "_STREAMFILTER_COMPLETE" in os.environ:
        importlib.import_module("streamfilter.commands.completion").offer()
    standard.secure()
    return standard.settled(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = group.main(args=arguments, prog_name="streamfilter", standalone_mode=False)
    except Stop as stop:
        if starved(stop):
            return _no_thread(stop)
        standard.say(f"streamfilter: {CURES.completed(str(stop))}")
        return stop.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        standard.say(shown.getvalue().rstrip("\n"))
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit as left:
        # click itself exits: when the reader of its output has gone, and after shell completion.
        # Our verbs never call exit.
        if left.code == 1:
            return ExitCode.UNREAD
        return ExitCode.OK if left.code in (0, None) else ExitCode.BUG
    except Exception as error:
        if isinstance(error, OSError) and no_room(error):
            return _no_room(error)
        if starved(error):
            return _no_thread(error)
        if isinstance(error, FileNotFoundError) and _in_no_directory():
            standard.say("streamfilter: the working directory was removed\n"
                         "    cure: cd to one that exists, and run it again")  # fmt: skip
            return ExitCode.USAGE
        _report_bug()
        return ExitCode.BUG
    return code if isinstance(code, int) else ExitCode.OK


def _in_no_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _no_thread(error: BaseException) -> ExitCode:
    standard.say(
        f"streamfilter: the system gave no thread: {error}\n    cure: raise the limit of threads "
        "(ulimit -u, TasksMax= of the unit, --pids-limit of the container), and start again"
    )
    return ExitCode.TEMPORARY


def _no_room(error: OSError) -> ExitCode:
    """Report a full disk for which no `NoRoom` was raised, such as output of --help."""
    where = f"{error.filename}: " if error.filename else ""
    standard.say(
        f"streamfilter: {where}{error.strerror}\n    cure: make room where it writes to "
        "(its outputs, standard output, TMPDIR), and run it again"
    )
    return ExitCode.TEMPORARY


def _report_bug() -> None:
    """Log the traceback, masked; set up plain logging first if the verb has not done so."""
    if not logging.getLogger().handlers:
        logs.configure()
    logging.getLogger("streamfilter").critical(
        "this is a bug in streamfilter: please report it with this traceback", exc_info=True
    )
