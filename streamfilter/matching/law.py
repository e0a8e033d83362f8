"""The law: what the filter decides, one document at a time, with plain dictionaries and sets.

This is step 3 and steps 5 to 7 of "How it decides" in the project's README. The filter judges whole
batches, and must decide the same. Tests run both on random streams and compare verdicts, matches,
buckets and windows. `law_of_signatures.py` has the arithmetic. Only tests import the two files.

Read `Law.judge` first. A document arrives read, normalised, hashed and signed. The rules in order:

1. If a remembered document has an equal value of `verify.also_same`, the new one is an *exact
   duplicate* of the oldest such document. The texts do not count. An absent value is equal to none.
2. A text shorter than one shingle is forwarded or dropped, unless ``short_text`` is ``exact_only``.
3. If an equal text is remembered, the document is an *exact duplicate* of the oldest one.
4. The remembered documents that share a band key with it are its candidates. Without a common key a
   similar document is missed; `streamfilter plan` shows how often.
5. Candidates with another agreement (`verify.agree_on`), or hopelessly different signatures, are
   left out. The 8 best others are compared. If none matches, the next 8 are. Then 16, and so on.
6. If one of them is similar enough, it is a *near-duplicate* of the most similar one.
7. Otherwise it is *unique*. Only then it is remembered, under all its keys.

- With `verify.within` (`Bounds.within`), older documents match nothing, and stay remembered.
- With `index.scope_field`, each scope has its own documents and ids. Only a tombstone may have no
  scope: it forgets the documents of its id in all scopes.
- With ``known_id: update``, the document of the same id is forgotten before rule 1. So no document
  is a duplicate of its earlier version. If the new version is a duplicate of another document, no
  document with its id is remembered any more.
- With ``known_id: duplicate``, an equal id counts like an equal value in rule 1.
- A short text that rule 2 forwards is remembered only if rule 1 can find it: by its id (with
  ``known_id: duplicate``), or by a value of `verify.also_same`.

Example with the threshold .8. Document A has the shingles 1 to 9, and is unique. B has 1 to 10, and
shares 9 of 10 with A: a near-duplicate, not remembered. C has 1 to 12, and shares 9 of 12 with A,
which is .75: unique. That it shares 10 of 12 with B, which is .83, changes nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streamfilter.matching.law_of_signatures import (
    LENGTHS,
    estimate,
    is_improbable,
    keys_of_band,
    mixed,
    trials_of,
)
from streamfilter.similarity.scheme import SAMPLE_TOKENS

LONG_BUCKET_MAX = 255
DAY = 86_400_000  # milliseconds
WINDOWS = 5
DIGITS = 12  # to which a similarity (a quotient of two counts) is rounded: the rest is float error


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings, by the names of `MatchPolicy`."""

    threshold: float = 0.8
    max_candidates: int = 8  # of a document, that are compared first
    max_estimated: int = 128  # of a document, whose signatures are read
    bucket_cap: int = 8
    method: str = "exact"  # of sets; or signature (its estimate), or sketch (equal slots)
    agree: int = 90
    of: int = 100  # method sketch: a match if *agree* of the first *of* slots are equal
    containment: float | None = None  # also a match if this share of one set is in the other
    contained: str = "shorter"  # which set that is; or arriving: always the new document's
    short_threshold: float | None = None  # with .95 and .8, a set of 16 of 32 shingles needs .875
    short_size: int = 32
    score: Callable[[Sequence[str], Sequence[str]], float] | None = None  # of records: `scoring`
    known_id: str = "judge"  # an id means nothing; or update, or duplicate, as above
    short_text: str = "exact_only"  # or drop, or forward (the default of `input.short_text`)
    least_set: int = 1  # shingles, or fields of a record: a document with fewer is short

    @property
    def long_cap(self) -> int:
        """Return the cap of a longer key's bucket, and of a page of a whole text's bucket."""
        return min(4 * self.bucket_cap**2, LONG_BUCKET_MAX)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is remembered; None: no bound."""

    documents: int | None = None
    time: int | None = None  # milliseconds of stream time
    least: int = 1  # a window holds at least so many documents, or lasts a day
    within: int | None = None  # milliseconds of stream time that a match may be older

    @property
    def timed(self) -> bool:
        """Return whether it matters when a document arrived."""
        return (self.time, self.within) != (None, None)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document after the steps that need no memory: read, normalised, hashed and signed."""

    id: str
    fingerprint: bytes  # 128-bit hash of the normalised text
    signature: bytes
    """One byte a slot; two sets share a slot with a probability equal to their similarity."""
    tokens: tuple[int, ...]  # of the shingles, rising; of a large set the lowest `SAMPLE_TOKENS`
    set_size: int
    keys: tuple[int, ...]  # of each band, then the key of the whole text
    fields: tuple[str, ...] = ()  # of a record, normalised
    agreement: tuple[int, ...] = ()  # digests of `verify.agree_on`; also mixed into fingerprint
    split: bytes = b""  # the signature mixed with these digests; empty if there are none
    scope: bytes = b""  # already mixed into all hashes: here it only tells ids of scopes apart
    values: tuple[int, ...] = ()  # digests of `verify.also_same`; 0: absent

    @property
    def splitter(self) -> bytes:
        """Return the bytes that longer keys are made of."""
        return self.split or self.signature


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on one document."""

    verdict: str
    matches: list[tuple[str, float, int]] = field(default_factory=list)
    """Id, similarity and number of shared bands: the most similar first, then the oldest."""
    truncated: bool = False  # whether some candidates were not compared, and might have matched
    method: str = ""  # same_id or same_field, if that alone decided


class Law:
    """The memory of one index, and the verdicts that follow from it."""

    def __init__(self, rules: Settings | None = None) -> None:
        self.rules = rules or Settings()
        self.documents: dict[int, Arrival] = {}
        """Remembered documents by ordinal. Every judged document has an ordinal: 0, 1, 2 …"""
        self.next_ordinal = 0
        self.buckets: dict[tuple[int, int], list[int]] = {}
        """Window and key → ordinals of the documents that are listed there."""
        self.equal: dict[bytes, list[int]] = {}
        """Fingerprint → ordinals of all documents that were remembered with this text."""
        self.beyond: dict[tuple[int, int], int] = {}
        """Window and key of a whole text → how many documents came after its bucket was full."""
        self.window = self.horizon = self.reach = 0
        """Documents below the horizon are forgotten; those below the reach are no matches now."""
        self.firsts = [0]  # the first ordinal of each window
        self.arrived: dict[int, int] = {}  # ordinal → stream time, if time is limited
        self.undated = 0  # first ordinal after a limit of time; older documents count as of then

    # Steps 3 to 7: one document.

    def judge(self, me: Arrival) -> Ruling:
        """Decide on the next document, and remember it if it is unique."""
        if self.rules.known_id == "update" and me.id:
            self.forget_id(me.id, scope=me.scope)
        ordinal = self.next_ordinal
        self.next_ordinal += 1
        verdict = self._decide(me)
        kept = ("unique", "passthrough") if self._names(me) else ("unique",)
        if verdict.verdict in kept:
            self.documents[ordinal] = me
            self.equal.setdefault(me.fingerprint, []).append(ordinal)
            self._list(me, ordinal)
        return verdict

    def _decide(self, me: Arrival) -> Ruling:
        if names := self._names(me):
            same = [o for o, each in self.documents.items() if names & self._names(each)]
            for other in map(self.documents.__getitem__, self._remembered(same)):
                method = "same_id" if (other.id, other.scope) in names else "same_field"
                return Ruling("exact_duplicate", [(other.id, 1.0, 0)], method=method)
        if me.set_size < self.rules.least_set and self.rules.short_text != "exact_only":
            return Ruling("passthrough" if self.rules.short_text == "forward" else "dropped")
        for ordinal in self._remembered(self.equal.get(me.fingerprint, [])):
            return Ruling("exact_duplicate", [(self.documents[ordinal].id, 1.0, 0)])
        rules, shared = self.rules, self._candidates(me)
        # Look at those that share most: longer keys count for more, then the oldest come first.
        heaviest = sorted(shared, key=lambda o: (-sum(shared[o]), o))
        looked_at = heaviest[: max(rules.max_estimated, rules.max_candidates)]
        hopeful = [o for o in looked_at if rules.score or is_hopeful(rules, me, self.documents[o])]
        slots = slots_of(rules, me)
        alike = {o: equal_slots(me, self.documents[o], slots) for o in hopeful}
        hopeful.sort(key=lambda o: (-alike[o], -len(shared[o]), o))
        similar, compared = list[tuple[float, int]](), 0
        while not similar and compared < len(hopeful):
            step = hopeful[compared : max(2 * compared, rules.max_candidates)]
            for ordinal in step:
                other = self.documents[ordinal]
                similarity = similarity_of(rules, me, other)
                if is_match(rules, me, other, similarity):
                    similar.append((-similarity, ordinal))
            compared += len(step)
        if not similar:
            return Ruling("unique")
        matches = [
            (self.documents[o].id, round(-s, DIGITS), len(shared[o])) for s, o in sorted(similar)
        ]
        left_out = len(hopeful) > compared or len(shared) > len(looked_at)
        return Ruling("near_duplicate", matches, left_out)

    def _names(self, me: Arrival) -> set[tuple[object, object]]:
        """Return the id and values that make an exact duplicate: one equal one is enough."""
        values = {(place, value) for place, value in enumerate(me.values) if value}
        by_id = me.id and self.rules.known_id == "duplicate"
        return {(me.id, me.scope), *values} if by_id else {*values}

    # The lists: where a document is found again.

    def _candidates(self, me: Arrival) -> dict[int, list[int]]:
        """Return the remembered documents that share a band, with the length of each shared key.

        A longer key is looked up only if the shorter one has a bucket.
        """
        found: dict[int, list[int]] = {}
        for band in range(len(me.keys) - 1 if me.set_size >= self.rules.least_set else 0):
            for key, length in zip(keys_of_band(me.keys, me.splitter, band), LENGTHS, strict=True):
                buckets = self._buckets_of(key)
                if not buckets:
                    break
                for ordinal in self._remembered([o for bucket in buckets for o in bucket]):
                    found.setdefault(ordinal, []).append(length)
        return found

    def _list(self, me: Arrival, ordinal: int) -> None:
        """List a unique document under its text's key, and under its bands' if it has a shingle."""
        for band in range(len(me.keys) - 1 if me.set_size >= self.rules.least_set else 0):
            for length, key in enumerate(keys_of_band(me.keys, me.splitter, band)):
                bucket = self.buckets.setdefault((self.window, key), [])
                if len(bucket) < (self.rules.long_cap if length else self.rules.bucket_cap):
                    bucket.append(ordinal)
                    break  # once for each band; from a full bucket it goes to the next longer key
        key = me.keys[-1]
        bucket = self.buckets.setdefault((self.window, key), [])
        if (self.window, key) in self.beyond or len(bucket) >= self.rules.bucket_cap:
            # A text's bucket stays closed once it was full: its later documents go to pages.
            number = self.beyond.get((self.window, key), 0)
            self.beyond[self.window, key] = number + 1
            page = mixed(key, 1 + number // self.rules.long_cap)
            bucket = self.buckets.setdefault((self.window, page), [])
        bucket.append(ordinal)

    def _buckets_of(self, key: int) -> list[list[int]]:
        """Return the lists under *key* in all windows that are not forgotten as a whole."""
        oldest = bisect_right(self.firsts, self.horizon) - 1
        windows = range(oldest, self.window + 1)
        return [self.buckets[w, key] for w in windows if (w, key) in self.buckets]

    def _remembered(self, ordinals: list[int]) -> list[int]:
        return [o for o in ordinals if o >= max(self.horizon, self.reach) and o in self.documents]

    # Forgetting: by a tombstone's id, by number, by time.

    def forget_id(self, *ids: str, scope: bytes = b"") -> list[int]:
        """Take the documents of these ids, in one *scope* if given, off all lists; return them."""
        inside = {ordinal: e for ordinal, e in self.documents.items() if scope in (b"", e.scope)}
        gone = [ordinal for ordinal, each in inside.items() if each.id in ids]
        for ordinal in gone:
            del self.documents[ordinal]
        for bucket in self.buckets.values() if gone else ():
            bucket[:] = [ordinal for ordinal in bucket if ordinal in self.documents]
        return gone

    def forget(self, horizon: int, *, opens: bool) -> None:
        """Judge from now on without documents below *horizon*, perhaps in a new window."""
        self.horizon = horizon
        if opens:
            self.window += 1
            self.firsts.append(self.next_ordinal)

    def arrive(self, time: int, bounds: Bounds) -> bool:
        """Forget what the next document does not see; return whether it opens a window."""
        if len(self.firsts) == 1 and bounds.timed:
            self.undated = self.next_ordinal
        self.arrived[self.next_ordinal] = time
        self.pass_time(time, bounds)
        opens = self._is_full(time, bounds)
        self.forget(self.horizon, opens=opens)
        self._pass_reach(time, bounds)
        return opens

    def _pass_reach(self, time: int, bounds: Bounds) -> None:
        """Find the oldest document that the next one may match (`verify.within`)."""
        self.reach = 0
        if bounds.within is not None:
            dated = range(self.firsts[1], self.next_ordinal)
            young = (o for o in dated if self.arrived[o] >= time - bounds.within)
            first = next(young, self.next_ordinal)
            self.reach = first if first > self.firsts[1] else 0

    def pass_time(self, time: int, bounds: Bounds) -> None:
        """Raise the horizon to the oldest document that is remembered at this stream time."""
        ordinal, oldest = self.next_ordinal, self.horizon
        if bounds.documents is not None:
            oldest = max(oldest, ordinal - bounds.documents)
        if bounds.time is not None and self.arrived:
            dated = range(max(oldest, self.undated), ordinal)
            young = (o for o in dated if self.arrived.get(o, -1) > time - bounds.time)
            first = next(young, ordinal)
            oldest = first if first > self.undated else oldest
        self.horizon = oldest

    def _is_full(self, time: int, bounds: Bounds) -> bool:
        """Return whether a window begins: the newest holds a quarter of what is remembered."""
        if bounds.timed and len(self.firsts) == 1:
            return True
        first = self.firsts[-1]
        remembered = len(self.firsts) - bisect_right(self.firsts, self.horizon) + 1
        number, passed = self.next_ordinal - first, time - self.arrived.get(first, time)
        shares = [0.0]
        if bounds.documents is not None:
            shares.append(4 * number / bounds.documents)
        if bounds.time is not None:
            shares.append(4 * passed / bounds.time)
        enough = number >= bounds.least or passed >= DAY
        return max(shares) >= 1 and enough and remembered < WINDOWS


# Two documents: can they match, how similar are they, and is that enough?


def is_hopeful(rules: Settings, me: Arrival, other: Arrival) -> bool:
    """Return whether agreement and signatures allow a match; it errs for 1 match in 10,000."""
    if me.agreement != other.agreement:
        return False
    slots = slots_of(rules, me)
    equal = equal_slots(me, other, slots)
    if rules.method == "sketch":
        return equal >= rules.agree
    least = wanted_of(rules, me, other)
    if rules.containment is not None:  # the Jaccard similarity if exactly that share is contained
        inside, outside = sizes_of(rules, me, other)
        common = rules.containment * inside
        if common <= outside:
            least = min(least, common / (inside + outside - common))
    if rules.method == "signature":
        return estimate(equal, slots) >= least
    trials = trials_of(slots, union=(me.set_size + other.set_size) / (1 + least))
    return not is_improbable(estimate(equal, slots) + 1 / trials, least, trials)


def similarity_of(rules: Settings, me: Arrival, other: Arrival) -> float:
    """Return the similarity by which the pair is judged."""
    if rules.score is not None:
        return rules.score(me.fields, other.fields)
    if rules.method == "exact":
        return jaccard(me, other)
    slots = slots_of(rules, me)
    return estimate(equal_slots(me, other, slots), slots)


def is_match(rules: Settings, me: Arrival, other: Arrival, similarity: float) -> bool:
    """Return whether a pair of this *similarity* is a match."""
    if rules.method == "sketch":
        return equal_slots(me, other, rules.of) >= rules.agree
    if similarity >= wanted_of(rules, me, other):
        return True
    if rules.containment is None:
        return False
    inside, outside = sizes_of(rules, me, other)
    common = similarity * (inside + outside) / (1 + similarity)
    if max(me.set_size, other.set_size) <= SAMPLE_TOKENS and rules.method == "exact":
        common = len(set(me.tokens) & set(other.tokens))
    return common / inside >= rules.containment


def jaccard(one: Arrival, other: Arrival) -> float:
    """Return the share of common shingles; of cut sets, among the tokens that both would keep."""
    cut = [each.tokens[-1] for each in (one, other) if each.set_size > SAMPLE_TOKENS]
    limit = min(cut, default=2**32)
    left, right = ({t for t in each.tokens if t <= limit} for each in (one, other))
    return len(left & right) / max(len(left | right), 1)


def wanted_of(rules: Settings, me: Arrival, other: Arrival) -> float:
    """Return the threshold of this pair; it rises below ``short_size``, to ``short_threshold``."""
    size = min(me.set_size, other.set_size)
    if rules.short_threshold is None or size >= rules.short_size:
        return rules.threshold
    rise = rules.threshold - rules.short_threshold
    return rules.short_threshold + rise * (size / rules.short_size)


def sizes_of(rules: Settings, me: Arrival, other: Arrival) -> tuple[int, int]:
    """Return the size of the set that must be contained, and that of the other set."""
    a, b = me.set_size, other.set_size
    return (a, b) if rules.contained == "arriving" or a <= b else (b, a)


def slots_of(rules: Settings, me: Arrival) -> int:
    """Return how many slots of the signatures are compared."""
    return rules.of if rules.method == "sketch" else len(me.signature)


def equal_slots(one: Arrival, other: Arrival, slots: int) -> int:
    """Return how many of the first *slots* are equal."""
    pairs = zip(one.signature[:slots], other.signature[:slots], strict=True)
    return sum(a == b for a, b in pairs)
