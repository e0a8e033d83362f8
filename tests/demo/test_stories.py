import re
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest

from streamfilter.bench import prose
from streamfilter.stories.disguises import CLAIMS, StoryKind
from streamfilter.stories.stream import stories

SEED = 20_261_122
COUNT = 2_500


def shingles(text: str) -> set[tuple[str, ...]]:
    """Runs of three words by the standard library alone: independent of similarity/."""
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


@pytest.fixture(scope="module")
def stream():
    return list(islice(stories(SEED), COUNT))


@pytest.fixture(scope="module")
def sets(stream):
    return {story.id: shingles(story.text) for story in stream}


def test_a_seed_gives_the_same_stream_in_another_process(stream):
    story = (
        "import sys; from itertools import islice\n"
        "from streamfilter.stories.stream import stories\n"
        "sys.stdout.write(repr(list(islice(stories(int(sys.argv[1])), 300))))\n"
    )
    command = [sys.executable, "-c", story, str(SEED)]
    told = subprocess.run(command, capture_output=True, timeout=180, text=True, check=True)
    assert told.stdout == repr(stream[:300])


def test_another_seed_gives_another_stream(stream):
    assert [s.text for s in islice(stories(SEED + 1), 50)] != [s.text for s in stream[:50]]


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_disguise_is_as_similar_to_its_original_as_it_claims(kind, stream, sets):
    lowest, highest = CLAIMS[kind]
    disguised = [s for s in stream if s.kind is kind and s.origin is not None]
    assert len(disguised) >= 20, f"seed {SEED} plants too few"
    for story in disguised:
        ours, original = sets[story.id], sets[story.origin]
        similarity = len(ours & original) / len(ours | original)
        assert lowest <= similarity <= highest, f"seed {SEED}: {story.id}, {similarity:.3f}"


def test_every_kind_is_planted_and_ids_are_never_repeated(stream):
    assert {story.kind for story in stream} == set(StoryKind)
    assert len({story.id for story in stream}) == len(stream)


def test_an_original_comes_before_its_disguises_and_is_none_itself(stream):
    origins = {}
    for story in stream:
        origins[story.id] = story.origin
        if story.origin is not None:
            assert origins[story.origin] is None


@pytest.mark.slow
def test_unrelated_stories_are_no_near_duplicates(stream, sets):
    family = {story.id: story.origin or story.id for story in stream}
    holders: dict[tuple[str, ...], list[str]] = {}
    for story in stream:
        shared = Counter(id_ for s in sets[story.id] for id_ in holders.get(s, ()))
        for other, common in shared.items():
            if family[other] != family[story.id]:
                union = len(sets[story.id]) + len(sets[other]) - common
                assert common / union < 0.75, f"seed {SEED}: {story.id} and {other}"
        for shingle in sets[story.id]:
            holders.setdefault(shingle, []).append(story.id)


def test_a_release_that_differs_in_its_numbers_is_planted_and_stories_have_three_languages(stream):
    texts = {story.id: story.text for story in stream}
    for story in stream:
        if story.kind is StoryKind.RELEASE and story.origin is not None:
            ours, theirs = (re.sub(r"\d+", "#", texts[id_]) for id_ in (story.id, story.origin))
            assert ours == theirs
            assert texts[story.id] != texts[story.origin]
    openings = {"COMPANY" in text or "#" in text or "{" in text for text in texts.values()}
    assert openings == {False}
    for words in ("million euros", "Millionen Euro", "millions à la ville"):
        assert sum(words in text for text in texts.values()) > COUNT // 20


def test_the_sentences_are_prose_and_none_is_repeated():
    sentences = [sentence for source in prose.sources() for sentence in source]
    assert len(sentences) == len(set(sentences)) >= prose.SENTENCES_MIN
    assert not any(re.search(r">>>|::|[{}<>|]", sentence) for sentence in sentences)


def test_a_python_without_documentation_says_what_to_do(monkeypatch):
    monkeypatch.setattr(prose, "_documents", lambda: iter(["One sentence alone is not enough."]))
    prose.sources.cache_clear()
    with pytest.raises(RuntimeError, match="cure: use a Python"):
        prose.sources()
    prose.sources.cache_clear()
