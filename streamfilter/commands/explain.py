"""``explain``: each step of one document's verdict, and why not another one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from streamfilter.commands.options import as_json
from streamfilter.commands.views import (
    OpenIndex,
    Question,
    as_numbers,
    as_points,
    as_verdict,
    asked,
    places,
    points_in_words,
    question,
    stored_as,
    unknown,
    view_options,
)
from streamfilter.matching.explanation import Explanation, beside, explain
from streamfilter.matching.search import Candidate
from streamfilter.process import standard
from streamfilter.process.terminal_escapes import inline
from streamfilter.similarity.statistics.shape import Shape

SHOWN_CHARACTERS = 160
SHOWN_CANDIDATES = 12

EPILOG = """\b
Examples:
  streamfilter explain --state memory/ "the text of a story"
  streamfilter explain --state memory/ @story.txt --against story-000003
  streamfilter explain --state memory/ --id story-000007 --against story-000003 -o json
\b
The index may be in use; it is only read. The answer holds for the index as it is now. A record that
arrived earlier was judged against fewer documents.
"""


@click.command(epilog=EPILOG)
@view_options
@click.option("--against", metavar="ID", help="Explain why this document of the index is no match.")
def command(
    text: str | None, id_: str | None, scope: str | None, against: str | None, output: str,
    **given: Any,
) -> None:  # fmt: skip
    """Explain what the filter would make of TEXT (@path reads a file, @@ is an @), step by step.

    With --id, a stored document is compared with the earlier ones, as it was when it arrived.
    """
    wanted = asked(text, id_)
    answers: list[dict[str, Any]] = []
    with places(given) as opened:
        for place in opened:
            answer = _explained(place, wanted, id_, scope, against)
            if answer is not None:
                answers.append({"index": str(place.path), **answer})
        if not answers:
            raise unknown(id_, given["state"])
        if against is not None and all(each.get("against") is None for each in answers):
            raise unknown(against, given["state"])
    if output == "json":
        standard.answer(as_json(answers[0] if len(answers) == 1 else answers))
    else:
        standard.answer("\n\n".join(map(_report, answers)))


def _explained(
    place: OpenIndex, text: str | None, id_: str | None, scope: str | None, against: str | None
) -> dict[str, Any] | None:
    """Return everything about one index; None if it does not have the document."""
    about = question(place, text, id_, scope)
    if about is None:
        return None
    before = {} if about.ordinal is None else {"before": about.ordinal}
    explanation = explain(
        place.view,
        about.sketches,
        policy=place.policy,
        reach=about.reach,
        locate=place.origins.locate,
        **before,
    )
    answer: dict[str, Any] = {
        "normalised": None if text is None else place.sketcher.normalise(text).decode(),
        "scheme": json.loads(place.view.identity.scheme),
        **_boilerplate(place, text),
        "threshold": place.policy.threshold,
        "documents": len(place.view),
        **_fields(place, explanation),
    }
    if against is not None:
        answer["against"] = _against(place, about, against)
    return answer


def _boilerplate(place: OpenIndex, text: str | None) -> dict[str, Any]:
    """Return what the table of boilerplate takes from *text*, if there are both."""
    dropped = None if text is None else place.sketcher.boilerplate_in(text)
    return {} if dropped is None else {"boilerplate": {**asdict(dropped), "said": str(dropped)}}


def _fields(place: OpenIndex, explanation: Explanation) -> dict[str, Any]:
    return {
        "shingles": explanation.shingles,
        "sample": explanation.sample,
        "bands": explanation.columns,
        "buckets_hit": [asdict(bucket) for bucket in explanation.buckets],
        "candidates": [_candidate(place, each) for each in explanation.candidates],
        **as_verdict(explanation),
    }


def _candidate(place: OpenIndex, found: Candidate) -> dict[str, Any]:
    return {
        "id": found.id,
        "ordinal": found.ordinal,
        "bands": list(found.shared),
        **as_numbers(found.finding),
        "confirmed": found.confirmed,
        "why": found.finding.why,
        **as_points(place.sketcher.scheme, found),
        "source": place.origins.described(found.partition, found.offset),
    }


def _against(place: OpenIndex, about: Question, against: str) -> dict[str, Any] | None:
    """Return how the document compares with the stored one *against*, met or not."""
    stored = stored_as(place, against)
    if stored is None:
        return None
    theirs = place.sketcher.keys_of(stored.contents)
    sketches = about.sketches
    pair = beside(sketches, stored, theirs, policy=place.policy, reach=about.reach)
    scheme = place.sketcher.scheme
    # Records meet if a field is equal: that is no matter of chance.
    chance = None if scheme.fields else Shape.of(scheme).probability(pair.other.finding.similarity)
    why, theirs_is = pair.why, stored.contents.digests[:, 0] if scheme.scope else None
    if theirs_is is not None and theirs_is[0] != sketches.contents.digests[0, 0]:
        why, chance = "they are of different scopes, so they never meet", None
    return {**_candidate(place, pair.other), "why": why, "chance_to_meet": chance}


def _report(answer: dict[str, Any]) -> str:
    """Return one index's answer for a person."""
    buckets = answer["buckets_hit"]
    bands = [bucket for bucket in buckets if not bucket["whole_text"]]
    lines = [f"index       {answer['index']}, {answer['documents']:,} documents"]
    if answer["normalised"] is not None:
        shown = answer["normalised"]
        cut = "…" if len(shown) > SHOWN_CHARACTERS else ""
        lines.append(f"normalised  {shown[:SHOWN_CHARACTERS]}{cut}")
    if "boilerplate" in answer:
        dropped = answer["boilerplate"]
        lines.append(f"boilerplate {dropped['said']}")
        lines += [f"              {each[:SHOWN_CHARACTERS]}" for each in dropped["passages"]]
    lines += [
        f"shingles    {answer['shingles']:,} distinct, {answer['sample']:,} kept to verify",
        f"whole text  {'seen before' if len(bands) < len(buckets) else 'never seen'}",
        f"bands hit   {len(bands)} of {answer['bands']}{_bands(bands)}",
        f"candidates  {len(answer['candidates'])}",
        *map(_line, answer["candidates"][:SHOWN_CANDIDATES]),
        f"verdict     {answer['verdict']}: {answer['reason']}",
    ]
    if answer.get("against"):
        against = answer["against"]
        meets = against["chance_to_meet"]
        chance = (
            "" if meets is None else f"; such a pair shares a band with probability {meets:.4f}"
        )
        lines += [f"against     {against['id']}: {against['why']}{chance}{_points(against)}"]
    return "\n".join(map(inline, lines))


def _bands(hit: list[dict[str, Any]]) -> str:
    """Return the numbers of the bands that were *hit*, full buckets marked."""
    listed = [f"{each['band']}{_fullness(each)}" for each in hit]
    return f": {', '.join(listed)}" if listed else ""


def _line(step: dict[str, Any]) -> str:
    estimate = "" if step["estimate"] is None else f", estimate {step['estimate']:.3f}"
    met = f"{step['id']}: {len(step['bands'])} bands{estimate}; {step['why']}"
    return f"              {met}{_points(step)}"


def _points(step: dict[str, Any]) -> str:
    """Return the points of a record's fields; nothing for a text."""
    return f"; {points_in_words(step['fields'])}" if "fields" in step else ""


def _fullness(bucket: dict[str, Any]) -> str:
    """Return that a bucket is full, and how many documents are under longer keys."""
    if not bucket["full"]:
        return ""
    return f" (full, {bucket['longer']} found under longer keys)" if bucket["longer"] else " (full)"
