"""The sketch taken apart: the same calls as `Sketcher.sketch`, with a clock between them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from streamfilter.similarity.columns import Contents, Samples
from streamfilter.similarity.minhash import MinHasher
from streamfilter.similarity.sketch import Sketcher, chunks_of, samples_of

STAGES = ("normalise", "fingerprint", "shingle", "sign", "sample", "band keys")

SEED = bytes(range(16))
_NO_SAMPLES = Samples(np.zeros(0, np.uint32), np.zeros(1, np.int64), np.zeros(0, np.int64))
"""Keys are not made of them."""


class Stages:
    """Sketches texts and keeps the processor seconds of each stage."""

    def __init__(self, sketcher: Sketcher) -> None:
        self._sketcher = sketcher
        self._minhasher = MinHasher(sketcher.scheme.slots, seed=SEED)
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._since = 0.0

    def sketch(self, texts: Sequence[str]) -> None:
        """Sketch *texts* and add up what each stage took."""
        n, sketcher = len(texts), self._sketcher
        fingerprints = np.zeros((n, 16), np.uint8)
        signatures = np.zeros((n, sketcher.scheme.slots), np.uint8)
        for chosen, ascii_only in chunks_of(texts):
            self._since = time.process_time()
            chunk = sketcher.normalise.chunk([texts[i] for i in chosen], ascii_only=ascii_only)
            self._done("normalise")
            fingerprints[chosen] = sketcher.fingerprints(chunk)
            self._done("fingerprint")
            tokens = sketcher.shingler.tokens(chunk)
            self._done("shingle")
            signatures[chosen] = self._minhasher.sign(tokens.values, tokens.starts)
            self._done("sign")
            samples_of(tokens)
            self._done("sample")
        self._since = time.process_time()
        sketcher.keys_of(Contents(fingerprints, signatures, _NO_SAMPLES))
        self._done("band keys")

    def _done(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] += now - self._since
        self._since = now
