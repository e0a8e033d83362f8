"""The policy: which candidate pairs are duplicates.

The scheme decides which documents become candidates (share a key). The policy decides which
candidates are duplicates, and may be changed on an existing index. Everything here is arithmetic
on columns of pairs.

Containment is |A and B| divided by the size of the contained set. With Jaccard J and set sizes a
and b, |A and B| = J (a + b) / (1 + J). So containment follows from J: exact for whole sets, an
estimate for samples.
"""

from __future__ import annotations

import json
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, to_builtins

from streamfilter.matching.verdict.comparers import COMPARERS, Comparer, Threshold
from streamfilter.similarity.columns import F64, I64, Flags
from streamfilter.similarity.minhash import TOKENS_A_SLOT, independent_trials
from streamfilter.similarity.scheme import SAMPLE_TOKENS
from streamfilter.similarity.statistics.doubt import least_likely

if TYPE_CHECKING:
    from streamfilter.entities.scoring import FieldRules

CONTAINED = ("shorter", "arriving")
KNOWN_ID = ("judge", "update", "duplicate")
_LATER = ("known_id", "weights", "minimum_fields", "agree_on", "within", "also_same")
"""Settings that older indexes do not store. Where they are off, they are left out: such an index
has the same bytes as before, and an older version opens it."""


class MatchPolicy(Struct, frozen=True):
    """The settings that decide whether a pair is a duplicate."""

    threshold: float = 0.8
    method: str = "exact"
    """``exact`` (on sets), ``signature`` (the estimate alone), ``sketch`` (agreeing slots) or
    ``fields`` (records: their score)."""
    max_candidates: int = 8
    max_estimated: int = 128
    """Candidates of a document whose signatures are read. If there are more, those that share most
    with it are taken. Never fewer than ``max_candidates`` (`estimated`)."""
    short_text: str = "forward"
    """A text shorter than one shingle: ``forward`` (unjudged), ``exact_only`` or ``drop``."""
    agree: int = 90
    of: int = 100
    """With the method ``sketch``: similar if *agree* of the first *of* slots are equal."""
    containment: float | None = None
    """A pair is also a duplicate if this share of one set is in the other; None: not used."""
    contained: str = "shorter"
    """Which text must be contained: the ``shorter`` one, or always the ``arriving`` one."""
    short_threshold: float | None = None
    short_size: int = 32
    """The threshold rises towards *short_threshold* below *short_size* shingles of the text."""
    sample_modulus: int = 1  # the scheme's sample modulus; above 1 no set is kept whole
    fields: tuple[str, ...] = ()
    """With the method ``fields``: the kind of each field, in the scheme's order."""
    known_id: str = "judge"
    """A record whose id is remembered: ``judge`` it like any other; ``update``: it replaces its
    earlier version; ``duplicate``: it is one, whatever its text."""
    weights: tuple[float, ...] = ()  # the weight of each field; empty: 1 each
    minimum_fields: int | None = None
    """How many fields both records must have; only these are then scored. None: all fields are.
    A record that has fewer is short."""

    agree_on: tuple[str, ...] = ()
    """The subjects in which a match must agree (`Scheme.agree_on`), in the scheme's order."""
    also_same: tuple[str, ...] = ()
    """Pointers to fields: documents with an equal value are the same (`Scheme.also_same`)."""
    within: int | None = None
    """Milliseconds of stream time that a match may be older; None: any. `Retention.within` applies
    it."""

    def __post_init__(self) -> None:
        for name in ("threshold", "containment", "short_threshold"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= 1.0:
                raise ValueError(f"{name} is {value}; use a value in (0, 1], such as 0.8")
        if self.method not in COMPARERS:
            raise ValueError(f"{self.method!r} verifies nothing; use {', '.join(COMPARERS)}")
        if self.contained not in CONTAINED:
            raise ValueError(f"contained is {self.contained!r}; use {' or '.join(CONTAINED)}")
        if self.known_id not in KNOWN_ID:
            raise ValueError(f"known_id is {self.known_id!r}; use {', '.join(KNOWN_ID)}")
        if not 1 <= self.agree <= self.of:
            raise ValueError(f"{self.agree} of {self.of} slots cannot agree; use 1 to {self.of}")
        if (self.method == "fields") != bool(self.fields):
            raise ValueError("the method fields goes with records, and records with it")
        if self.by_size and not self.comparer.sized:
            raise ValueError(f"the method {self.method} knows no sizes of sets; use method exact")

    def as_fact(self) -> bytes:
        off = MatchPolicy()
        stored = {
            name: value
            for name, value in to_builtins(self).items()
            if name not in _LATER or value != getattr(off, name)
        }
        return json.dumps(stored, sort_keys=True).encode()

    @property
    def by_id(self) -> bool:
        """Return whether a known id alone makes a duplicate."""
        return self.known_id == "duplicate"

    @property
    def by_name(self) -> bool:
        """Return whether a known id, or an equal field, alone makes a duplicate."""
        return self.by_id or bool(self.also_same)

    @property
    def keeps_short(self) -> bool:
        """Return whether a short text that is forwarded is remembered for its id or fields."""
        return self.by_name and self.short_text == "forward"

    @property
    def judges_short(self) -> bool:
        """Return whether a text shorter than one shingle is compared with equal texts."""
        return self.short_text == "exact_only"

    @property
    def least_set(self) -> int:
        """Return how many shingles, or fields, a document needs: with fewer it is short."""
        return self.minimum_fields or 1

    @property
    def estimated(self) -> int:
        """Return how many candidates of a document have their signatures read."""
        return max(self.max_estimated, self.max_candidates)

    @property
    def comparer(self) -> Comparer:
        return COMPARERS[self.method]

    @property
    def field_rules(self) -> FieldRules:
        """Return how the fields of two records become their similarity."""
        from streamfilter.entities.scoring import FieldRules  # texts need no records

        return FieldRules(tuple(self.fields), tuple(self.weights), self.minimum_fields)

    @property
    def limit(self) -> Threshold:
        return Threshold(
            self.threshold, self.agree, self.of, short=self.short_threshold,
            short_size=self.short_size, sample_modulus=self.sample_modulus,
        )  # fmt: skip

    @property
    def on_sets(self) -> bool:
        """Return whether matches are compared on whole sets (up to 1,024 tokens), not estimated."""
        return self.comparer.on_sets and self.sample_modulus == 1

    @property
    def whole_up_to(self) -> int:
        """Return the size up to which a set is kept whole."""
        return SAMPLE_TOKENS if self.sample_modulus == 1 else 0

    @property
    def by_size(self) -> bool:
        """Return whether the verdict depends on the sizes of a pair's sets."""
        return self.containment is not None or self.short_threshold is not None

    def slots_of(self, slots: int) -> int:
        return self.comparer.slots(self.limit, slots)

    def contains(self, similarity: F64, ours: I64, theirs: I64) -> Flags:
        """Return which pairs are duplicates by containment, whatever their similarity."""
        containment = self.terms(ours, theirs).reached_by(similarity)[1]
        if containment is None or self.containment is None:
            return np.zeros(len(similarity), np.bool_)
        return np.asarray(containment >= self.containment)

    def terms(self, ours: I64, theirs: I64) -> Terms:
        """Return the conditions for each pair to be a duplicate, given the sizes of its sets."""
        return Terms(self, ours, theirs, self.comparer.wanted(self.limit, ours, theirs))


class Terms(Struct, frozen=True):
    """The conditions for pairs to be duplicates, given the sizes of their sets."""

    policy: MatchPolicy
    ours: I64
    theirs: I64
    wanted: F64 | float  # the similarity from which each pair counts, or one for all

    def hopeful(self, estimated: F64, *, slots: int) -> Flags:
        """Return which pairs the sets might confirm, judged by the signatures' estimates."""
        deviations, least = self.policy.comparer.deviations, self.wanted
        if deviations == inf:
            return np.ones(len(estimated), np.bool_)
        if (contained := self.contained_from) is not None:
            least = np.minimum(least, contained)
        if not deviations:
            return np.asarray(estimated >= least)
        both = self.ours + self.theirs
        if isinstance(least, float):  # A flood has many pairs of few sizes: cache by size.
            limits = _limits_by_size(least, slots, deviations)
            return np.asarray(estimated >= limits[np.minimum(both, len(limits) - 1)])
        return np.asarray(estimated >= _limits(least, both, slots, deviations))

    def reached_by(self, similarity: F64) -> tuple[Flags, F64 | None]:
        """Return which pairs of this *similarity* are duplicates, and the containment if used."""
        enough: Flags = similarity >= self.wanted
        if self.policy.containment is None:
            return enough, None
        containment = _containment(similarity, *self._roles)
        return enough | (containment >= self.policy.containment), containment

    @property
    def contained_from(self) -> F64 | None:
        """Return the similarity from which each pair is a duplicate by containment, above 1: never.

        None: the policy does not use containment.
        """
        share = self.policy.containment
        return None if share is None else _jaccard_of(share, *self._roles)

    @property
    def _roles(self) -> tuple[I64, I64]:
        """Return the size of the set that must be contained, and the size of the other."""
        if self.policy.contained == "arriving":
            return self.ours, self.theirs
        return np.minimum(self.ours, self.theirs), np.maximum(self.ours, self.theirs)


def _limits(least: F64 | float, both: I64, slots: int, deviations: float) -> F64:
    """Return for each pair the lowest estimate at which it is compared.

    For small sets the slots are worth more than the same number of independent ones. In a flood
    of variants, counting that avoids most of the comparisons that find nothing. *least* is the
    similarity that each pair needs, *both* the sum of its set sizes.
    """
    trials = independent_trials(slots, slots=slots, unions=both / (1.0 + least))
    return least_likely(least, trials, deviations=deviations)


@lru_cache(maxsize=16)
def _limits_by_size(least: float, slots: int, deviations: float) -> F64:
    """Return the limits by the sum of two set sizes; above the last one the limit is constant."""
    largest = round(2 * TOKENS_A_SLOT[-1] * slots)
    return _limits(least, np.arange(largest + 1), slots, deviations)


def _containment(jaccard: F64, contained: I64, other: I64) -> F64:
    """Return the share of the *contained* set that is in the other, from the sizes of both."""
    common = jaccard * (contained + other) / (1.0 + jaccard)
    whole = np.rint(common)
    # Whole sets share a whole number of tokens: round off the float error. Samples may not.
    common = np.where(np.abs(common - whole) < 1e-6, whole, common)
    return np.minimum(common / np.maximum(contained, 1), 1.0)


def _jaccard_of(share: float, contained: I64, other: I64) -> F64:
    """Return the Jaccard similarity at which *share* of *contained* is in the other; 2: never."""
    common = share * contained
    union = contained + other - common
    return np.where(common > other, 2.0, common / np.maximum(union, 1e-9))
