"""The configuration: typed sections, and what follows from several of them."""

from typing import Any

from msgspec.structs import replace
from pydantic import SecretStr, model_validator

from streamfilter.config.settings import process as process
from streamfilter.config.settings import sections as sections
from streamfilter.config.settings.input import InputSection
from streamfilter.config.settings.types import TOPIC, Section
from streamfilter.entities.kinds import keys_of
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.statistics.shape import Shape, jaccard_of_contained, plan


class Config(Section):
    """Everything an operator may want another value of."""

    input: InputSection = InputSection()
    output: sections.OutputSection = sections.OutputSection()
    similarity: sections.SimilaritySection = sections.SimilaritySection()
    verify: sections.VerifySection = sections.VerifySection()
    index: sections.IndexSection = sections.IndexSection()
    audit: sections.AuditSection = sections.AuditSection()
    kafka: process.KafkaSection = process.KafkaSection()
    http: process.HttpSection = process.HttpSection()
    otel: process.OtelSection = process.OtelSection()
    batch: process.BatchSection = process.BatchSection()
    cluster: process.ClusterSection = process.ClusterSection()
    limits: process.LimitsSection = process.LimitsSection()
    memory: process.MemorySection = process.MemorySection()
    log: process.LogSection = process.LogSection()

    @model_validator(mode="before")
    @classmethod
    def name_outputs_after_the_input(cls, data: Any) -> Any:
        """Fill in outputs that were left out: defaults must not point at another input's."""
        topic = (data.get("input") or {}).get("topic") if _has_maps(data) else None
        if not (isinstance(topic, str) and TOPIC.fullmatch(topic)):
            return data  # one mistake, one problem
        default = InputSection.model_fields["topic"].default + "."
        names = {
            name: f"{topic}.{field.default.removeprefix(default)}"
            for name, field in sections.OutputSection.model_fields.items()
            if str(field.default).startswith(default)
        }
        return {**data, "output": names | (data.get("output") or {})}

    @property
    def digests(self) -> tuple[str, ...]:
        """Return what is compared beside the text (`Scheme.digests`)."""
        scope = (f"scope {self.index.scope_field}",) if self.index.scope_field else ()
        agree = () if self.input.records else self.verify.agree_on
        named = {f"agree {each}" for each in agree} | {
            f"also {each}" for each in self.verify.also_same
        }
        return (*scope, *sorted(named))

    @property
    def finds_ids(self) -> bool:
        """Return whether an index must find documents by their ids or fields."""
        return self.input.finds_ids or bool(self.verify.also_same)

    @property
    def judges_empty(self) -> bool:
        """Return whether an empty text is a short document: it has an id or field to remember."""
        return self.input.known_id == "duplicate" or bool(self.verify.also_same)

    def scheme(self) -> Scheme:
        """Return what shapes the index; bands and rows planned where they are not given.

        Raises `ValueError` if no shape reaches the recall (`load_config` has checked that).
        """
        digests = self.digests
        if self.input.records:
            kinds = self.input.kinds
            named = dict(zip(self.input.fields, kinds, strict=True))
            return replace(Scheme.of_fields(named, keys=keys_of(kinds)), digests=digests)
        similarity = self.similarity
        bands, rows, slots = similarity.bands, similarity.rows, similarity.slots
        if bands is None and rows is None:
            shape = self.planned()
            bands, rows = shape.bands, shape.rows
        bands = bands or max(1, slots // (rows or 1))
        return Scheme(
            bands=bands,
            rows=rows or max(1, slots // bands),
            slots=slots,
            layout=similarity.layout,
            shingling=Shingling(**similarity.shingle.model_dump()),
            normalisation=similarity.normalise.normalisation,
            digests=digests,
        )

    def planned(self) -> Shape:
        """Return the shape that finds enough pairs at the threshold, and enough contained texts.

        Raises `ValueError`: there is none.
        """
        each, contained = self.similarity, self.contained_pairs
        return plan(each.threshold, slots=each.slots, recall=each.recall, layout=each.layout,
                    also=() if contained is None else (contained,))  # fmt: skip

    @property
    def contained_pairs(self) -> tuple[float, float] | None:
        """Return a similarity and the share of its pairs that containment needs found, if used."""
        verify = self.verify
        if verify.containment is None or self.input.records:
            return None
        return jaccard_of_contained(verify.containment), verify.containment_recall

    @property
    def changelog_topic(self) -> str:
        """Return the topic that the index is rebuilt from."""
        return self.index.changelog or f"{self.kafka.group}.changelog"

    @property
    def sketches_topic(self) -> str:
        """Return the topic in which edges give their sketches to the judge."""
        return sketches_of(self.kafka.group)

    @property
    def verdicts_topic(self) -> str:
        """Return the topic in which the judge gives its verdicts to the edges."""
        return verdicts_of(self.kafka.group)

    @property
    def edge_group(self) -> str:
        return edges_of(self.kafka.group)

    @property
    def cluster_topics(self) -> dict[str, str]:
        """Return the topics between edges and judge, by what messages call them."""
        if not self.cluster.enabled:
            return {}
        names = {"sketches": self.sketches_topic, "verdicts": self.verdicts_topic}
        return {f"cluster ({name})": topic for name, topic in names.items()}

    @property
    def made_topics(self) -> frozenset[str]:
        """Return the topics that `run` creates where they are missing."""
        return frozenset({self.changelog_topic, *self.cluster_topics.values()})

    @property
    def topics(self) -> dict[str, str]:
        """Return all topics of ours by the settings that name them."""
        ours = self.output.topics
        topic = {"input.topic": self.input.topic}
        if self.input.topics:
            topic = {f"input.topics ({name})": name for name in self.input.exact}
        return {**topic, **ours, "index.changelog": self.changelog_topic, **self.cluster_topics}

    def masked(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, secrets as asterisks: fit for printing."""
        return self.model_dump(mode="json")

    def secrets(self) -> frozenset[str]:
        """Return the secret values in plain, for the log's filter and for nothing else."""
        maps = (self.kafka.common, self.kafka.consumer, self.kafka.producer)
        registry = self.input.registry
        values = [value for each in maps for value in each.values()]
        values += [each for each in registry.secrets if each is not None]
        return frozenset(v.get_secret_value() for v in values if isinstance(v, SecretStr))


def sketches_of(group: str) -> str:
    """Return the topic in which the edges of a *group* give their sketches to its judge."""
    return f"{group}.sketches"


def verdicts_of(group: str) -> str:
    """Return the topic in which the judge of a *group* gives its verdicts to the edges."""
    return f"{group}.verdicts"


def edges_of(group: str) -> str:
    """Return the group of the edges around the judge of a *group*."""
    return f"{group}.edge"


def _has_maps(data: Any) -> bool:
    parts = (data.get("input"), data.get("output")) if isinstance(data, dict) else (0,)
    return all(part is None or isinstance(part, dict) for part in parts)
