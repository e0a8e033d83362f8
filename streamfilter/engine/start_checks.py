"""Step 4: checks that the group's offsets, the changelog and the index fit together.

| committed offsets | changelog     | what it means                                           |
|-------------------|---------------|---------------------------------------------------------|
| none              | empty         | fresh: the first transaction opens the changelog        |
| some              | empty         | the changelog is lost: stop                             |
| none              | not empty     | offsets expired or deleted: the changelog's positions   |
| behind it         | not empty     | an operator rewound the group: read again from there    |
| ahead of it       | not empty     | skipped, or the changelog lost its end: stop            |

These are pure decisions. Every refusal names the ways out. With `--accept-positions` the operator
confirms that the positions are right.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import Watermarks
from streamfilter.index.input_table import Spot
from streamfilter.index.progress import Progress
from streamfilter.model import Positions
from streamfilter.stops import ExitCode, Stop

T = TypeVar("T")
K = TypeVar("K")


class Names(Struct, frozen=True):
    """The names that the messages use."""

    group: str
    topic: str
    changelog: str  # topic and partition, ``name/0``
    where: str  # the index's directory
    inputs: Inputs = field(default_factory=lambda: Inputs(""))  # the numbers of several topics

    def named(self, by_number: Mapping[int, T]) -> Mapping[Any, T]:
        """Return positions as messages spell them: of several topics, by ``topic/partition``."""
        return self.places(by_number) if self.inputs.several else dict(by_number)

    def places(self, by_number: Mapping[int, T]) -> dict[str, T]:
        """Return positions by ``topic/partition``."""
        return {"/".join(map(str, self.spot(n))): each for n, each in by_number.items()}

    def spot(self, number: int) -> Spot:
        return self.inputs.spot(number) if self.inputs.several else (self.topic, number)

    @property
    def without(self) -> tuple[str, ...]:
        """Return the way out that several topics have if one of them was recreated."""
        if not self.inputs.several:
            return ()
        return (
            "go on with the other topics: leave this one out of input.topics, or delete it again "
            "if it fits a *; its new records can come under another name",
        )


class Refusal(Stop):
    """Going on would lose or misjudge records; a person must choose a way out."""

    def __init__(self, what: str, *ways: str) -> None:
        super().__init__(f"{what}.\n    ways out: {'; or '.join(ways)}", exit_code=ExitCode.CONFIG)


BEGIN_ANEW = "begin anew (`streamfilter reset`)"
_DIRECTORY_OR_CHANGELOG = (
    "if the changelog is right, remove the directory, and it is restored",
    "if the directory is right, bring the changelog back from a backup",
)
_NO_CHANGELOG = (
    "set kafka.group and index.changelog as they were",
    "to go on under another kafka.group, set input.take_over to the old one, and index.path to a "
    "new directory",
    "bring the changelog back from a backup",
    BEGIN_ANEW,
)


class Beginning(Struct, frozen=True):
    """The positions at which a task goes on."""

    positions: Positions
    known: Positions
    loudly: list[str] = field(default_factory=list)  # warnings for the operator


def refuse_lost_changelog(names: Names, committed: Positions) -> None:
    """Stop if the group has committed offsets and the changelog is empty."""
    if committed:
        raise Refusal(
            f"the group {names.group} has committed offsets of {names.topic}, but the changelog "
            f"{names.changelog} is empty or missing: the index cannot be trusted or rebuilt",
            "bring the changelog topic back from a backup",
            "begin anew, and everything counts as new: stop every process of the group, and run "
            "`streamfilter reset --yes`",
            "name a new kafka.group",
        )


def refuse_future(names: Names, progress: Progress, bounds: Watermarks, *, empty: bool) -> None:
    """Stop if the index has applied a record that the changelog does not hold.

    From an *empty* changelog the index could not be restored.
    """
    offset = progress.changelog_offset
    if offset >= bounds.end or (empty and offset >= 0):
        renamed = "kafka.group or index.changelog was changed, " if empty else ""
        raise Refusal(
            f"the index in {names.where} has applied {names.changelog} up to offset {offset}, "
            f"which ends at {bounds.end}: {renamed}the changelog was truncated or recreated, or "
            "the directory comes from elsewhere",
            *(_NO_CHANGELOG if empty else _DIRECTORY_OR_CHANGELOG),
        )


def refuse_lost_beginning(names: Names, start: int) -> Refusal:
    return Refusal(
        f"{names.changelog} begins at {start}: its first records were deleted, and the index in "
        f"{names.where} does not contain what they held",
        "start the process whose directory is whole (the last owner's), or bring its directory, "
        "or a backup of it, here: `streamfilter run --rewrite-changelog` then writes the changelog "
        "again",
        BEGIN_ANEW,
    )


def is_behind_start(progress: Progress, bounds: Watermarks) -> bool:
    """Return True if the changelog does not hold the next record that the index needs."""
    return 0 <= progress.changelog_offset < bounds.start - 1


def refuse_foreign(names: Names) -> Refusal:
    return Refusal(
        f"the index in {names.where} belongs to another changelog than {names.changelog}: its "
        "index id differs",
        "name the right directory (index.path) or changelog (index.changelog)",
        "remove the directory, and it is restored from this changelog",
    )


def refuse_other_group(names: Names, group: str) -> Refusal:
    return Refusal(
        f"the changelog {names.changelog} belongs to the group {group!r}, and kafka.group is "
        f"{names.group!r}: of two groups that write one changelog neither index could be trusted "
        "or restored",
        "give this group a changelog (index.changelog) and a directory (index.path) of its own",
        f"if the group was only renamed, name it {group!r} again",
    )


def refuse_other_writer(names: Names, offset: int) -> Refusal:
    return Refusal(
        f"{names.changelog} at offset {offset} holds a record that no process of the group "
        f"{names.group!r} wrote: another program writes this changelog, so judging stopped",
        "look for another kafka.group with the same index.changelog, give it one of its own, and "
        "restart",
        "if the group was only renamed, give it its old name",
        "if an older version of streamfilter ran in between, keep the directory of the last owner",
        "if this changelog can then not be restored, bring the topic back from a backup, or name "
        "a new kafka.group to begin anew",
    )


def refuse_other_record(names: Names, offset: int) -> Refusal:
    return Refusal(
        f"{names.changelog} at offset {offset} holds another record than the one that the index "
        f"in {names.where} has applied: the changelog was recreated, or the directory comes "
        "from elsewhere",
        *_DIRECTORY_OR_CHANGELOG,
    )


def refuse_broken(names: Names, offset: int, why: str) -> Refusal:
    return Refusal(
        f"{names.changelog} at offset {offset}: {why}",
        "run the version of streamfilter that wrote it",
        "bring the topic back from a backup",
        "name a new kafka.group to begin anew",
    )


def reconcile(
    names: Names,
    committed: Positions,
    known: Positions,
    partitions: Sequence[int],
    *,
    accept: bool,
    begin: Positions | None = None,
) -> Beginning:
    """Return where to go on, given the group's offsets and the changelog's positions.

    *begin* has the first offsets of topics that were added; further partitions begin at 0. Raises
    `Refusal`: they contradict each other, and the operator did not accept them.
    """
    loudly: list[str] = []
    known = _with_new_partitions(
        names, known, committed, dict.fromkeys(partitions, 0) | dict(begin or {}), accept, loudly
    )
    if not committed:
        loudly.append(
            f"the group {names.group} has no committed offsets of {names.topic} (expired or "
            f"deleted); going on at the changelog's positions {names.named(known)}"
        )
        return Beginning(dict(known), known, loudly)
    positions = known | {p: offset for p, offset in committed.items() if p in known}
    if behind := {p: o for p, o in positions.items() if o < known[p]}:
        loudly.append(
            f"the group {names.group} was rewound on {names.topic}: reading again from "
            f"{names.named(behind)} up to {names.named(known)}. What was judged gets the verdict "
            "it had; what never was (before the group's first start, or passed over with "
            "--accept-positions) has no matches: it is forwarded as unique, and not remembered"
        )
    if ahead := {p: o for p, o in positions.items() if o > known[p]}:
        if not accept:
            raise Refusal(
                f"the group {names.group} is ahead of its changelog on {names.topic}: committed "
                f"{names.named(ahead)}, judged up to {names.named(known)}. The group's "
                "offsets were moved, or the changelog lost its end (unclean leader election)",
                "rewind the group to the changelog's positions with kafka-consumer-groups.sh "
                "--reset-offsets",
                "go on from the committed offsets with `streamfilter run --accept-positions`: "
                "what lies between is not judged",
            )
        loudly.append(f"going on at the committed offsets {names.named(ahead)}, as accepted")
        known = known | ahead
    return Beginning(positions, known, loudly)


def refuse_rewind(names: Names, begin: Beginning) -> None:
    """Stop if a judge's group was rewound: it has no records to read again."""
    behind = {p: o for p, o in begin.positions.items() if o < begin.known[p]}
    if behind:
        raise Refusal(
            f"the group {names.group} was rewound on {names.topic} to {names.named(behind)}, and a "
            "judge cannot read records again",
            f"set its offsets to {names.named({p: begin.known[p] for p in behind})} with "
            f"kafka-consumer-groups.sh --group {names.group} --reset-offsets; to forward records "
            f"again, rewind the group {names.group}.edge on {names.group}.verdicts",
        )


def refuse_succeeded(names: Names, successor: str) -> Refusal:
    return Refusal(
        f"the group {successor!r} took over the input of the group {names.group!r}: the changelog "
        f"{names.changelog} ends with its name, and each record is judged by one of the two",
        f"start the processes of {successor!r}, with its configuration",
        f"to go back, stop all processes of {successor!r}, and run `streamfilter run --take-over "
        f"{successor}` with this configuration",
        BEGIN_ANEW,
    )


def refuse_judged(names: Names, predecessor: str) -> Refusal:
    return Refusal(
        f"the group {names.group!r} has judged records of {names.topic} already: it cannot take "
        f"over {predecessor!r}, which judges them, too",
        f"stop {names.group!r}, `streamfilter reset --yes` with its configuration, fill its index "
        "(`streamfilter seed`), and then start it again",
        "remove input.take_over, if the two groups are to work side by side",
    )


def owed_by_edges(
    judged: Mapping[K, int], forwarded: Mapping[K, int], by_judge: Collection[K]
) -> dict[K, int]:
    """Return up to where edges have forwarded, where a judge has *judged* more.

    *by_judge*: the partitions whose offsets a judge has committed last, and no single process. A
    process has forwarded what it judged.
    """
    return {p: at for p, at in forwarded.items() if p in by_judge and at < judged[p]}


def refuse_owed(names: Names, owed: Positions) -> Refusal:
    return Refusal(
        f"edges of the group {names.group} have forwarded {names.topic} up to "
        f"{names.named(owed)} only, and more was judged: those records would be lost",
        "set cluster.enabled: true, let an edge forward them, and stop it then",
        f"delete the topic {names.group}.verdicts, and what it holds is not forwarded",
    )


def _with_new_partitions(
    names: Names,
    known: Positions,
    committed: Positions,
    begin: Positions,
    accept: bool,
    loudly: list[str],
) -> Positions:
    """Return *known* for exactly the partitions of *begin*, where added partitions begin."""
    if gone := sorted(known.keys() - begin.keys()):
        raise Refusal(
            f"the changelog {names.changelog} speaks of partitions {gone} of {names.topic}, which "
            "do not belong to this task: index.scope was changed, or the topic was recreated",
            "set index.scope as it was",
            "bring the topic back",
            BEGIN_ANEW,
        )
    added = sorted(begin.keys() - known.keys())
    judged = {p: committed[p] for p in added if committed.get(p, 0) > 0}
    if judged and not accept:
        # A transaction that commits a position also writes it to the changelog.
        raise Refusal(
            f"the group {names.group} has committed offsets of {names.topic} for partitions "
            f"{names.named(judged)} that the changelog {names.changelog} does not know: "
            "index.scope was changed, or the changelog lost its end (unclean leader election)",
            "set index.scope as it was",
            BEGIN_ANEW,
            "go on from the committed offsets with `streamfilter run --accept-positions`: what "
            "lies before them is not judged",
        )
    if added:
        new = {p: begin[p] for p in added}
        spelled = [*names.named(new)]
        loudly.append(
            f"{names.topic} has new partitions {spelled}: they are read from their beginning"
        )
        known = known | new
    return known


def refuse_other_input(names: Names, remembered: str, present: str, *, accept: bool) -> list[str]:
    """Return warnings; raise `Refusal` if the positions belong to a topic's predecessor."""
    if not remembered or not present or remembered == present:
        return []
    renamed = "" if names.inputs.several else ", or input.topic was changed"
    what = (
        f"{names.topic} was recreated since the group {names.group} last committed{renamed} (its "
        f"topic id was {remembered}, and is {present})"
    )
    if accept:
        return [f"{what}; going on at the old positions, as accepted"]
    raise Refusal(
        f"{what}: the positions and the index speak of records that are no longer there",
        *(names.without or ("if it was changed, set it back, or list both in input.topics",)),
        BEGIN_ANEW,
        "continue with `streamfilter run --accept-positions`, if the same records are back at the "
        "same offsets, or those before the old positions need no verdict",
    )


def refuse_unnumbered(names: Names, committed: Sequence[str]) -> Refusal:
    read = f"offsets of {', '.join(committed)}" if committed else "no offsets of these topics"
    return Refusal(
        f"the changelog {names.changelog} was begun with one input topic, which it does not name, "
        f"and the group {names.group} has {read}: its numbers belong to one of {names.topic}",
        "start once more with input.topic, stop, and then set input.topics to a list with that "
        "topic; the group must have committed offsets of that topic only",
        BEGIN_ANEW,
    )


def refuse_shrunk(names: Names, topic: str, partitions: int) -> Refusal:
    return Refusal(
        f"the changelog {names.changelog} speaks of {partitions} partitions of {topic}, which has "
        "fewer now: it was recreated",
        "bring the topic back",
        "leave it out of input.topics: its numbers stay reserved",
        BEGIN_ANEW,
    )


def refuse_numbered(names: Names, topics: Sequence[str]) -> Refusal:
    return Refusal(
        f"the changelog {names.changelog} numbers the partitions of {', '.join(topics)}, and "
        "input.topic names one topic",
        f"set input.topics: [{names.topic}] instead; the numbers of the others stay reserved",
        BEGIN_ANEW,
    )


def refuse_lost_input(
    names: Names, positions: Positions, earliest: Positions, latest: Positions, *, accept: bool
) -> Positions:
    """Return *positions* if the input holds them, or moved if accepted, or raise `Refusal`."""
    if short := {p: (o, latest[p]) for p, o in positions.items() if o > latest[p]}:
        raise Refusal(
            f"{names.topic} ends before the positions that were judged (partition: position, "
            f"end): {names.named(short)}. The topic was recreated or truncated, and the index "
            "speaks of records that are no longer there",
            "bring the topic back",
            *names.without,
            BEGIN_ANEW,
        )
    lost = {p: (o, earliest[p]) for p, o in positions.items() if o < earliest[p]}
    if lost and not accept:
        raise Refusal(
            f"retention passed us on {names.topic} (partition: position, first offset left): "
            f"{names.named(lost)}. What was deleted there was never judged. It was records, or "
            "only the markers and aborted records of transactions; this cannot be known any more",
            "bring the records back",
            "go on without them: `streamfilter run --accept-positions`",
        )
    return positions | {p: earliest[p] for p in lost}
