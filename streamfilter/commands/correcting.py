"""What `release` and `replay` share: their options, what they show, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from streamfilter.commands import options
from streamfilter.commands.options import added, progress
from streamfilter.config.configuration import Config
from streamfilter.matching.verdict.side_records import CorrectionCounts, SideRecord
from streamfilter.model import Record
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import ExitCode, Stop, counted

if TYPE_CHECKING:
    from streamfilter.kafka.corrections import MakeVerb

View = Callable[[SideRecord, Record], tuple[str, dict[str, Any]]]
"""Returns more about a record and its original: for people, and fields for programs."""

SHOWN = 20  # most records that are shown one by one
SOME_STAY = 1  # exit code

correction_options = added(
    options.config_options,
    options.since_option,
    click.option("--yes", is_flag=True, help="Send them. Without it, nothing is written."),
    click.option("--dry-run", is_flag=True, help="The same as no --yes."),
    options.output_option,
)  # fmt: skip


class Corrected(Struct):
    """The answer of a correction of one topic."""

    done: str  # ``released`` or ``replayed``
    topic: str
    written: bool
    tally: CorrectionCounts
    records: list[dict[str, Any]]
    views: list[str]  # of the same records, for people

    def as_json(self) -> dict[str, Any]:
        tally = self.tally
        total = tally.noted + (tally.sent.total() if self.written else 0)
        return {
            "topic": self.topic,
            "written": self.written,
            "sent": dict(tally.sent),
            "stays": dict(tally.stays),
            "before": tally.before,
            f"{self.done}_total": total,
            "foreign": tally.foreign,
            "records": self.records,
        }

    def as_text(self) -> str:
        answer, tally = self.as_json(), self.tally
        would = "" if self.written else "would be "
        lines = [f"{n:,} {inline(label)}: {would}{self.done}" for label, n in tally.sent.items()]
        lines += [f"{n:,} {inline(why)}; stays" for why, n in tally.stays.items()]
        if tally.before:
            lines.append(f"{counted(tally.before, 'record')}: {self.done} before, and not again")
        if tally.foreign:
            said = "from another filter, or none: left alone"
            lines.append(f"{counted(tally.foreign, 'record')} of {self.topic} {said}")
        lines.append(f"{self.done}_total of {self.topic}: {answer[f'{self.done}_total']:,}")
        return "\n".join([*self.views, *lines])


def corrected(
    config: Config,
    topic: str,
    verb: MakeVerb,
    done: str,
    given: dict[str, Any],
    view: View | None = None,
) -> int:
    """Send what the *verb* chooses of *topic*, or show it, and answer; return the exit code.

    A preview shows the *view* of each record, too.
    """
    from streamfilter.kafka.corrections import correct

    if given["yes"] and given["dry_run"]:
        raise click.UsageError("give --yes or --dry-run, not both")
    write, since = given["yes"], given["since"]
    records: list[dict[str, Any]] = []
    views: list[str] = []

    def seen(side: SideRecord, original: Record | None, out: object) -> None:
        if len(records) < SHOWN:
            records.append(_shown(side, out))
            views.append(_line(side, out))
            if view is not None and original is not None and not write:
                text, more = view(side, original)
                records[-1] |= more
                views.append(text)

    with INTERRUPTION.listening():
        tally = correct(config, topic, verb, since=since, write=write, seen=seen, shown=progress)
    if not (tally.sent or tally.stays or tally.before):
        raise _nothing(topic, since, done)
    options.answer(Corrected(done, topic, write, tally, records, views), given["output"])
    if not write:
        standard.say("nothing was written; --yes does it")
    return SOME_STAY if tally.stays else ExitCode.OK


def _shown(side: SideRecord, out: object) -> dict[str, Any]:
    shown: dict[str, Any] = {"source": side.source.place, "stands_at": side.record.source.place}
    if side.evidence is not None:
        match = side.evidence.matches[0] if side.evidence.matches else None
        shown |= {"id": side.evidence.id, "verdict": side.evidence.verdict.value}
        shown |= {"match_id": match and match.id, "similarity": match and match.similarity}
    else:
        shown |= {"code": side.code, "attempts": side.attempts}
    return shown | {"stays": out if isinstance(out, str) else None}


def _line(side: SideRecord, out: object) -> str:
    if side.evidence is None:
        what = f"{side.code}, sent back {counted(side.attempts, 'time')} before"
    else:
        likeness = f" of {side.evidence.matches[0].id}" if side.evidence.matches else ""
        what = f"{side.evidence.id}, {side.evidence.verdict.value}{likeness}"
    stays = f"; stays: {out}" if isinstance(out, str) else ""
    return inline(f"{side.source}: {what}{stays}")


def _nothing(topic: str, since: datetime | None, done: str) -> Stop:
    later = "" if since is None else f" from {since.isoformat(timespec='seconds')} on"
    look = "; `streamfilter explain --id ID` shows what it has" if done == "released" else ""
    return Stop(
        f"{topic} has no such record{later}\n    cure: choose others{look}. A record that is not "
        "judged yet comes later",
        exit_code=ExitCode.USAGE,
    )
