"""Scopes: on random streams, each scope's verdicts are those of a law of its own."""

import random
from dataclasses import replace

import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.law import Law, Settings
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.pipeline.test_sequential_model import SCHEMES, SEED, plain, run_in_batches, stream
from tests.support.arrivals import arrival

SCOPES = (None, '"a"', '"b"', "7")


class Scoped(Sketcher):
    """Sketches texts that begin with their scope and a line feed, which are no part of them."""

    def sketch(self, texts, values=()):
        parted = [text.split("\n", 1) for text in texts]
        return super().sketch(
            [text for _, text in parted], [(scope or None,) for scope, _ in parted]
        )


def of_scopes(rng, count):
    """Return a stream in which every scope gets its own share, and copies of the others' texts."""
    texts = stream(rng, count)
    return [(rng.choice(SCOPES), text) for text in texts]


def judged(sketcher, sent, rng, rules):
    texts = [f"{scope or ''}\n{text}" for scope, text in sent]
    sketches, laws = sketcher.sketch(texts), {scope: Law(Settings(**rules)) for scope in SCOPES}
    expected = [laws[sent[i][0]].judge(arrival(f"d{i}", sketches, i)) for i in range(len(sent))]
    sizes = iter(lambda: rng.choice((1, 7, 60, 200)), None)
    index = MemoryIndex(sketcher.scheme.widths)
    policy = MatchPolicy(**rules, short_text="exact_only")
    got = run_in_batches(texts, sizes, index, policy, sketcher)
    return [(want.verdict, want.matches, want.truncated) for want in expected], [*map(plain, got)]


@pytest.mark.parametrize("scheme", ["default", "char", "random", "4 bytes"])
@pytest.mark.parametrize("seed", range(3))
def test_each_scope_is_judged_as_if_it_were_alone(seed, scheme):
    rng = random.Random(seed)
    scoped = replace(SCHEMES.get(scheme, Scheme(16, 6)), digests=("scope /tenant",))
    sketcher = Scoped(scoped, seed=SEED)
    expected, got = judged(sketcher, of_scopes(rng, 300), rng, {"max_candidates": 3})
    assert got == expected
    assert {verdict for verdict, *_ in got} == {"unique", "near_duplicate", "exact_duplicate"}


@pytest.mark.parametrize("planted", ["fingerprint", "tokens"])
def test_a_scope_that_is_missing_in_one_key_is_found(planted, monkeypatch):
    """Without the scope in the whole text's key, or in the bands' keys, tenants match."""
    honest = Sketcher._contents_of_texts

    def careless(self, texts, scopes):
        contents, dropped = honest(self, texts, scopes)
        bare, _ = honest(self, texts, None)
        if planted == "fingerprint":
            return replace(contents, fingerprints=bare.fingerprints), dropped
        return replace(bare, fingerprints=contents.fingerprints), dropped

    monkeypatch.setattr(Sketcher, "_contents_of_texts", careless)
    rng = random.Random(5)
    sketcher = Scoped(Scheme(16, 6, digests=("scope /tenant",)), seed=SEED)
    expected, got = judged(sketcher, of_scopes(rng, 300), rng, {})
    assert got != expected


def test_nothing_of_one_text_is_equal_in_two_scopes():
    sketcher = Sketcher(Scheme(20, 5, digests=("scope /tenant",)), seed=SEED)
    text = " ".join(f"w{number}" for number in range(400))
    sketches = sketcher.sketch([text] * 3, [('"a"',), ('"b"',), (None,)])
    contents = sketches.contents
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not set(sketches.keys[one]) & set(sketches.keys[other])
        assert (contents.fingerprints[one] != contents.fingerprints[other]).any()
        assert (contents.signatures[one] == contents.signatures[other]).mean() < 0.1
        begins = contents.samples.starts
        samples = [set(contents.samples.tokens[begins[n] : begins[n + 1]]) for n in (one, other)]
        assert len(samples[0] & samples[1]) <= 1
    assert Scheme(20, 5).fingerprint == "dc26e5f2" != sketcher.scheme.fingerprint
