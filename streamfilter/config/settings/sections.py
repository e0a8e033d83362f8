"""The filter's settings: input, output, similarity, verify, index; one class for each section.

Name, type, default, bounds, and why one would change it. The text under a setting is its manual:
`config/reference.yaml` is generated from it. Attribute names are the keys of the YAML.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from streamfilter.config.settings.normalise import Normalise
from streamfilter.config.settings.types import (
    BackupTarget,
    Duration,
    FieldPlace,
    Ratio,
    Retention,
    Section,
    Size,
    Subject,
    Topic,
)


class OutputSection(Section):
    """Where records go. Topics must exist: a typing mistake must not create one."""

    unique: Topic = "documents.unique"
    """Topic of the records that are forwarded, byte for byte. If absent: <input.topic>.unique."""
    duplicates: Topic = "documents.duplicates"
    """Topic of the duplicates with their evidence. If absent: <input.topic>.duplicates."""
    dead_letter: Topic | None = "documents.dead-letter"
    """Dead-letter topic (DLQ): the records that cannot be read. If absent:
    <input.topic>.dead-letter. null: the first such record stops the process. None is ever
    dropped."""
    mode: Literal["divert", "shadow"] = "divert"
    """divert: duplicates go to output.duplicates. shadow: all records go to the unique topic,
    duplicates annotated, so that verdicts can be watched before they count."""
    duplicates_mode: Literal["annotate", "envelope", "reference"] = "annotate"
    """annotate: the original record plus headers. envelope: one JSON record with evidence and
    payload. reference: the envelope without the payload."""

    @property
    def topics(self) -> dict[str, str]:
        """Return the topics by the settings that name them; all but the first two take letters."""
        named = {
            "output.unique": self.unique,
            "output.duplicates": self.duplicates,
            "output.dead_letter": self.dead_letter,
        }
        return {setting: topic for setting, topic in named.items() if topic is not None}

    @property
    def dead_letters(self) -> list[str]:
        return [each for each in self.topics.values() if each not in (self.unique, self.duplicates)]


def _number(value: object) -> object:
    """Return the number that the environment or the command line spells, or *value* itself."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class Shingle(Section):
    """How a text becomes a set."""

    kind: Literal["word", "char", "stopword"] = "word"
    """word: runs of words. char: runs of characters (short or noisy text). stopword: a stop word
    and the words after it, which keeps the prose of a page and removes adverts and navigation."""
    size: int = Field(default=3, ge=1, le=32)
    """Words or characters in one shingle. With stopword: the words after the stop word, 2 by
    default."""
    token_bytes: Annotated[Literal[4, 8], BeforeValidator(_number)] = 8
    """Bytes of a shingle's hash. With 4, two texts of a thousand shingles share one by chance once
    in 4,000 pairs."""
    sample_modulus: int = Field(default=1, ge=1, le=1024)
    """Keep only about one shingle in this number, the same ones in every text. It is meant for long
    texts; 16 is a common value. A text that keeps none counts as a short one."""
    languages: tuple[str, ...] = Field(default=("en",), min_length=1)
    """With kind stopword, the languages of the stop words: da, de, en, es, fr, it, nl, no, pt, ru,
    sv, tr."""
    fallback_below: int = Field(default=4, ge=0, le=1_000)
    """With kind stopword, a text with fewer stop-word shingles gets plain runs of as many words. A
    text with more gets ever fewer of them."""

    @model_validator(mode="before")
    @classmethod
    def a_stop_word_has_two_companions(cls, data: Any) -> Any:
        """Choose the default size by the kind if no size is set."""
        if isinstance(data, dict) and data.get("kind") == "stopword":
            return {"size": 2, **data}
        return data


class SimilaritySection(Section):
    """What "similar" means and how surely it is found.

    An existing index refuses a change that leads to other bands, rows, slots, shingles or
    normalisation: it could not be compared with what it holds.
    """

    threshold: Ratio = 0.8
    """Two texts with at least this Jaccard similarity are the same story."""
    shingle: Shingle = Shingle()
    slots: int = Field(default=128, ge=1, le=1024)
    """Slots of a signature. More slots find pairs more reliably, and cost disk and time."""
    recall: Annotated[float, Field(gt=0, lt=1)] = 0.99
    """Share of the pairs at the threshold that must be found. Bands and rows are planned from
    it."""
    bands: int | None = Field(default=None, ge=1, le=255)
    """Number of bands. null: planned from recall."""
    rows: int | None = Field(default=None, ge=1, le=255)
    """Slots of a band. null: planned from recall."""
    layout: Literal["bands", "random"] = "bands"
    """bands: each band has slots of its own. random: each key is made of slots chosen at random, so
    that there can be more keys (125 x 3 of 128 slots)."""
    normalise: Normalise = Normalise()


class VerifySection(Section):
    """How a candidate is confirmed before a document is withheld for it."""

    method: Literal["exact", "signature", "sketch"] = "exact"
    """exact: Jaccard on the stored token samples. signature: only the estimate, wrong for a quarter
    of the pairs close to the threshold. sketch: at least `agree` of the first `of` slots are
    equal."""
    agree: int = Field(default=90, ge=1, le=1024)
    """With method sketch: slots that must be equal. 90 of 100 finds .583 of the pairs at .9, .0994
    at .85 and .9885 at .95."""
    of: int = Field(default=100, ge=1, le=1024)
    """With method sketch: slots that are compared."""
    containment: Ratio | None = None
    """A text is also a duplicate if this share of its shingles is in another, such as 0.9. Only
    candidates are compared, and bands find them by Jaccard. With the 32 x 4 planned for 0.9, a text
    in another of 1.5 times its size is found with .96, of twice its size with .66. null: off."""
    containment_recall: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """With containment: the share that must be found of the texts contained in another of 1.5 times
    their size. Bands and rows are planned from it, too. In larger texts fewer are found."""
    contained: Literal["shorter", "arriving"] = "shorter"
    """shorter: the shorter text in the longer, whichever came first. arriving: only a text that is
    contained in an earlier one, so that nothing new is withheld."""
    short_threshold: Ratio | None = None
    """Threshold for the shortest texts, where one changed word moves the similarity far. It falls
    linearly to similarity.threshold at short_size. null: one threshold for all."""
    short_size: int = Field(default=32, ge=1, le=100_000)
    """Number of shingles of the shorter text from which similarity.threshold holds."""
    agree_on: tuple[Subject, ...] = Field(default=(), max_length=8)
    """What a match must have in common beside its similarity: numbers, urls, or JSON Pointers to
    fields, such as [numbers, /date]. numbers: the same numbers in the same order, before any mask.
    A field that both lack is equal. It is part of the index."""
    also_same: tuple[FieldPlace, ...] = Field(default=(), max_length=8)
    """JSON Pointers to fields, such as [/url, /guid]. Documents with an equal value of one of them
    are the same, whatever their texts are. An absent, null or empty value is equal to none. It is
    part of the index."""
    within: Retention = None
    """How long before a document its match may have arrived, such as 3d. Older documents stay
    remembered, but match nothing. Time is stream time, as for index.retention. It may be changed at
    any time. unlimited: however long."""
    max_candidates: int = Field(default=8, ge=1, le=1_000)
    """Candidates that a document is compared with first: those with the best estimates. If none of
    them matches, as many others follow, then twice as many, up to 128 in all (or this number, if it
    is larger). It bounds the evidence, and the cost of floods."""
    minimum_fields: int | None = Field(default=None, ge=1, le=100)
    """With input.fields: only the fields that both records have are scored, and so many both must
    have. null: a field that one of them lacks gives no points."""


class BackupSection(Section):
    """Copies of the index outside this host, taken while the service runs.

    A start with an empty directory takes the newest one that fits, and reads the rest from the
    changelog. A backup holds the seed of the hashes: encrypt it by the store's own means.
    """

    target: BackupTarget | None = None
    """s3://BUCKET/PREFIX or file:///DIRECTORY. S3 needs pip install 'streamfilter[s3]', and takes
    credentials, region and endpoint from AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and the like, ~/.aws,
    or the host's role. null: no backups."""
    every: Annotated[Duration, Field(ge=timedelta(seconds=10), le=timedelta(days=366))] = timedelta(
        hours=1
    )
    """Time between two backups. Each uploads only the files that are new since the last one."""
    keep: int = Field(default=3, ge=1, le=1_000)
    """Newest whole backups that stay. Older ones are deleted, also those of streamfilter backup to
    the same target."""
    rate: Annotated[Size, Field(ge=1 << 16)] = 32 << 20
    """Bytes that an upload sends in a second, at most. A restore has no limit, because
    the service waits for it."""


class IndexSection(Section):
    """The memory: a directory that can be rebuilt from the changelog."""

    path: Path = Path("state")
    """Directory of this process's index. No other process may use it."""
    scope: Literal["topic", "partition"] = "topic"
    """topic: one index over all partitions, and a second process is a standby. partition: one index
    for each partition, shared out to the processes; duplicates are then found within a partition
    only."""
    scope_field: FieldPlace | None = None
    """JSON Pointer to a value such as a tenant, /tenant. Documents with different values never
    match; one index serves all of them. Records without the value are a scope of their own. An id
    is known within its scope. It shapes the keys: an index that was made without it is refused."""
    changelog: Topic | None = None
    """State topic that the index is rebuilt from. null: <kafka.group>.changelog."""
    standby: Literal["hot", "cold"] = "hot"
    """What a standby does. hot: it applies every task's changelog to its own path, and takes over
    (failover) in seconds. cold: it restores when it takes over."""
    bucket_cap: int = Field(default=8, ge=1, le=255)
    """Documents listed in a bucket. Later ones are listed under longer keys."""
    retention: Retention = None
    """unlimited, or how long a document is remembered, such as 30d. Time is the newest record
    timestamp of all input partitions. If one partition is ahead, documents that the others still
    need may already be forgotten. An input without records forgets nothing. The value may change at
    any start, and forgotten documents stay forgotten. Documents of an index that had no limit count
    as new when it gets one."""
    documents_max: int | None = Field(
        default=None,
        ge=1_000,  # a window begins with every quarter of it, which takes a tenth of a second
        le=(1 << 40) - 1,  # the ordinals of an index
        description="Only documents among this many judged last are remembered. The tighter of "
        "this and retention applies. null: any number.",
    )
    backup: BackupSection = BackupSection()
    seed_file: Path | None = None
    """File with the secret that keys the hashes. null: it is made at random, and kept in the
    changelog and the state directory."""


class AuditSection(Section):
    """Some arrivals are held against the whole index by brute force: `/metrics` has their recall.

    It is done in rounds, in the background. A round takes as long as it takes to read the index in
    this share of the time: at 2 % some seconds for ten thousand documents, half an hour for a
    million. At most 2,000 arrivals are held at a time, whatever comes: up to 16 MB.
    """

    arrivals: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of the judged documents that are audited; 0: no audit."""
    time: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Share of the engine's time that comparing them may take."""
