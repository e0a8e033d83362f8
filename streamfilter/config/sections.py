"""The filter's settings: input, output, similarity, verify, index; one class for each section.

Name, type, default, bounds, and why one would change it. The descriptions are the manual:
`config/reference.yaml` is generated from them. Attribute names are the keys of the YAML.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from streamfilter.config.normalise import Normalise
from streamfilter.config.types import Ratio, Retention, Section, Topic


class OutputSection(Section):
    """Where records go. Topics must exist: a typing mistake must not create one."""

    unique: Topic = Field(
        default="documents.unique",
        description="Topic of the records that are forwarded, byte for byte. "
        "Left out: <input.topic>.unique.",
    )
    duplicates: Topic = Field(
        default="documents.duplicates",
        description="Topic of the duplicates with their evidence. "
        "Left out: <input.topic>.duplicates.",
    )
    dead_letter: Topic | None = Field(
        default="documents.dead-letter",
        description="Topic of records that cannot be read. Left out: <input.topic>.dead-letter. "
        "null: the first such record stops the process; none is ever dropped.",
    )
    mode: Literal["divert", "shadow"] = Field(
        default="divert",
        description="shadow: everything goes to the unique topic, duplicates annotated, "
        "so that people can watch before they trust.",
    )
    duplicates_mode: Literal["annotate", "envelope", "reference"] = Field(
        default="annotate",
        description="annotate: the original record plus headers; envelope: one JSON record with "
        "evidence and payload; reference: the envelope without the payload.",
    )

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
        """Return the topics of the dead letters."""
        return [each for each in self.topics.values() if each not in (self.unique, self.duplicates)]


def _number(value: object) -> object:
    """Return the number that the environment or the command line spells, or *value* itself."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class Shingle(Section):
    """How a text becomes a set."""

    kind: Literal["word", "char", "stopword"] = Field(
        default="word",
        description="word: runs of words; char: runs of characters (short or noisy text); "
        "stopword: a stop word and the words after it, which keeps the prose of a page and "
        "sheds adverts and navigation.",
    )
    size: int = Field(
        default=3,
        ge=1,
        le=32,
        description="Words or characters in one shingle. stopword: words after the stop word, "
        "2 where nothing is said.",
    )
    token_bytes: Annotated[Literal[4, 8], BeforeValidator(_number)] = Field(
        default=8,
        description="Bytes of a shingle's hash. With 4, two texts of a thousand shingles share "
        "one by chance once in 4,000 pairs.",
    )
    sample_modulus: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Keep only about one shingle in so many, the same ones in every text: for "
        "long texts; 16 is classic. A text that keeps none is a short one.",
    )
    languages: tuple[str, ...] = Field(
        default=("en",),
        min_length=1,
        description="Whose stop words count, with kind stopword: da, de, en, es, fr, it, nl, no, "
        "pt, ru, sv, tr.",
    )
    fallback_below: int = Field(
        default=4,
        ge=0,
        le=1_000,
        description="With kind stopword, a text with fewer stop-word shingles gets plain runs of "
        "as many words; one with more gets ever fewer of them.",
    )

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

    threshold: Ratio = Field(
        default=0.8, description="Jaccard similarity from which on two texts are the same story."
    )
    shingle: Shingle = Shingle()
    slots: int = Field(
        default=128,
        ge=1,
        le=1024,
        description="Signature slots: more find more surely and cost more.",
    )
    recall: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.99,
        description="Share of the pairs at the threshold that the bands must find; plans bands "
        "and rows.",
    )
    bands: int | None = Field(
        default=None, ge=1, le=255, description="Bands by hand. null: planned from recall."
    )
    rows: int | None = Field(
        default=None, ge=1, le=255, description="Slots per band by hand. null: planned from recall."
    )
    layout: Literal["bands", "random"] = Field(
        default="bands",
        description="bands: each band has slots of its own; random: each key is made of rows "
        "slots chosen at random, so that there may be more keys (125 x 3 of 128 slots).",
    )
    normalise: Normalise = Normalise()


class VerifySection(Section):
    """How a candidate is confirmed before a document is withheld for it."""

    method: Literal["exact", "signature", "sketch"] = Field(
        default="exact",
        description="exact: Jaccard on the stored token samples; signature: only the estimate, "
        "wrong for a quarter of the pairs close to the threshold; sketch: at least agree of the "
        "first of slots are equal.",
    )
    agree: int = Field(
        default=90,
        ge=1,
        le=1024,
        description="With method sketch: slots that must agree. 90 of 100 finds .583 of the pairs "
        "at .9, .0994 at .85 and .9885 at .95.",
    )
    of: int = Field(
        default=100, ge=1, le=1024, description="With method sketch: slots that are compared."
    )
    containment: Ratio | None = Field(
        default=None,
        description="Also a duplicate: this share of the one text's shingles is in the other, "
        "such as 0.9. Only what meets is compared, and the bands find by Jaccard: a text in one "
        "1.2 times its size meets with .85, in one twice its size with .10 (16 x 6). null: off.",
    )
    contained: Literal["shorter", "arriving"] = Field(
        default="shorter",
        description="shorter: the shorter text in the longer, whichever came first; arriving: "
        "only a text that is contained in an earlier one, so that nothing new is withheld.",
    )
    short_threshold: Ratio | None = Field(
        default=None,
        description="Threshold for the shortest texts, where one changed word moves similarity "
        "far; falls in a line to similarity.threshold at short_size. null: one for all.",
    )
    short_size: int = Field(
        default=32,
        ge=1,
        le=100_000,
        description="Shingles of the shorter text from which similarity.threshold holds.",
    )
    max_candidates: int = Field(
        default=8,
        ge=1,
        le=1_000,
        description="Candidates compared per document, those of the best estimates; bounds floods.",
    )


class IndexSection(Section):
    """The memory: a directory that can be rebuilt from the changelog."""

    path: Path = Field(
        default=Path("state"), description="Directory of this process's index; not shared."
    )
    scope: Literal["topic", "partition"] = Field(
        default="topic",
        description="topic: one index over all partitions, a second process stands by; "
        "partition: one index each, processes share them (the key is a deduplication scope).",
    )
    changelog: Topic | None = Field(
        default=None,
        description="Topic that the index is rebuilt from. null: <kafka.group>.changelog.",
    )
    standby: Literal["hot", "cold"] = Field(
        default="hot",
        description="What a process without a task does. hot: it tails every task's changelog into "
        "its own path, and takes over in seconds; cold: it restores when it takes over.",
    )
    bucket_cap: int = Field(
        default=8,
        ge=1,
        le=255,
        description="Documents listed per bucket; later ones are listed under longer keys.",
    )
    retention: Retention = Field(
        default=None,
        description="unlimited, or how long a document is remembered, such as 30d: by the records' "
        "timestamps, the latest of all input partitions. A backfill ages by them, and an input "
        "that rests does not; of several partitions, one that is read ahead ages what the others "
        "have still to meet. May change at any start; what was forgotten stays so, and what an "
        "index without a limit holds counts as come when it was given one.",
    )
    documents_max: int | None = Field(
        default=None,
        ge=1_000,  # a window begins with every quarter of it, which takes a tenth of a second
        le=(1 << 40) - 1,  # the ordinals of an index
        description="Of how many of the last judged documents those that were forwarded are "
        "remembered. Whichever of this and retention is reached first. null: any number.",
    )
    seed_file: Path | None = Field(
        default=None,
        description="File with the secret that keys the hashes. null: made at random, kept in the "
        "changelog and the state directory.",
    )


class AuditSection(Section):
    """Some arrivals are held against the whole index by brute force: `/metrics` has their recall.

    It is done in rounds, in the background. A round takes as long as it takes to read the index in
    this share of the time: at 2 % some seconds for ten thousand documents, half an hour for a
    million. At most 2,000 arrivals are held at a time, whatever comes: up to 16 MB.
    """

    arrivals: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.05, description="Share of the judged documents that are audited; 0: no audit."
    )
    time: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.02, description="Share of the engine's time that comparing them may take."
    )
