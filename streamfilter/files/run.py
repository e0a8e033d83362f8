"""One run over files: from a configuration and paths to outputs and their counts."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec import Struct

from streamfilter.assembly import crew_for, policy_for, reader_for, retention_for, sketcher_for
from streamfilter.config.configuration import Config
from streamfilter.files.engine import Engine
from streamfilter.files.formats.lines import STDIN
from streamfilter.files.inputs import check_evidence
from streamfilter.files.inputs import opened as opened_inputs
from streamfilter.files.outputs import Outputs
from streamfilter.files.placement import Placement
from streamfilter.files.s3_paths import is_s3
from streamfilter.files.sources import Sources
from streamfilter.files.state import opened
from streamfilter.files.summary import Summary
from streamfilter.matching.batch import Rules
from streamfilter.stops import ExitCode, Stop
from streamfilter.workers.preparing import Preparing


class FileRun(Struct, frozen=True):
    """The inputs and outputs of a run."""

    inputs: Sequence[str]
    unique: str
    duplicates: str
    dead_letter: str | None = None
    state: Path | None = None  # directory of the index; with None it is temporary
    stdin_name: str = STDIN  # name of standard input in the state directory
    shadow: bool = False  # every readable line is forwarded; evidence is written too
    seed: bytes | None = None  # of a new index; None: of ``index.seed_file``, else random


def no_progress(_: int) -> None:
    """Ignore the progress of a run."""


def filter_files(
    config: Config, job: FileRun, *, advanced: Callable[[int], None] = no_progress
) -> Summary:
    """Run *job* and return its counts; if it raises `Stop`, the outputs are unchanged.

    ``advanced`` is called with the number of stored bytes read since its last call.
    """
    paths = (job.unique, job.duplicates, job.dead_letter)
    check_evidence(job.duplicates, job.dead_letter)
    check_paths(job.inputs, [path for path in paths if path is not None])
    with ExitStack() as stack:
        reader = reader_for(config)
        inputs = stack.enter_context(
            opened_inputs(job.inputs, config, reader, job.unique, stdin_name=job.stdin_name)
        )
        names = [job.stdin_name if each == STDIN else each for each in job.inputs]
        state = stack.enter_context(opened(config, job.state, seed=job.seed, inputs=names))
        outputs = stack.enter_context(
            Outputs(job.unique, job.duplicates, job.dead_letter, writer=inputs[0].writer)
        )
        crew = stack.enter_context(closing(crew_for(config)))
        sketcher = sketcher_for(config.scheme(), seed=state.seed)
        sources = Sources(job.state)
        placement = Placement(
            outputs,
            scheme=sketcher.scheme.fingerprint,
            threshold=config.similarity.threshold,
            payload=config.output.duplicates_mode != "reference",
            shadow=job.shadow,
        )
        Engine(
            batch=config.batch,
            rules=Rules(policy_for(config), sources.origins.locate),
            retention=retention_for(config),
            now=state.began,
            preparing=Preparing(reader, sketcher, crew),
            index=state.index,
            sources=sources,
            placement=placement,
            ahead=crew.workers > 0,
        ).run(inputs, advanced)
        state.finish()
    return placement.summary


def check_paths(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuse (`Stop`) inputs that are named twice, and outputs that would overwrite a file."""
    seen: dict[str, str] = {}
    for path in (*inputs, *outputs):
        is_output = len(seen) >= len(inputs)
        key = path if is_s3(path) else str(Path(path).resolve())
        key = f"- ({is_output})" if path == STDIN else key
        if key in seen and key != "/dev/null":
            raise Stop(
                f"{path} is given twice (as {seen[key]} and as {path}); "
                "every input and output needs its own path",
                exit_code=ExitCode.USAGE,
            )
        seen[key] = path
