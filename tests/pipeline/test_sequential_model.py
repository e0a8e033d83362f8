import random

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Changes, Progress
from streamfilter.model import BatchMark, Source, Span
from streamfilter.pipeline import Batch, MatchPolicy, judge
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.support.model import ROUND, SequentialModel

SEED = bytes(range(16))
SKETCHER = Sketcher(Scheme(16, 6), seed=SEED)


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


def run_in_batches(texts, sizes, index, policy):
    done, outcome, number = 0, [], 0
    while done < len(texts):
        size = min(next(sizes), len(texts) - done)
        ids = [f"d{i}" for i in range(done, done + size)]
        judged = judge(
            batch_of(ids, range(done, done + size)),
            SKETCHER.sketch(texts[done : done + size]),
            index=index,
            policy=policy,
            locate=lambda p, o: Source("t", p, o),
            number=number,
            first_ordinal=done,
        )
        mark = BatchMark(number, done, done + size, (Span(0, done, done + size),))
        progress = Progress(positions={0: done + size}, next_batch=number + 1,
                            next_ordinal=done + size)  # fmt: skip
        index.apply(Changes(progress, judged.additions, (mark,)))
        outcome += judged.decisions
        done, number = done + size, number + 1
    return outcome


def plain(decision):
    matches = [(m.document_id, round(m.similarity, ROUND), m.bands) for m in decision.matches]
    return str(decision.verdict), matches, decision.matches_truncated


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_equal_the_sequential_model_whatever_the_batches(seed):
    rng = random.Random(seed)
    texts = stream(rng, 300)
    policy = MatchPolicy(max_candidates=rng.choice((1, 2, 8)), short_text="exact_only")
    sketches = SKETCHER.sketch(texts)
    model = SequentialModel(max_candidates=policy.max_candidates)
    expected = [model.judge(f"d{i}", sketches, i) for i in range(len(texts))]
    sizes = iter(lambda: rng.choice((1, 7, 60, 200)), None)
    decisions = run_in_batches(texts, sizes, MemoryIndex(slots=128), policy)
    for i, (want, got) in enumerate(zip(expected, decisions, strict=True)):
        assert plain(got) == (want.verdict, want.matches, want.truncated), (seed, i, texts[i])
    kinds = {want.verdict for want in expected}
    assert kinds == {"unique", "near_duplicate", "exact_duplicate"}


@pytest.mark.parametrize("seed", range(6))
def test_a_document_read_again_gets_the_verdict_it_had(seed):
    rng = random.Random(seed)
    texts = stream(rng, 300)
    index, policy = MemoryIndex(slots=128), MatchPolicy(short_text="exact_only")
    first = run_in_batches(texts, iter(lambda: rng.choice((5, 50)), None), index, policy)
    begin = rng.randrange(200)
    batch = batch_of([f"d{i}" for i in range(begin, 300)], range(begin, 300))
    judged = judge(
        batch, SKETCHER.sketch(texts[begin:]), index=index, policy=policy,
        locate=lambda p, o: Source("t", p, o), number=-1, first_ordinal=300,
        as_of=index.marks_covering(batch.partitions, batch.offsets),
    )  # fmt: skip
    assert judged.additions is None
    assert [plain(d) for d in judged.decisions] == [plain(d) for d in first[begin:]]
