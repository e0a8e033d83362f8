"""The frozen vectors: what every release must make of these texts, whatever the platform.

`vectors.json` was written by `python -m tests.similarity.known.vectors`. To run it again is to say
that no index built before can be opened; the scheme's `ALGORITHM` says so to its owner. 2:
multilinear hashes, because some words of 9 to 32 bytes were equal under a sixth of the seeds of 1.
3: words keep their marks; invisible characters are dropped, and white space inside of Chinese.
Schemes with stop words changed once more by their lists and by `FADING`, which stand in their JSON.
"""

import hashlib
import json
import struct
from pathlib import Path

from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.text.normalisation import Normaliser

FILE = Path(__file__).with_suffix(".json")
SEED = bytes(range(16))

TEXTS = (
    "",
    "a",
    "The council met on Monday to discuss the new bridge.",
    "I recommend that you buy Sudzo for your laundry.",
    "  Hello\t\nWORLD  ",
    "Straße ＡＢＣ ﬁne, naïve café",
    "e\u0301 \u00e9 zero\u200bwidth soft\u00adhyphen",
    "春眠不覺曉，處處聞啼鳥。",
    "พายุเข้าฝั่งเมื่อคืนนี้",
    "ພາສາລາວ ແມ່ນພາສາ",
    "ភាសាខ្មែរ នៅកម្ពុជា",
    "東京タワーは高さ333メートル",
    "한국어 텍스트 비교",
    "اجتمع المجلس يوم الاثنين",
    "المَجْلِس \u202eabc\u202c",
    "हिन्दी में समाचार",
    "iPhone 手機 and naïve ไทย mix",
    "👩‍👩‍👧 🎈🎈 ❤️",
    "ΣΑΣ ς İstanbul ıI",
    "x" * 40 + " y " + "z" * 9,
    "١٢٣ 456 ４５６",
    "\ud800 lone surrogate",
    " ".join(f"w{i} of" for i in range(60)),
)

SCHEMES = {
    "default": Scheme(16, 6),
    "char-5": Scheme(16, 6, shingling=Shingling("char", 5)),
    "word-1, 64 slots": Scheme(8, 8, slots=64, shingling=Shingling("word", 1)),
    "stopword-2": Scheme(16, 6, shingling=Shingling("stopword", 2)),
    "stopword-2 de fr": Scheme(
        16, 6, shingling=Shingling("stopword", 2, languages=("de", "fr"), fallback_below=2)
    ),
    "4 bytes": Scheme(16, 6, shingling=Shingling(token_bytes=4)),
    "modulus 4": Scheme(16, 6, shingling=Shingling("char", 3, sample_modulus=4)),
    "modulus 3, 4 bytes": Scheme(
        16, 6, shingling=Shingling("char", 3, token_bytes=4, sample_modulus=3)
    ),
    "random": Scheme(125, 3, layout="random"),
    "digits, NFC": Scheme(20, 5, normalisation=Normalisation("NFC", digits=True)),
}


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def normalised(text: str) -> str:
    return Normaliser(Normalisation())(text).decode("utf-8", "surrogatepass")


def sketched(scheme: Scheme) -> list[tuple[int, str, str]]:
    """Return (set size, digest of tokens, digest of everything that is kept) of each text."""
    sketcher = Sketcher(scheme, seed=SEED)
    rows = []
    for text in TEXTS:
        sketches = sketcher.sketch([text])
        tokens = digest(sketcher.tokens(text).astype("<u8").tobytes())
        rows.append((int(sketches.contents.set_sizes[0]), tokens, digest(kept(sketches))))
    return rows


def kept(sketches: Sketches) -> bytes:
    """Return all columns, in the form in which processes sent them when they were frozen."""
    contents, samples = sketches.contents, sketches.contents.samples
    keys = sketches.keys
    head = (b"SFK1", len(sketches), contents.slots, keys.shape[1], len(samples.tokens))
    columns = (
        contents.fingerprints,
        contents.signatures,
        keys.astype("<u8"),
        samples.set_sizes.astype("<i8"),
        samples.starts.astype("<i8"),
        samples.tokens.astype("<u4"),
    )
    return struct.pack("<4sIIIQ", *head) + b"".join(column.tobytes() for column in columns)


def vectors() -> dict[str, object]:
    return {
        "normalised": [normalised(text) for text in TEXTS],
        "fingerprints": {name: scheme.fingerprint for name, scheme in SCHEMES.items()},
        "sketches": {
            name: [list(row) for row in sketched(scheme)] for name, scheme in SCHEMES.items()
        },
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="ascii")
