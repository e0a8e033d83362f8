"""``explain``: each step of one document's verdict, and why not another one."""

from datetime import datetime
from typing import Any

import click
from msgspec.structs import replace

from streamfilter.commands import options
from streamfilter.commands.options import progress
from streamfilter.commands.states import asked_of, index_options, state_of
from streamfilter.config.configuration import Config
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.errors import IndexRefused
from streamfilter.inquiry.answers import Explanations
from streamfilter.inquiry.indexes import UnknownId
from streamfilter.inquiry.pair import PairReport
from streamfilter.inquiry.withheld import Withheld
from streamfilter.process.signals import INTERRUPTION
from streamfilter.similarity.scheme import KINDS, Normalisation, Shingling

RAW = Normalisation("none", casefold=False, whitespace=False, digits=False, invisible=False)

EPILOG = """\b
Examples:
  streamfilter explain --config streamfilter.yaml --id story-000042    why was it withheld?
  streamfilter explain --state memory/ "the text of a story"
  streamfilter explain --state memory/ @story.txt --against story-000003
  streamfilter explain --state memory/ --id story-000007 --against story-000003 -o json
  streamfilter explain "the cat sat on the mat" "the red cat sat on the mat"
  streamfilter explain @old.txt @new.txt --shingle char:5 -o json
\b
Two texts are compared without an index: how similar they are, and how the filter judges OTHER after
TEXT. They are of one scope. With input.format: fields they are records as JSON. The keys are those
of index.seed_file, if it is set. An index without it has a seed of its own, so an estimate may
differ a little there.
\b
A withheld document is not in the index. With --config, its verdict is read from the duplicates
topic, in shadow mode from the unique topic. The newest records are read first, up to one that has
the id. With --since, all verdicts on the id from that time on are shown, also if the
index has the id. Ctrl-C ends the search. Nothing is joined or written.
\b
The index may be in use; it is only read. The answer holds for the index as it is now. A record that
arrived earlier was judged against fewer documents.
"""


@click.command(epilog=EPILOG)
@index_options
@click.argument("other", required=False)
@click.option("--shingle", metavar="KIND:SIZE",
              help="Of two texts: word:3, char:5, ... (default: configured).")  # fmt: skip
@click.option("--raw", is_flag=True, help="Two texts as they are, without normalising.")
@click.option("--against", metavar="ID", help="Explain why this document of the index is no match.")
@options.since_option
def command(
    other: str | None, shingle: str | None, raw: bool, against: str | None,
    threshold: float | None, since: datetime | None, output: str, **given: Any,
) -> None:  # fmt: skip
    """Explain step by step how the filter would judge TEXT, or why a document was withheld.

    With OTHER, show how similar the two texts are, and how the filter judges OTHER after TEXT.

    @path reads TEXT from a file; @@ stands for an @ at its beginning. With --id, a stored document
    is compared with the earlier ones, as it was when it arrived.
    """
    if other is not None:
        index = (
            given["state"],
            given["id_"],
            given["record"],
            given["scope"],
            threshold,
            against,
            since,
        )
        if given["fields"] or any(each is not None for each in index):
            raise click.UsageError("two texts are compared without an index: give only TEXT OTHER, "
                                   "--shingle, --raw, --config and --set")  # fmt: skip
        options.answer(_pair(other, shingle, raw=raw, **given), output)
        return
    if shingle or raw:
        raise click.UsageError("--shingle and --raw belong to two texts: give TEXT and OTHER")
    asked = asked_of(given)
    state, seed = state_of(given)
    named = bool(given["files"] or given["overrides"]) and asked.id is not None
    if since is not None and (not named or against is not None):
        raise click.UsageError("--since belongs to --id and --config, without --against")
    if since is None and not (named and _absent(state)):
        try:
            options.answer(
                Explanations.of(asked, state, seed=seed, threshold=threshold, against=against),
                output,
            )
            return
        except UnknownId:
            if not named or against is not None:
                raise
    with INTERRUPTION.listening():
        config = options.load(given["files"], given["overrides"])
        found = _withheld(config, asked.id or "", since)
    options.answer(found, output)


def _pair(other: str, shingle: str | None, *, raw: bool, **given: Any) -> PairReport:
    config = options.load(given["files"], given["overrides"])
    scheme = config.scheme()
    if shingle:  # a table of boilerplate is for one kind of shingles
        normal = replace(scheme.normalisation, boilerplate="")
        scheme = replace(scheme, shingling=_shingling(shingle), normalisation=normal)
    if raw:
        scheme = replace(scheme, normalisation=RAW)
    texts = options.text_of(given["text"]), options.text_of(other)
    return PairReport.of(config, scheme, *texts)


def _shingling(value: str) -> Shingling:
    """Read ``kind:size``, such as ``word:3``; raise `click.BadParameter` with the right forms."""
    kind, _, size = value.partition(":")
    if kind not in KINDS or not size.isdecimal() or not 1 <= int(size) <= 32:
        raise click.BadParameter(
            f"{value!r} is no shingle; write word:3 or char:5 or stopword:2 (size 1 to 32)"
        )
    return Shingling(kind, int(size))


def _absent(state: Any) -> bool:
    try:
        indexes_in(state)
    except IndexRefused:
        return True
    return False


def _withheld(config: Config, id_: str, since: datetime | None) -> Withheld:
    from streamfilter.kafka.topic_reader import opened

    shadow = config.output.mode == "shadow"
    topic = config.output.unique if shadow else config.output.duplicates
    found = Withheld(id_, topic, forwarded=shadow)
    with opened(config, topic, since) as (reader, bounds):
        length = sum(end - start for start, end in bounds.values())
        with progress(f"looking through {topic}", length) as advanced:
            for block in reader.newest_first(bounds, advanced):
                found.look(block)
                if found.count and since is None:
                    break
    if not found.count:
        raise found.unknown(has_ids=config.input.has_ids)
    return found
