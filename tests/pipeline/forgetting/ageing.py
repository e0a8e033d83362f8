"""Random stories of an index that forgets; the sequential model beside each is its judge."""

import random

from streamfilter.index.protocol import WINDOWS_MAX
from streamfilter.matching.blocking.retention import Extent
from streamfilter.matching.law import Law, Settings
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.model import Window
from tests.pipeline.test_sequential_model import SKETCHER, flood, stream


class Ageing:
    """Random texts, a random policy, and by chance windows and horizons."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.cap, self.most = rng.randint(1, 8), rng.randint(1, WINDOWS_MAX)
        self.policy = MatchPolicy(max_candidates=rng.choice((1, 2, 8)), short_text="exact_only")
        texts = (flood if rng.random() < 0.5 else stream)(rng, rng.randint(20, 90))
        self.texts = [" ".join(text.split()[:80]) for text in texts]
        self.sketches = SKETCHER.sketch(self.texts)
        self.model = Law(Settings(max_candidates=self.policy.max_candidates, bucket_cap=self.cap))
        self.windows = 1
        """The most that were alive."""

    def aged(self, index, chance: float) -> Extent:
        """Return what the next batch is judged with; its horizon rises by *chance*."""
        rng, progress = self.rng, index.progress
        horizon, opens = progress.horizon, None
        if rng.random() < chance:
            horizon = rng.randint(horizon, progress.next_ordinal)
        alive = [w for w in index.windows[1:] if w.first_ordinal > horizon]
        if 1 + len(alive) < self.most and rng.random() < 0.4:
            number = index.windows[-1].number + 1
            opens = Window(number, progress.next_ordinal, progress.next_batch)
        self.model.forget(horizon, opens=opens is not None)
        self.windows = max(self.windows, 1 + len(alive) + bool(opens))
        return Extent(horizon, opens)
