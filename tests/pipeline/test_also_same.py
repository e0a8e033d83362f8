"""Fields that alone make documents the same: `verify.also_same`; `forgetting/test_one_at_a_time.py`
has random streams."""

from __future__ import annotations

import numpy as np
import pytest

from streamfilter.assembly import policy_for, reader_for
from streamfilter.config.loading import load_config
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes
from streamfilter.matching.batch import Prepared, Rules, decide
from streamfilter.matching.blocking.forgetting import FORGET_MAX
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.explanation import beside, explain
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.matching.search import candidates_of, compared, search
from streamfilter.matching.verdict.decision import Fate
from streamfilter.model import Reason, Record, Source, Unjudged, Verdict
from streamfilter.similarity.scheme import Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.stops import ConfigError
from tests.pipeline.test_sequential_model import SEED, batch_of, plain, run_in_batches
from tests.support.cases import cases

BOTH = Scheme(16, 6, digests=("also /guid", "also /url"))
SKETCHER = Sketcher(BOTH, seed=SEED)
DAY = 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 5_000])
def test_a_match_by_a_field_is_as_young_as_one_by_text_however_often_the_value_comes(
    size, monkeypatch
):
    """Read again, the last ones find theirs behind more documents than are asked for at once."""
    monkeypatch.setattr("streamfilter.matching.blocking.visibility.ASKED", 101)
    monkeypatch.setattr("streamfilter.matching.search.NAMED_MAX", 25)
    days, retention = [*range(0, 260, 2)], Retention(within=DAY)
    index = MemoryIndex(BOTH.widths, ids=True)
    policy = MatchPolicy(also_same=BOTH.also_same, within=DAY)
    texts, values = [f"text {day}" for day in days for _ in "ab"], [(None, '"u"')] * 260
    days = [day for day in days for _ in "ab"]
    left = iter(days)

    def extents(index, size):
        times = np.array([next(left) * DAY for _ in range(size)], np.int64)
        return retention.extent(
            index.progress, index.windows, times=times, time=int(times[-1]), mark=index.mark
        )

    sizes = iter(lambda: size, None)
    decisions = run_in_batches(texts, sizes, index, policy, SKETCHER, extents, values)
    matches = [each.match and each.match.document_id for each in decisions]
    assert matches == [None if row % 2 == 0 else f"d{row - 1}" for row in range(260)]
    rows = np.arange(20, 260)
    batch = batch_of([f"d{i}" for i in rows], rows)
    again = judge(
        batch, SKETCHER.sketch(texts, values).at(rows), index=index, policy=policy,
        locate=lambda p, o: Source("t", p, o), number=-1, first_ordinal=260,
        as_of=index.marks_covering(batch.partitions, batch.offsets),
    )  # fmt: skip
    assert [*map(plain, again.decisions)] == [*map(plain, decisions[20:])]
    asked = SKETCHER.sketch(["another text"], [(None, '"u"')])
    explained = explain(index, asked, policy=policy, reach=258)
    assert explained.reason == "of d258: the values of /url are equal (verify.also_same)"
    (found,) = search(index, asked, policy=policy, reach=258)
    assert [each.id for each in found if each.confirmed] == ["d258"]


def test_a_document_with_the_value_is_found_behind_as_many_as_one_batch_forgets():
    """So many with one value come together if verify.within is removed."""
    index, n = MemoryIndex(BOTH.widths, ids=True), FORGET_MAX + 1
    same = [(None, '"u"')] * n
    stored = SKETCHER.sketch(["one two three four"] * n, same)
    documents = batch_of(["a"] * FORGET_MAX + ["b"], range(n)).documents(
        stored.contents, number=0, first_ordinal=0
    )
    index.apply(Changes(Progress(next_batch=1, next_ordinal=n), Additions(documents, stored.keys)))
    tombstone = {0: Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE, ("a",))}
    arriving = SKETCHER.sketch(["another text"], same[:1])
    prepared = Prepared([None] * 2, tombstone, [1], batch_of(["c"], [n]), arriving)
    rules = Rules(MatchPolicy(also_same=BOTH.also_same), lambda p, o: Source("t", p, o))
    decided = decide(prepared, index, rules, number=1, first_ordinal=n, reread=False)
    assert len(decided.forgotten.stored) == FORGET_MAX
    assert decided.outcomes[1].match.document_id == "b"


def digests(values: object, *settings: str, scheme_of_settings: bool = True) -> list[int]:
    """Return the digests of a record's values, as it is read with *settings*."""
    config = load_config((), {}, ["verify.also_same=[/guid,/url]", *settings])
    sketcher = Sketcher(scheme_of(config.scheme().as_json()), seed=SEED)
    record = Record(Source("t", 0, 0), None, values, ())
    reading = reader_for(config).read(record)
    return sketcher.sketch([reading.text], [reading.values]).contents.naming[0].tolist()


@cases(
    ("one", "other", "same"),
    [
        (b'"https://a.x/1"', b'"https://a.x/1"', True),
        (b'"https://a.x/1"', b'"https://a.x/1/"', False),
        (b'"https://a.x/1"', b'"HTTPS://a.x/1"', False),
        (b'"https://a.x/1?utm_source=q"', b'"https://a.x/1"', False),
        (b"7", b"7.0", True),
        (b"7", b'"7"', False),
        (b'["a", "b"]', b'["a","b"]', True),
        (b'{"a": 1, "b": 2}', b'{"b":2,"a":1}', True),
        (b'"' + b"x" * 60_000 + b'"', b'"' + b"x" * 60_000 + b'"', True),
        (b'"\\u0000"', b'"\\u0000"', True),
        (b"null", b"null", False),
        (b'""', b'""', False),
        (b'" \\t"', b'" \\t"', False),
        (b"[]", b"[]", False),
        (b"{}", b"{}", False),
    ],
)
def test_which_values_are_equal(one, other, same):
    record = b'{"id": "a", "text": "one", "url": %b}'
    left, right = digests(record % one), digests(record % other)
    assert left[0] == right[0] == 0
    assert (left[1] == right[1] != 0) == same


def test_campaigns_do_not_count_in_an_address_with_the_mask():
    record = b'{"id": "a", "text": "one", "url": "https://a.x/1?%b"}'
    mask = "similarity.normalise.mask=[tracking]"
    left, right = digests(record % b"utm_source=q&p=1", mask), digests(record % b"p=1", mask)
    assert left == right
    assert left != digests(record % b"p=2", mask)


def test_a_value_counts_within_its_field_and_its_scope():
    record = b'{"id": "a", "text": "one", "url": "u", "guid": "u", "tenant": %b}'
    values = digests(record % b"1")
    contents = SKETCHER.sketch(["a b"] * 2, [('"u"', None), (None, '"u"')]).contents
    index, policy = MemoryIndex(BOTH.widths, ids=True), MatchPolicy(also_same=BOTH.also_same)
    sent = [('"u"', None), (None, '"u"')]
    decisions = run_in_batches(["a", "b"], iter((2,)), index, policy, SKETCHER, values=sent)
    assert [str(each.verdict) for each in decisions] == ["passthrough"] * 2
    assert contents.naming[0, 0] == contents.naming[1, 1] == values[0] == values[1]
    scoped = [digests(record % each, "index.scope_field=/tenant") for each in (b"1", b"2", b"1")]
    assert scoped[0] == scoped[2] != scoped[1]


@cases(
    ("settings", "problem"),
    [
        (("input.format=text", "verify.also_same=[/url]"), "the whole value is the text: no field"),
        (("verify.also_same=[numbers]",), r"verify\.also_same"),
        (("verify.also_same=[/urls/*]",), "one field"),
        (("verify.also_same=[/text/url]",), "/text/url is within /text"),
        (("verify.also_same=[/a/b]", "index.scope_field=/a"), "/a/b is within /a"),
        (("verify.also_same=[/a]", "verify.agree_on=[/a/b]"), "/a is within /a/b"),
        (("verify.also_same=[/a]", "input.short_text=drop"), "set it to drop, as input.short_text"),
        (("input.format=fields", "input.fields./a=words", "verify.also_same=[/a/b]"),
         "/a/b is within /a"),
    ],
)  # fmt: skip
def test_what_cannot_be_the_same_is_refused(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        load_config((), {}, settings)


def test_the_setting_is_part_of_the_scheme_and_of_the_policy():
    names = ("verify.also_same=[/url,/guid,/url]", "verify.agree_on=[numbers]")
    config = load_config((), {}, (*names, "index.scope_field=/t"))
    scheme = config.scheme()
    assert scheme.digests == ("scope /t", "agree numbers", "also /guid", "also /url")
    assert (scheme.widths.agreeing, scheme.widths.also) == (2, 2)
    assert policy_for(config).also_same == ("/guid", "/url")
    assert config.finds_ids
    assert scheme_of(scheme.as_json()) == scheme
    with pytest.raises(ValueError, match="come last"):
        Scheme(16, 6, digests=("also /url", "agree numbers"))
    sketches = Sketcher(scheme, seed=SEED).sketch(["a b c d"], [("t", "g", "u")])
    assert Sketches.from_bytes(sketches.to_bytes()).contents.widths == scheme.widths


@pytest.mark.parametrize("field", [0, 1], ids=BOTH.also_same)
def test_a_search_and_an_explanation_name_the_field(field):
    def beside_text(value: str | None, other: str | None = None) -> tuple[str | None, str | None]:
        return (other, value) if field else (value, other)

    equal = f"the values of {BOTH.also_same[field]} are equal (verify.also_same)"
    index, policy = MemoryIndex(BOTH.widths, ids=True), MatchPolicy(also_same=BOTH.also_same)
    texts = ["one two three four five", "six seven eight nine ten", "one two three four five"]
    values = [beside_text('"u"'), beside_text(None, '"g"'), beside_text('"x"', '"g"')]
    run_in_batches(texts, iter((3,)), index, policy, SKETCHER, values=values)
    asked = SKETCHER.sketch([texts[1]], [beside_text('"u"')])
    explained = explain(index, asked, policy=policy)
    (step,) = explained.candidates
    assert (step.id, step.finding.fate, explained.decision.method) == (
        "d0", Fate.SAME_FIELD, "same_field"
    )  # fmt: skip
    assert explained.reason == f"of d0: {equal}"
    (found,) = search(index, asked, policy=policy)
    assert {each.id: each.finding.fate for each in found} == {
        "d0": Fate.SAME_FIELD, "d1": Fate.SAME_TEXT
    }  # fmt: skip
    met = candidates_of(index, asked)
    outcome = compared(asked.contents, met, index.fetch(met.ordinals), policy=policy)
    assert (met.ordinals.tolist(), outcome.confirmed.tolist()) == ([0, 1], [True, True])
    first = index.fetch(np.array([0]))
    pair = beside(asked, first, SKETCHER.keys_of(first.contents), policy=policy)
    assert pair.why == equal
    old = explain(index, asked, policy=policy, reach=1)
    assert (old.decision.match.document_id, old.candidates[-1].finding.fate) == (
        "d1", Fate.TOO_OLD
    )  # fmt: skip
