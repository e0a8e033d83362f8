"""Normalisation, samples and exact similarity; sketches that survive being written."""

import random
import re
import unicodedata
from itertools import product

import numpy as np
import pytest

from streamfilter.similarity.columns import Samples
from streamfilter.similarity.exact import jaccard
from streamfilter.similarity.scheme import SAMPLE_TOKENS, Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.statistics.doubt import chance_below
from streamfilter.similarity.text.folding import Folding
from streamfilter.similarity.text.normalisation import PRIVATE_USE, Normaliser
from tests.support.cases import cases, over
from tests.support.columns import same_columns

pytestmark = pytest.mark.usefixtures("signer")

SEED = bytes(range(16))
SKETCHER = Sketcher(Scheme(16, 6), seed=SEED)


@cases(
    ("text", "normal"),
    [
        ("  Hello\t\nWORLD  ", "hello world"),
        ("a\x1cb\x0bc", "a b c"),
        ("Straße ＡＢＣ ﬁne", "strasse abc fine"),
        ("zero\u200bwidth soft\u00adhyphen \ufeffbom", "zerowidth softhyphen bom"),
        ("e\u0301 \u00e9", "\u00e9 \u00e9"),
        ("ΣΑΣ\u3000x\u00a0y", "σασ x y"),
        ("\ufdfa", "صلى الله عليه وسلم"),
        ("a\u2066b\u2069 c\ufe0fd \U000e0041e\U000e0100 f\u3164\uffa0g", "ab cd e fg"),
        (
            "e\u034f\u0301 \u0938\ufe00\u093c a\u0323\u200d\u0316\u200b\u0323",
            "é स\u093c ạ\u0316\u0323",
        ),
        ("港口\n码头 \u3000 船, 船 。 船 x 船", "港口码头船, 船 。 船 x 船"),
        ("かな\nカナ \u2f08\n人 ﾊﾟ ﾋ", "かなカナ人人パヒ"),
        ("ไทย ที่\nนี่ ລາວ ខ្មែរ မြန်\nမာ", "ไทยที่นี่ລາວខ្មែរမြန်မာ"),
        ("한국어 텍스트\n大韓民國은", "한국어 텍스트 大韓民國은"),
    ],
)
def test_normalisation_known_answers(text, normal):
    assert Normaliser(Normalisation())(text) == normal.encode()


MIXTURES = (
    "aé\u0301\u0323\u0332 ",
    "ＡＢ！～\u3000",
    "中文。…",
    "ﬁ\ufdfaﾊﾞ™½",
    "\U0001d400\uac00\u11a8\u1161",
    "\x00İßſ\u0345",
    "سَلّٰم\u0654\u0627",
    "नि\u093c\u094d\u200dক\u09be",
    "\u00ad\u200b\u0e33\u0e48\ud800",
)


def spaced(text: str) -> str:
    """Return *text* with its white space as it should be, if it is of the mixtures above."""
    collapsed = " ".join(text.split())
    marks = "[\u0301\u0323\u0332\u0345\u0e48\u0e4d\u3099\uff9e\xad\u093c\u094d\u200d\u09be]"
    return re.sub(
        f"([中文ハバﾊ\u0e33\u0e32]{marks}*) (?=[中文ハバﾊ\u0e33\u0e32])", r"\1", collapsed
    )


@pytest.mark.slow
@over(product(range(30), ["NFKC", "NFC"]))
def test_normalisation_is_that_of_unicode_on_any_mixture(case):
    seed, form = case
    rng = random.Random(seed)
    blocks = rng.sample(MIXTURES, 1 + seed % 4)
    texts = ["".join(rng.choice(rng.choice(blocks)) for _ in range(20)) for _ in range(40)]
    wanted = [spaced(unicodedata.normalize(form, text).casefold()) for text in texts]
    normaliser = Normaliser(Normalisation(form, invisible=False))
    for company in (40, 3, 1):  # alone, a text may hold the separator
        for begin in range(0, 40, company):
            rows = slice(begin, begin + company)
            chunk = normaliser.chunk(texts[rows], ascii_only=False)
            found = [bytes(text).decode("utf-8", "surrogatepass") for text in chunk.texts()]
            assert found == wanted[rows]


@pytest.mark.slow
def test_a_text_that_holds_every_separator_is_normalised_as_a_whole():
    text = "e\u0301 \0" + "".join(map(chr, PRIVATE_USE)) + " a\u0323\u0301\ufb01 \0 \u0bc7\u0bbe"
    assert Normaliser(Normalisation())(text) == unicodedata.normalize("NFKC", text).encode()


def test_only_words_beside_what_composes_cost_pythons_tables(monkeypatch):
    """One mark in a long text made all of it slow: an eighth of Arabic news has such a mark."""
    sent: list[str] = []
    python = Folding.text

    def watched(self, text):
        sent.append(text)
        return python(self, text)

    monkeypatch.setattr(Folding, "text", watched)
    texts = [f"{'كلمة أخرى ' * 200}سَلّٰم {'… ' * 50}", "x" * 99 + "é y", "e\u0301 \u0bc7\u0bbe"]
    normaliser = Normaliser(Normalisation())
    normaliser.chunk(texts, ascii_only=False)  # the table's pages are filled
    sent.clear()
    normaliser.chunk(texts, ascii_only=False)
    assert [text.strip("\0").split("\0") for text in sent] == [["سَلّٰم", "e\u0301", "\u0bc7\u0bbe"]]


def test_each_step_of_normalisation_is_a_switch():
    text = "Caf\u00e9 \uff11 2\u200b  x"
    off = Normalisation("none", casefold=False, whitespace=False, invisible=False)
    assert Normaliser(off)(text) == text.encode()
    assert Normaliser(Normalisation(digits=True))("\uff11 A2 ٣") == b"0 a0 0"
    assert Normaliser(Normalisation("NFC"))("\uff11") == "\uff11".encode()


@over(range(30))
def test_ascii_normalises_as_unicode_does(seed):
    rng = random.Random(seed)
    alphabet = "aB1 \t\n\x1f\x00" if seed % 2 else [chr(c) for c in range(128)]
    texts = ["".join(rng.choice(alphabet) for _ in range(rng.randrange(40))) for _ in range(20)]
    off = Normalisation(whitespace=False)
    for how in (Normalisation(), Normalisation(digits=True), Normalisation(casefold=False), off):
        normaliser = Normaliser(how)
        fast = [bytes(t) for t in normaliser.chunk(texts, ascii_only=True).texts()]
        assert fast == [bytes(t) for t in normaliser.chunk(texts, ascii_only=False).texts()], seed


def plain_jaccard(a: set, b: set) -> float:
    return len(a & b) / max(len(a | b), 1)


def samples_of(sketches: Sketches) -> Samples:
    return sketches.contents.samples


@over(range(5))
def test_exact_similarity_equals_set_arithmetic(seed):
    rng = random.Random(seed)
    texts = [[f"w{rng.randrange(60)}" for _ in range(rng.randrange(3, 200))] for _ in range(40)]
    sets = [{tuple(w[i : i + 3]) for i in range(len(w) - 2)} for w in texts]
    sketches = SKETCHER.sketch([" ".join(w) for w in texts])
    assert sketches.contents.set_sizes.tolist() == [len(s) for s in sets]
    left, right = (np.array([rng.randrange(40) for _ in range(500)]) for _ in range(2))
    found = jaccard(samples_of(sketches), left, samples_of(sketches), right)
    assert found.whole.all()
    for a, b, similarity in zip(left, right, found.similarity, strict=True):
        assert similarity == plain_jaccard(sets[a], sets[b]), seed


@pytest.mark.parametrize("truth", [0.5, 0.8, 0.95])
def test_above_the_sample_size_similarity_is_a_tight_estimate(truth):
    rng = random.Random(1)
    size = 6_000
    common = round(size * 2 * truth / (1 + truth))
    shared = [f"w{rng.getrandbits(60)}" for _ in range(common)]
    one, other = (shared + [f"w{rng.getrandbits(60)}" for _ in range(size - common)] for _ in "ab")
    sketcher = Sketcher(Scheme(16, 6, shingling=Shingling("word", 1)), seed=SEED)
    samples = samples_of(sketcher.sketch([" ".join(one), " ".join(other)]))
    found = jaccard(samples, np.array([0]), samples, np.array([1]))
    assert not found.whole[0]
    assert found.union[0] >= SAMPLE_TOKENS
    exact = plain_jaccard(set(one), set(other))
    assert abs(found.similarity[0] - exact) < 4 * (exact * (1 - exact) / found.union[0]) ** 0.5


def test_empty_sets_have_nothing_in_common():
    samples = samples_of(SKETCHER.sketch(["", "two words", "👍"]))
    assert samples.set_sizes.tolist() == [0, 0, 0]
    rows = np.array([0, 0, 1])
    assert jaccard(samples, rows, samples, rows[::-1]).similarity.tolist() == [0.0, 0.0, 0.0]


def test_the_chance_of_being_below_falls_with_distance_and_sample():
    assert chance_below(0.8, 0.8, 1_000) == pytest.approx(0.5, abs=0.02)
    assert chance_below(0.8, 0.83, 1_000) == pytest.approx(0.0066, abs=0.003)
    assert chance_below(0.8, 0.83, 128) > chance_below(0.8, 0.83, 1_000)
    assert 0 <= chance_below(0.8, 1.0, 128) < 1e-6


def test_sketches_survive_being_written_and_read_back():
    texts = ["the quick brown fox jumps over the lazy dog", "", "春眠不覺曉 處處聞啼鳥", "x y"]
    sketches = SKETCHER.sketch(texts)
    again = Sketches.from_bytes(sketches.to_bytes())
    assert same_columns(again, sketches)
    with pytest.raises(ValueError, match="cut"):
        Sketches.from_bytes(sketches.to_bytes()[:-1])
    with pytest.raises(ValueError, match="no sketches"):
        Sketches.from_bytes(b"something else")


def test_a_sketch_does_not_depend_on_its_company():
    rng = random.Random(9)
    texts = [" ".join(f"w{rng.randrange(99)}é"[: rng.randrange(2, 6)] for _ in range(80))
             for _ in range(30)]  # fmt: skip
    together = SKETCHER.sketch(texts)
    for row, text in enumerate(texts):
        alone = SKETCHER.sketch([text])
        assert np.array_equal(alone.contents.signatures[0], together.contents.signatures[row])
        assert np.array_equal(alone.keys[0], together.keys[row])


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
