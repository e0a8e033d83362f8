import random
from itertools import repeat

import numpy as np
import pytest

from streamfilter.index.ages import Ages
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.blocking.retention import EVERYTHING
from streamfilter.matching.law import DIGITS, Law, Settings
from streamfilter.matching.pipeline import Batch, MatchPolicy, judge
from streamfilter.model import BatchMark, Source, Span, Verdict
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from tests.support.arrivals import arrival
from tests.support.cases import cases
from tests.support.values import replace

SEED = bytes(range(16))
SKETCHER = Sketcher(Scheme(16, 6), seed=SEED)

SCHEMES = {
    "char": Scheme(16, 6, shingling=Shingling("char", 5)),
    "stopword": Scheme(16, 6, shingling=Shingling("stopword", 2)),
    "4 bytes": Scheme(20, 5, shingling=Shingling(token_bytes=4)),
    "modulus": Scheme(16, 6, shingling=Shingling("char", 6, sample_modulus=8)),
    "random": Scheme(60, 5, layout="random"),
}
POLICIES = {
    "signature": {"method": "signature"},
    "sketch": {"method": "sketch", "agree": 84, "of": 100},
    "containment": {"containment": 0.85},
    "containment of the arriving": {"containment": 0.85, "contained": "arriving"},
    "containment by signature": {"containment": 0.85, "method": "signature"},
    "short threshold": {"short_threshold": 0.97, "short_size": 60},
    "all": {"short_threshold": 0.95, "containment": 0.9, "threshold": 0.75},
}


def story(rng: random.Random, words: int) -> list[str]:
    return [f"w{rng.randrange(10_000)}" for _ in range(words)]


def stream(rng: random.Random, n: int) -> list[str]:
    """Originals, edits of edits (chains around the threshold), exact copies, short texts."""
    texts: list[list[str]] = []
    for _ in range(n):
        kind = rng.random()
        if texts and kind < 0.6:
            words = list(rng.choice(texts[-12:]))
            for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
                words[rng.randrange(len(words))] = f"x{rng.randrange(10_000)}"
        elif texts and kind < 0.66:
            words = list(rng.choice(texts[-12:]))
            words += story(rng, rng.randrange(1, len(words) // 2 + 2))
            words = words[rng.choice((0, 0, 2, 5)) :] or story(rng, 4)
        elif kind < 0.7:
            words = story(rng, rng.randrange(1, 4))
        elif kind < 0.72:
            words = story(rng, 1_500)
        else:
            words = story(rng, rng.randrange(20, 120))
        texts.append(words)
    return [" ".join(words) for words in texts]


def batch_of(ids, offsets):
    n = len(ids)
    zeros = np.zeros(n, np.int64)
    return Batch(ids, zeros, np.array(offsets, np.int64), zeros)


def run_in_batches(texts, sizes, index, policy, sketcher=SKETCHER, extents=None, values=()):
    """Judge *texts*; *extents* says what each batch is judged with, from the index before it."""
    done, outcome, number = 0, [], 0
    while done < len(texts):
        size = min(next(sizes), len(texts) - done)
        extent = extents(index, size) if extents else EVERYTHING
        ids = [f"d{i}" for i in range(done, done + size)]
        judged = judge(
            batch_of(ids, range(done, done + size)),
            sketcher.sketch(texts[done : done + size], values[done : done + size]),
            index=index,
            policy=policy,
            locate=lambda p, o: Source("t", p, o),
            number=number,
            first_ordinal=done,
            extent=extent,
        )
        span = Span(0, done, done + size)
        mark = BatchMark(number, done, done + size, (span,), extent.horizon)
        if extent.horizons is not None:
            places = np.zeros(size, np.int64), np.arange(done, done + size)
            ages = Ages(*places, extent.since(size), extent.times.clip(min=0))
            mark = replace(mark, stream_time=extent.marked_time, ages=ages.encoded((span,)))
        progress = Progress(positions={0: done + size}, next_batch=number + 1,
                            next_ordinal=done + size, horizon=extent.horizon)  # fmt: skip
        index.apply(Changes(progress, judged.additions, (mark,), opens=extent.opens))
        outcome += judged.decisions
        done, number = done + size, number + 1
    return outcome


def plain(decision):
    matches = [(m.document_id, round(m.similarity, DIGITS), m.bands) for m in decision.matches]
    return str(decision.verdict), matches, decision.matches_truncated


LETTERS = str.maketrans("0123456789", "abcdefghij")


@cases(
    ("scheme", "rules"),
    [(name, {}) for name in ("default", *SCHEMES)]
    + [("default", rules) for rules in POLICIES.values()]
    + [("stopword", POLICIES["all"]), ("random", POLICIES["sketch"])],
)  # fmt: skip
def test_every_scheme_and_policy_equals_the_sequential_model(scheme, rules):
    seed = 11
    rng = random.Random(seed)
    texts = stream(rng, 250)
    if scheme == "stopword":
        texts = [text.replace(" w1", " the w1").replace(" w2", " of w2") for text in texts]
    sketcher = Sketcher(SCHEMES[scheme], seed=SEED) if scheme in SCHEMES else SKETCHER
    modulus = sketcher.scheme.shingling.sample_modulus
    policy = MatchPolicy(**rules, sample_modulus=modulus, max_candidates=3, short_text="exact_only")
    sketches = sketcher.sketch(texts)
    model = Law(Settings(max_candidates=3, **rules))
    expected = [model.judge(arrival(f"d{i}", sketches, i)) for i in range(len(texts))]
    sizes = iter(lambda: rng.choice((1, 7, 60, 200)), None)
    decisions = run_in_batches(texts, sizes, MemoryIndex(Widths(128)), policy, sketcher)
    for i, (want, got) in enumerate(zip(expected, decisions, strict=True)):
        assert plain(got) == (want.verdict, want.matches, want.truncated), (seed, i, texts[i])
    assert {want.verdict for want in expected} == {"unique", "near_duplicate", "exact_duplicate"}


RECORDS = {
    "of before": ({"/name": "words", "/address": "words", "/phone": "digits"}, {}),
    "of people": (
        {"/name": "name.2", "/born": "date.2", "/address": "address.1", "/phone": "phone.1",
         "/email": "email.1"},
        {"weights": (2.0, 2.0, 1.0, 1.0, 1.0), "minimum_fields": 2},
    ),
    "of few fields": (
        {"/name": "name.2", "/phone": "phone.1", "/key": "exact"}, {"minimum_fields": 2}
    ),
    "of few fields, and equal ones are judged": (
        {"/name": "name.2", "/phone": "phone.1", "/key": "exact"},
        {"minimum_fields": 2, "short_text": "exact_only"},
    ),
    "weighed": (
        {"/name": "name.2", "/n": "number.2", "/key": "exact"}, {"weights": (1.5, 1.0, 0.3)}
    ),
}  # fmt: skip


def record(rng: random.Random) -> dict[str, str]:
    """Return a record of few values, so that many share a field, and few share all."""
    people = ["Bob Lee", "Robert Lee", "Lee, Bob", "Rob Lea", "Ann Lee", "A. Lee", "Otto Berg", ""]
    values = {
        "/name": people,
        "/born": ["1984-01-31", "31.1.84", "1984-01-30", "1960-07-01", "n/a"],
        "/address": ["1 Elm Street", "1 Elm St, Rome", "2 Elm St", "9 Oak Rd", ""],
        "/phone": ["+1 555 123 4567", "555-123-4567", "555 123 4568", "030/901820", "none"],
        "/email": ["bob.lee@x.org", "Bob.Lee+a@x.org", "bob.lee@y.org", "ann@x.org", ""],
        "/n": ["12", "12.0", "12.1", "90", "x"],
        "/key": ["a", "b", ""],
    }
    return {name: rng.choice(column) for name, column in values.items()}


def flood(rng: random.Random, n: int) -> list[str]:
    """Variants of two texts, some of them so near that they are copies: buckets fill and split."""
    bases = [story(rng, 60), story(rng, 60)]
    texts = []
    for _ in range(n):
        words = list(rng.choice(bases))
        for place in rng.sample(range(60), rng.choice((0, 1, 3, 4, 5, 6))):
            words[place] = f"x{rng.randrange(10_000)}"
        texts.append(" ".join(words))
    return texts


def shadowed(rng: random.Random) -> list[str]:
    """An original at .83 of the last text among sixty variants at .78 of it."""
    last = story(rng, 100)

    def variant(changes: int) -> list[str]:
        places = set(rng.sample(range(5, 95, 5), changes))
        return [f"x{rng.getrandbits(40)}" if i in places else w for i, w in enumerate(last)]

    texts = [variant(4) for _ in range(60)]
    texts.insert(rng.randrange(60), variant(3))
    return [" ".join(words) for words in (*texts, last)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 25, 2_000])
def test_an_original_is_found_behind_variants_that_look_more_similar(size):
    """An estimate errs by .035, so among the eight best there may be eight variants."""
    rng = random.Random(2)
    families = [shadowed(rng) for _ in range(8)]
    texts = [text for family in families for text in family]
    model, sketches = Law(), SKETCHER.sketch(texts)
    expected = [model.judge(arrival(f"d{i}", sketches, i)) for i in range(len(texts))]
    decisions = run_in_batches(texts, repeat(size), MemoryIndex(Widths(128)), MatchPolicy())
    for want, got in zip(expected, decisions, strict=True):
        assert plain(got) == (want.verdict, want.matches, want.truncated)
    lasts = decisions[len(families[0]) - 1 :: len(families[0])]
    assert [each.verdict for each in lasts].count(Verdict.NEAR_DUPLICATE) == len(families)
