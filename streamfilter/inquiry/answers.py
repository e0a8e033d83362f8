"""The answers of `query` and `explain`: candidates and verdicts as JSON values and as lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from streamfilter.inquiry.indexes import AskedDocument, OpenIndex, Question, opened, unknown
from streamfilter.matching.explanation import Explanation, beside, explain
from streamfilter.matching.search import Candidate, search
from streamfilter.matching.verdict.decision import Fate
from streamfilter.matching.verdict.envelope import p_false_positive
from streamfilter.process.terminal_escapes import inline
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.stops import counted

SHOWN_CHARACTERS = 160
SHOWN_CANDIDATES = 12
NUMBERS = ("similarity", "estimate", "exact", "wanted")
SAME = {"same_text": "same text", "same_field": "same field"}


class Matches(Struct, frozen=True):
    """The near-duplicates of a document in the indexes of a state directory."""

    fields: dict[str, Any]

    @classmethod
    def of(
        cls,
        asked: AskedDocument,
        state: Path,
        *,
        seed: bytes | None,
        threshold: float | None,
        limit: int,
    ) -> Matches:
        """Search all indexes of *state*; show the *limit* most similar documents.

        Raises `Stop`: no index can be read, or none has the id.
        """
        found: list[tuple[OpenIndex, Candidate]] = []
        known = met = 0
        with opened(state, seed=seed, threshold=threshold) as indexes:
            for index in indexes:
                if (about := Question.of(asked, index)) is None:
                    continue
                known += 1
                (answers,) = search(
                    index.view, about.sketches, policy=index.policy, reach=about.reach
                )
                others = [each for each in answers if each.ordinal != about.ordinal]
                met += len(others)
                found += [(index, each) for each in others if each.confirmed]
            if not known:
                raise unknown(asked.id, state)
            found.sort(key=lambda each: _rank(each[1]))
            return cls({
                "threshold": indexes[0].policy.threshold,
                "documents": sum(len(index.view) for index in indexes),
                "candidates": met,
                "duplicates": len(found),
                "matches": [_match(*each) for each in found[:limit]],
            })  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return self.fields

    def as_text(self) -> str:
        answer, matches = self.fields, self.fields["matches"]
        lines = [
            f"{counted(answer['duplicates'], 'near-duplicate')} at {answer['threshold']:g} among "
            f"{counted(answer['documents'], 'document')}; {answer['candidates']:,} shared a band"
        ]
        width = max((len(each["id"]) for each in matches), default=0)
        for each in matches:
            source = ", ".join(f"{name} {value}" for name, value in each["source"].items())
            how = SAME.get(each["fate"], f"{each['bands']} bands")
            number = f"{each['similarity']:.4f}{'' if each['exact'] else ' (estimated)'}"
            lines.append(f"  {number}  {each['id']:<{width}}  {how:>9}  {source}")
        return "\n".join(map(inline, lines))


def _rank(found: Candidate) -> tuple[float, int]:
    """Order matches as the filter does: the oldest by a field, then the most similar."""
    same_field = found.finding.fate is Fate.SAME_FIELD
    return -inf if same_field else -found.finding.similarity, found.ordinal


def _match(index: OpenIndex, found: Candidate) -> dict[str, Any]:
    """Return one pair as JSON values; containment where the policy asks for it."""
    finding = found.finding
    numbers = {name: getattr(finding, name) for name in NUMBERS}
    contained = {} if finding.containment is None else {"containment": finding.containment}
    return {
        "id": found.id,
        "fate": finding.fate.value,
        **numbers,
        **contained,
        "why": finding.why,
        "ordinal": found.ordinal,
        "bands": found.bands,
        "source": index.origins.described(found.partition, found.offset),
    }


class Explanations(Struct, frozen=True):
    """Each step of one document's verdict, in each index that knows the document."""

    fields: Sequence[dict[str, Any]]

    @classmethod
    def of(
        cls,
        asked: AskedDocument,
        state: Path,
        *,
        seed: bytes | None,
        threshold: float | None,
        against: str | None,
    ) -> Explanations:
        """Explain the verdict of each index of *state*; compare with the document *against*.

        Raises `Stop`: no index can be read, or none has one of the ids.
        """
        with opened(state, seed=seed, threshold=threshold) as indexes:
            questions = [each for index in indexes if (each := Question.of(asked, index))]
            if not questions:
                raise unknown(asked.id, state)
            answers = [_explained(each, asked.text, against) for each in questions]
        if against is not None and all(each["against"] is None for each in answers):
            raise unknown(against, state)
        return cls(answers)

    def as_json(self) -> object:
        return self.fields[0] if len(self.fields) == 1 else self.fields

    def as_text(self) -> str:
        return "\n\n".join(map(_as_text, self.fields))


def _explained(about: Question, text: str | None, against: str | None) -> dict[str, Any]:
    index, view = about.index, about.index.view
    before = {} if about.ordinal is None else {"before": about.ordinal}
    found = explain(
        view,
        about.sketches,
        policy=index.policy,
        reach=about.reach,
        locate=index.origins.locate,
        **before,
    )
    dropped = None if text is None else index.sketcher.boilerplate_in(text)
    taken = {}
    if dropped is not None:
        taken = {"boilerplate": to_builtins(dropped) | {"said": str(dropped)}}
    return {
        "index": str(index.path),
        "normalised": None if text is None else index.sketcher.normalise(text).decode(),
        "scheme": json.loads(view.identity.scheme),
        **taken,
        "threshold": index.policy.threshold,
        "documents": len(view),
        "shingles": found.shingles,
        "sample": found.sample,
        "bands": found.columns,
        "buckets_hit": [to_builtins(bucket) for bucket in found.buckets],
        "candidates": [_candidate(index, each) for each in found.candidates],
        **as_verdict(found),
        **({} if against is None else {"against": _against(about, against)}),
    }


def _candidate(index: OpenIndex, found: Candidate) -> dict[str, Any]:
    shared, points = list(found.shared), as_points(index.sketcher.scheme, found)
    return _match(index, found) | {"bands": shared, "confirmed": found.confirmed, **points}


def _against(about: Question, against: str) -> dict[str, Any] | None:
    index = about.index
    if (stored := index.stored(against)) is None:
        return None
    theirs, scheme = index.sketcher.keys_of(stored.contents), index.sketcher.scheme
    pair = beside(about.sketches, stored, theirs, policy=index.policy, reach=about.reach)
    # Records share a key if a field is equal, and so do texts by verify.also_same: not by chance.
    finding, chance = pair.other.finding, None
    if not scheme.fields and finding.fate is not Fate.SAME_FIELD:
        chance = Shape.of(scheme).probability(finding.similarity)
    why, digests = pair.why, (stored.contents.digests, about.sketches.contents.digests)
    if scheme.scope and digests[0][0, 0] != digests[1][0, 0]:
        why, chance = "they are of different scopes, so they are never compared", None
    return {**_candidate(index, pair.other), "why": why, "chance_to_meet": chance}


def _as_text(answer: Mapping[str, Any]) -> str:
    buckets, shown = answer["buckets_hit"], answer["normalised"]
    bands = [bucket for bucket in buckets if not bucket["whole_text"]]
    lines = [f"index       {answer['index']}, {counted(answer['documents'], 'document')}"]
    if shown is not None:
        cut = "…" if len(shown) > SHOWN_CHARACTERS else ""
        lines.append(f"normalised  {shown[:SHOWN_CHARACTERS]}{cut}")
    if "boilerplate" in answer:
        lines.append(f"boilerplate {answer['boilerplate']['said']}")
        passages = answer["boilerplate"]["passages"]
        lines += [f"              {each[:SHOWN_CHARACTERS]}" for each in passages]
    hit = ", ".join(f"{each['band']}{_fullness(each)}" for each in bands)
    lines += [
        f"shingles    {answer['shingles']:,} distinct, {answer['sample']:,} kept to verify",
        f"whole text  {'seen before' if len(bands) < len(buckets) else 'never seen'}",
        f"bands hit   {len(bands)} of {answer['bands']}{f': {hit}' if hit else ''}",
        f"candidates  {len(answer['candidates'])}",
        *map(_line, answer["candidates"][:SHOWN_CANDIDATES]),
        f"verdict     {answer['verdict']}: {answer['reason']}",
    ]
    if pair := answer.get("against"):
        chance = pair["chance_to_meet"]
        likely = (
            "" if chance is None else f"; such a pair shares a band with probability {chance:.4f}"
        )
        lines.append(f"against     {pair['id']}: {pair['why']}{likely}{_points(pair)}")
    return "\n".join(map(inline, lines))


def _line(step: Mapping[str, Any]) -> str:
    estimate = "" if step["estimate"] is None else f", estimate {step['estimate']:.3f}"
    met = f"{step['id']}: {len(step['bands'])} bands{estimate}; {step['why']}"
    return f"              {met}{_points(step)}"


def _points(step: Mapping[str, Any]) -> str:
    """Return the points of a record's fields; nothing for a text."""
    return f"; {points_in_words(step['fields'])}" if "fields" in step else ""


def _fullness(bucket: Mapping[str, Any]) -> str:
    if not bucket["full"]:
        return ""
    return f" (full, {bucket['longer']} found under longer keys)" if bucket["longer"] else " (full)"


def as_points(scheme: Scheme, found: Candidate) -> dict[str, Any]:
    """Return what each field of a record gave, as a JSON value; nothing for texts."""
    if not found.points:
        return {}
    weights = found.finding.policy.weights or (1.0,) * len(scheme.fields)
    each = zip(scheme.fields, found.points, weights, strict=True)
    return {
        "fields": {
            field.rpartition(" ")[0]: {"points": points, "weight": weight}
            for field, points, weight in each
        }
    }


def points_in_words(fields: Mapping[str, Any]) -> str:
    """Return the points of each field for a person: ``/name 90 x 2, /phone absent``."""
    return ", ".join(
        f"{name} absent" if each["points"] is None
        else f"{name} {each['points']:.0f}" + (f" x {each['weight']:g}" * (each["weight"] != 1))
        for name, each in fields.items()
    )  # fmt: skip


def as_verdict(explanation: Explanation) -> dict[str, object]:
    """Return the decision as JSON values: what the evidence would hold, and the reason in words."""
    decision = explanation.decision
    return {
        "verdict": decision.verdict.value,
        "reason": explanation.reason,
        "method": decision.method or None,
        "canonical_id": decision.match.document_id if decision.match else None,
        "p_false_positive": p_false_positive(decision),
    }
