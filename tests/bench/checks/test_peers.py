"""The rivals get the same shingles as we do, and are judged by the same truth."""

import pytest

from streamfilter.bench import sketching, texts
from tests.bench.peers.shingles import SHINGLERS
from tests.support.cases import cases


@cases("kind", SHINGLERS)
@cases("language", texts.LANGUAGES)
def test_rivals_sign_as_many_different_shingles_as_we(kind, language):
    documents = texts.documents(language, 700, 40, seed=6)
    ours = sketching.sketcher(kind).sketch(documents).contents.set_sizes.tolist()
    # In Chinese mixed with digits a word may be split differently: at most one of a hundred.
    theirs = [len(set(SHINGLERS[kind](text))) for text in documents]
    assert theirs == pytest.approx(ours, rel=0.01 if language == "chinese" else 0.0)
