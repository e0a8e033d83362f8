"""Texts of any size in four languages, the same ones for every run on one Python version.

English is prose from this Python's own documentation, in runs of consecutive sentences. The other
languages are the same prose with each word always replaced by the same one. In German one word in
four gets umlauts. In Arabic each word becomes a root in a pattern. In Chinese it becomes one to
three characters without spaces. The result has no meaning, but its letters, lengths and repetitions
are those of text. Random letters would make the task too easy.

A mix contains edited copies of earlier texts, as in a feed: unchanged, with a header, without their
end, or with some words changed. Their similarity to the original is from about .7 to 1. `truth`
decides which of them count as duplicates.
"""

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from streamfilter.bench import prose
from streamfilter.documents.reader import Reader
from streamfilter.files.formats.lines import lines_of
from streamfilter.model import Document

RUN_SENTENCES = (2, 5)
SENTENCES_BYTES, PHRASE_WORDS = 400, (4, 9)
"""A shorter text is made of phrases of so many words. There are 7,000 sentences to begin with, so
of 60,000 titles that begin with a whole one three in four would be copies."""
CHANGED_WORDS_MAX = 6
HEADER_WORDS_MAX = 20
CROPPED_SHARE_MAX = 0.15

_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
_UMLAUTS = str.maketrans("aouAOU", "äöüÄÖÜ")
UMLAUTS_SHARE = 0.25
_WORDS = re.compile(r"\w+")

_ROOTS = (
    "كتب درس علم فهم قرأ سمع نظر دخل خرج جلس وقف ركب سكن عمل لعب طبخ غسل فتح حمل رسم "
    "ضرب شرب ذهب رجع وصل سأل جمع قسم حسب عرف بحث نقل حكم شهد صنع زرع حصد قطع ربط كسر "
    "سبق لحق بدأ ختم نشر طبع حفظ نسخ رفع خفض ملك حضر غلب نصر خلق رزق شكر صبر صدق وعد"
)
_PATTERNS = (
    "123 1ا23 م12و3 12ا3 ا12ا3 12و3 12ي3 م123 ت12ي3 م1ا23ة ا1ت2ا3 است12ا3 ي123ون ت1ا23 "
    "م123ة 123ات ا123 1وا23 ن123 ي123"
)
ROOTS, PATTERNS = _ROOTS.split(), _PATTERNS.split()
ARTICLES = ("", "", "ال", "و", "ب", "ل")

CHARACTERS = (
    "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而"
    "过天去能对小多然于心学么之都好看起发当没成只如事把还用第样道想作种开美总从无情己面最女但现前"
    "些所同日手又行意动方期它头经长儿回位分爱老因很给名法间斯知世什两次使身者被高已亲其进此话常与"
    "活正感见明问力理尔点文几定本公特做外孩相西果走将月十实向声车全信重三机工物气每并别真打太新比"
    "才便夫再书部水像眼等体却加电主界门利海受听表德少克代员许先口由死安写性马光白或住难望教命花结"
    "乐色更拉东神记处让母父应直字场平报友关放至张认接告入笑内英军候民岁往何度山觉路带万男边风解叫"
)


def documents(language: str, size: int, count: int, *, seed: int) -> list[str]:
    """Return *count* texts of *size* UTF-8 bytes each (a few less where a character is cut)."""
    rng, translate = random.Random(f"{language} {size} {seed}"), LANGUAGES[language]
    return [_document(rng, translate, size) for _ in range(count)]


def mixed(fresh: Sequence[str], *, share: float, seed: int) -> list[str]:
    """Return as many texts as *fresh* has, about *share* of them copies of earlier fresh ones."""
    rng = random.Random(f"mix {share} {seed}")
    texts: list[str] = []
    originals: list[str] = []
    vocabulary = sorted({word for text in fresh[:200] for word in _units(text) if word.isalpha()})
    for text in fresh:
        if originals and rng.random() < share:
            texts.append(_copy(rng, rng.choice(originals), vocabulary))
        else:
            originals.append(text)
            texts.append(text)
    return texts


def _units(text: str) -> list[str]:
    """Return the words of *text*; pairs of characters where it has no spaces."""
    if " " in text:
        return text.split(" ")
    return [text[i : i + 2] for i in range(0, len(text), 2)]


def _copy(rng: random.Random, text: str, vocabulary: Sequence[str]) -> str:
    words = _units(text)
    match rng.randrange(4):
        case 0:
            pass
        case 1:
            header = min(HEADER_WORDS_MAX, len(words) // 5)
            words = rng.choices(vocabulary, k=rng.randint(1, max(1, header))) + words
        case 2:
            words = words[: round(len(words) * (1 - rng.uniform(0, CROPPED_SHARE_MAX)))]
        case _:
            changed = min(CHANGED_WORDS_MAX, len(words) // 10)
            for _ in range(rng.randint(1, max(1, changed))):
                words[rng.randrange(len(words))] = rng.choice(vocabulary)
    return (" " if " " in text else "").join(words)


def texts_of(path: Path, *, count: int) -> list[str]:
    """Return the ``text`` fields of the first *count* lines of a JSON Lines file."""
    reader = Reader(text="/text", id=None)
    readings = map(reader.read, lines_of(str(path)))
    return [each.text for each in islice((r for r in readings if isinstance(r, Document)), count)]


def _document(rng: random.Random, translate: Callable[[str], str], size: int) -> str:
    parts: list[bytes] = []
    held, next_part = 0, _run if size >= SENTENCES_BYTES else _phrase
    while held < size:
        parts.append(translate(next_part(rng)).encode())
        held += len(parts[-1])
    return b"".join(parts)[:size].decode("utf-8", "ignore")


def _run(rng: random.Random) -> str:
    """Return a few consecutive sentences of one document, each as likely as any."""
    sentences = _sentences()
    start = rng.randrange(len(sentences))
    return " ".join(sentences[start : start + rng.randint(*RUN_SENTENCES)]) + " "


def _phrase(rng: random.Random) -> str:
    """Return a few consecutive words of one sentence."""
    words = rng.choice(_sentences()).split()
    count = rng.randint(*PHRASE_WORDS)
    start = rng.randrange(max(1, len(words) - count + 1))
    return " ".join(words[start : start + count]) + " "


@cache
def _sentences() -> tuple[str, ...]:
    return tuple(
        sentence.translate(_PLAIN).encode("ascii", "ignore").decode()
        for source in prose.sources()
        for sentence in source
    )


def _german(text: str) -> str:
    return _WORDS.sub(lambda word: _german_word(word[0]), text)


@cache
def _german_word(word: str) -> str:
    return word.translate(_UMLAUTS) if _draw(word).random() < UMLAUTS_SHARE else word


def _arabic(text: str) -> str:
    return _WORDS.sub(lambda word: _arabic_word(word[0].lower()), text).replace(",", "،")


def _chinese(text: str) -> str:
    text = _WORDS.sub(lambda word: _chinese_word(word[0].lower()), text)
    return text.replace(", ", "，").replace(". ", "。").replace(" ", "")


@cache
def _arabic_word(word: str) -> str:
    draw = _draw(word)
    root, pattern = draw.choice(ROOTS), draw.choice(PATTERNS)
    for place, letter in enumerate(root, 1):
        pattern = pattern.replace(str(place), letter)
    # Short words are the frequent ones: particles, which take no article.
    return pattern if len(word) < 4 else draw.choice(ARTICLES) + pattern


@cache
def _chinese_word(word: str) -> str:
    draw = _draw(word)
    return "".join(draw.choices(CHARACTERS, k=1 if len(word) < 4 else draw.choice((2, 2, 2, 3))))


def _draw(word: str) -> random.Random:
    return random.Random(blake2b(word.encode(), digest_size=8).digest())


LANGUAGES: dict[str, Callable[[str], str]] = {
    "english": str,
    "german": _german,
    "arabic": _arabic,
    "chinese": _chinese,
}
