"""How a run ended: counts, soundness, recall and precision, and a few pairs to look at."""

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

from streamfilter.bench import truth as exact
from streamfilter.demo.board import counts, is_live, size
from streamfilter.demo.ledger import Ledger, OutputRecord
from streamfilter.model import DUPLICATES, Verdict
from streamfilter.quality.judge import evaluate
from streamfilter.quality.report import Report
from streamfilter.quality.run import Truth
from streamfilter.stories.disguises import StoryKind
from streamfilter.stories.stream import Story

EXAMPLES = tuple(map(StoryKind, ["republished", "updated", "advert", "mirror", "spam"]))
EXAMPLE_LINES, EXAMPLE_WORDS, CONTEXT_WORDS = 5, 60, 5
WIDTH_MAX = 120
NAME_MAX, FIGURES = 48, 19
"""Columns of a kind's name, and of the figures behind it with their margin."""


def judged(ledger: Ledger, *, threshold: float) -> Report:
    """Return the evaluation of the run against exact similarities."""
    texts = {id_: exact.normalised(story.text) for id_, story in ledger.stories().items()}
    ids = list(texts)
    near = exact.neighbours([exact.shingles(text) for text in texts.values()], floor=threshold)
    pairs = (
        (id_, ids[row], s) for id_, rows in zip(ids, near, strict=True) for row, s in rows.items()
    )
    truth = Truth(pairs)
    return evaluate(ledger.as_run(texts), truth, recall_from=threshold, precision_from=threshold)


def summary(ledger: Ledger, report: Report, *, threshold: float) -> str:
    quality = _quality(report, threshold)
    lines = (_pairs(ledger), _kinds(ledger), ["", counts(ledger)], _soundness(report), quality)
    return "\n".join(line for part in lines for line in part)


def _soundness(report: Report) -> Iterator[str]:
    if report.sound:
        yield (
            "every record is in exactly one place, and no story was matched with itself, with a "
            "later one, or with one that was not forwarded"
        )
        return
    yield (
        f"BROKEN: {report.missing} records lost, {report.extra} doubled, "
        f"{report.self_matches} matched with themselves, {report.later_matches} with a later one, "
        f"{report.unkept_matches} with one that was not forwarded"
    )


def _quality(report: Report, threshold: float) -> Iterator[str]:
    yield f"against the exact Jaccard of all pairs (plain sets, no hashing), from {threshold} on:"
    if report.recall is not None:
        found, expected = report.recalled.counts
        yield f"  recall    {report.recall:.4f}  ({found:,} of {expected:,} found)"
    if report.precision is not None:
        right, withheld = report.precise.counts
        yield f"  precision {report.precision:.4f}  ({right:,} of {withheld:,} right)"
    for example in report.examples:
        yield f"  {example.kind}: {example.id} and {example.other}, similarity {example.similarity}"


def _kinds(ledger: Ledger) -> Iterator[str]:
    """Yield the kinds of planted duplicates, and how many of each were withheld."""
    stories = ledger.stories()
    withheld = {o.document_id for o in ledger.outcomes if o.verdict in DUPLICATES}
    planted: Counter[tuple[StoryKind, bool]] = Counter()
    caught: Counter[tuple[StoryKind, bool]] = Counter()
    for story in stories.values():
        planted[story.kind, story.origin is not None] += 1
        caught[story.kind, story.origin is not None] += story.id in withheld
    room = min(NAME_MAX, size()[0] - FIGURES) if is_live() else NAME_MAX
    yield f"{'what was sent':{room + 2}}{'stories':>7}{'withheld':>10}"
    for (kind, again), number in sorted(planted.items(), key=lambda item: (item[0][1], item[0][0])):
        name = f"{kind.value}, {MEANINGS[kind]}" if again else f"{kind.value}, new"
        name = name if len(name) < room else name[: room - 2] + "…"
        yield f"  {name:{room}}{number:7,}{caught[kind, again]:10,}"


MEANINGS = {
    StoryKind.REPUBLISHED: "with another header and footer",
    StoryKind.ADVERT: "with an advertisement inside",
    StoryKind.CROPPED: "with its end cut off",
    StoryKind.UPDATED: "with a new first paragraph",
    StoryKind.MIRROR: "with other links",
    StoryKind.FEEDBACK: "the same message again",
    StoryKind.SPAM: "the same letter to another name",
    StoryKind.RELEASE: "only the numbers changed: news",
    StoryKind.SHORT: "one of a few words changed",
    StoryKind.REWRITTEN: "a third of it new",
    StoryKind.QUOTING: "another story with a quotation",
}


def _pairs(ledger: Ledger) -> Iterator[str]:
    """Yield one near-duplicate of each interesting kind, beside its original."""
    stories = ledger.stories()
    near = [o for o in ledger.outcomes if o.verdict is Verdict.NEAR_DUPLICATE]
    for kind in EXAMPLES:
        found = next((o for o in near if stories[o.document_id].kind is kind), None)
        if found is not None:
            yield from _pair(found, stories)
            yield ""


def _pair(outcome: OutputRecord, stories: dict[str, Story]) -> Iterator[str]:
    best = outcome.matches[0]
    copy, original = stories[outcome.document_id], stories[best["id"]]
    similarity = exact.jaccard(*(exact.shingles(each.text) for each in (original, copy)))
    yield (
        f"{copy.id} ({copy.kind}) is a near-duplicate of {original.id}: similarity "
        f"{best['similarity']:.3f}, exact {similarity:.3f}; {best['bands']} bands shared; "
        f"{best['topic']}/{best['partition']} at offset {best['offset']}"
    )
    width = (min(shutil.get_terminal_size().columns, WIDTH_MAX) - 7) // 2
    left, right = (textwrap.wrap(text, width)[:EXAMPLE_LINES] for text in _around(original, copy))
    for ours, theirs in zip_longest(left, right, fillvalue=""):
        yield f"  {ours:{width}} │ {theirs}"


def _around(original: Story, copy: Story) -> tuple[str, str]:
    """Return both texts from shortly before their first difference; whole if there is none."""
    left, right = original.text.split(), copy.text.split()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    differences = (op for op in matcher.get_opcodes() if op[0] != "equal")
    _, at_left, _, at_right, _ = next(differences, ("equal", 0, 0, 0, 0))
    starts = (max(0, at_left - CONTEXT_WORDS), max(0, at_right - CONTEXT_WORDS))
    shown = [
        ("… " if start else "") + " ".join(words[start : start + EXAMPLE_WORDS])
        for start, words in zip(starts, (left, right), strict=True)
    ]
    return shown[0], shown[1]
