"""Evaluates a run: matches outputs with inputs, then compares each verdict with the truth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from streamfilter.matching.verdict.decision import SAME_FIELD, SAME_ID
from streamfilter.model import Verdict
from streamfilter.quality.report import Example, Report
from streamfilter.quality.run import Given, Placed, Run, Truth

ALIKE = 0.5
"""Similarity from which two documents are in one family: half of their slots are the same."""


def evaluate(run: Run, truth: Truth, *, recall_from: float, precision_from: float) -> Report:
    report = Report(len(run.given), recall_from, precision_from)
    outcomes = _match_up(run, report)
    judge = _Judge(run.given, outcomes, truth, report)
    report.unknown = len(judge.known - judge.rows.keys())
    for row, placed in enumerate(outcomes):
        if placed is None or placed.place == "dead_letter":
            continue
        judge.recall(row, placed, recall_from)
        if placed.place == "duplicates":
            judge.soundness(row, placed)
            judge.precision(row, placed, precision_from)
    return report


def forwarded(run: Run) -> NDArray[np.bool_]:
    """Return which of its documents *run* forwarded, in their order."""
    outcomes = _match_up(run, Report(given=len(run.given)))
    places = [
        outcome is not None and outcome.place == "unique"
        for given, outcome in zip(run.given, outcomes, strict=True)
        if given.id is not None
    ]
    return np.array(places, np.bool_)


def _match_up(run: Run, report: Report) -> list[Placed | None]:
    """Return the output of each given record; count missing and extra ones.

    Evidence names its source. A forwarded record is recognised by its bytes. So is evidence whose
    source has another name now.
    """
    outcomes: list[Placed | None] = [None] * len(run.given)
    by_source = {given.source: row for row, given in enumerate(run.given)}
    by_raw: defaultdict[bytes, list[int]] = defaultdict(list)
    for row in range(len(run.given) - 1, -1, -1):
        by_raw[run.given[row].raw].append(row)
    for placed in sorted(run.placed, key=lambda each: each.source is None):
        report.verdicts[placed.verdict.value] += 1
        row = by_source.get(placed.source, -1) if placed.source is not None else -1
        if row < 0 or placed.raw not in (None, run.given[row].raw):
            rows = by_raw[placed.raw] if placed.raw is not None else []
            while rows and outcomes[rows[-1]] is not None:
                rows.pop()
            row = rows.pop() if rows else -1
        if row < 0 or outcomes[row] is not None:
            report.extra += 1
            name = str(placed.source) if placed.source else placed.verdict.value
            report.example(Example("extra", name, placed.place, None))
        else:
            outcomes[row] = placed
    for given, outcome in zip(run.given, outcomes, strict=True):
        if outcome is None and given.droppable:
            report.verdicts[Verdict.DROPPED.value] += 1
        elif outcome is None:
            report.missing += 1
            report.example(Example("missing", given.id or str(given.source), "nowhere", None))
    return outcomes


class _Judge:
    """Evaluates documents one at a time; holds the data of all others."""

    def __init__(
        self,
        given: Sequence[Given],
        outcomes: Sequence[Placed | None],
        truth: Truth,
        report: Report,
    ) -> None:
        self.given = given
        self.outcomes = outcomes
        self.truth = truth
        self.report = report
        self.by_source = {each.source: row for row, each in enumerate(given)}
        counts = Counter(each.id for each in given if each.id is not None)
        self.rows = {
            each.id: row
            for row, each in enumerate(given)
            if each.id is not None and counts[each.id] == 1
        }
        self.known = truth.ids()
        report.ambiguous = sum(count for count in counts.values() if count > 1)
        self.families = families(given, self.rows, truth)

    def _kept(self, row: int) -> bool:
        outcome = self.outcomes[row]
        return outcome is not None and outcome.place == "unique"

    def recall(self, row: int, placed: Placed, recall_from: float) -> None:
        """Count the document for recall, if an earlier kept one is similar enough."""
        given = self.given[row]
        best, best_id, contained = 0.0, "", False
        if given.id is None or given.id not in self.rows:
            return
        for other, similarity in self.truth.neighbours(given.id).items():
            there = self.rows.get(other)
            if there is None or not self._kept(there) or not self._may_match(row, there):
                continue
            if self.given[there].order >= given.order:
                continue
            contained |= self.truth.contained(given.id, other)
            if similarity > best:
                best, best_id = similarity, other
        if not best_id:
            return
        withheld = placed.place == "duplicates"
        bucket = self.report.buckets.setdefault(int(best * 10 + 1e-9), [0, 0])
        bucket[0] += 1
        bucket[1] += withheld
        if best >= recall_from or contained:
            self.report.recalled.add(self.families[row], good=withheld)
            if not withheld:
                self.report.example(Example("missed", given.id, best_id, best))

    def precision(self, row: int, placed: Placed, precision_from: float) -> None:
        """Count the withheld document for precision: is its match similar enough?"""
        given = self.given[row]
        if placed.method in (SAME_ID, SAME_FIELD):
            self.report.by_name[placed.method] += 1
            return
        unlike = placed.similarity < precision_from  # then only containment speaks for the match
        if unlike and placed.containment is not None and not self.truth.knows_containment:
            self.report.unmeasured += 1
            return
        seeded = bool(placed.match_sources) and placed.match_sources[0].seeded
        if seeded and placed.match_id not in self.known:
            self.report.seeded += 1
            return
        there = self._row_of_match(placed)
        similarity = self._true_similarity(row, placed)
        right = similarity is not None and similarity >= precision_from
        if given.id is not None and placed.match_id is not None:
            right |= self.truth.contained(given.id, placed.match_id)
        right &= there is None or self._may_match(row, there)
        self.report.precise.add(self.families[row], good=right)
        if not right:
            other = placed.match_id or "nothing"
            name = given.id or str(given.source)
            example = Example("wrong", name, other, similarity, placed.similarity)
            self.report.example(example)

    def _may_match(self, row: int, there: int) -> bool:
        """Return whether the two are of one scope, and equal in the fields that must be."""
        return self.given[row].beside == self.given[there].beside

    def _true_similarity(self, row: int, placed: Placed) -> float | None:
        given = self.given[row]
        there = self._row_of_match(placed)
        if there is not None and self.given[there].text == given.text:
            return 1.0
        if given.id is None or placed.match_id is None:
            return None
        return self.truth.neighbours(given.id).get(placed.match_id)

    def _row_of_match(self, placed: Placed) -> int | None:
        if placed.match_sources and placed.match_sources[0] in self.by_source:
            return self.by_source[placed.match_sources[0]]
        return self.rows.get(placed.match_id) if placed.match_id is not None else None

    def soundness(self, row: int, placed: Placed) -> None:
        """Count impossible matches: the document itself, a later one, one not forwarded.

        A seeded document is not among the input, and was forwarded earlier.
        """
        if not placed.match_sources:
            self.report.unkept_matches += 1
        for source in placed.match_sources:
            if source.seeded:
                continue
            there = self.by_source.get(source, self._row_of_match(placed))
            if there is None:
                self.report.unkept_matches += 1
            elif there == row:
                self.report.self_matches += 1
            elif self.given[there].order > self.given[row].order:
                self.report.later_matches += 1
            elif not self._kept(there):
                self.report.unkept_matches += 1


def families(given: Sequence[Given], rows: Mapping[str, int], truth: Truth) -> list[int]:
    """Return the family of each document: the first row that similar pairs connect it with.

    Whether a copy is found depends on slots that its siblings have too, and on the same full
    buckets: the documents of a family are no independent trials, and an interval that took them
    for such would be too narrow. Equal texts are in one family, whatever the *truth* lists.
    """
    first = list(range(len(given)))

    def head(row: int) -> int:
        while first[row] != row:
            first[row] = row = first[first[row]]
        return row

    def join(one: int, other: int) -> None:
        one, other = head(one), head(other)
        first[max(one, other)] = min(one, other)

    by_text: dict[bytes, int] = {}
    for row, each in enumerate(given):
        if each.text:
            join(by_text.setdefault(each.text, row), row)
    for id_, row in rows.items():
        for neighbour, similarity in truth.neighbours(id_).items():
            if similarity >= ALIKE and neighbour in rows:
                join(rows[neighbour], row)
    return [head(row) for row in range(len(given))]
