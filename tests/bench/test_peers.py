"""The rivals get the same shingles as we do, and are judged by the same truth."""

import pytest

from streamfilter.bench import sketching, texts, truth
from tests.bench.peers.shingles import SHINGLERS


@pytest.mark.parametrize("kind", SHINGLERS)
@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_rivals_sign_as_many_different_shingles_as_we(kind, language):
    documents = texts.documents(language, 700, 40, seed=6)
    ours = sketching.sketcher(kind).sketch(documents).contents.set_sizes.tolist()
    # In Chinese mixed with digits a word may be split differently: at most one of a hundred.
    theirs = [len(set(SHINGLERS[kind](text))) for text in documents]
    assert theirs == pytest.approx(ours, rel=0.01 if language == "chinese" else 0.0)


@pytest.mark.parametrize(
    "name",
    ["datasketch", "datasketch, xxh32", "datasketch, xxh32, 16 x 8, compared", "rensa", "gaoya"],
)
def test_every_rival_finds_most_copies_and_few_others(name, tmp_path):
    for library in ("datasketch", "rensa", "gaoya"):
        pytest.importorskip(library, reason="tests/bench/peers/requirements.txt is not installed")
    from tests.bench.peers.loops import LOOPS

    documents = texts.mixed(texts.documents("english", 700, 150, seed=7), share=0.5, seed=7)
    kept = list(LOOPS[name](iter(documents)))
    judged = truth.judged(kept, truth.neighbours([truth.shingles(each) for each in documents]))
    assert len(kept) == len(documents)
    assert judged.recall > 0.7
    assert judged.precision > 0.9
