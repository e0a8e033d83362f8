"""The demo's board: a table that is redrawn in place on a terminal, plain lines elsewhere."""

import os
import shutil
import sys
import textwrap

import click

from streamfilter.demo.ledger import Ledger, OutputRecord
from streamfilter.demo.running import DemoRun
from streamfilter.model import DUPLICATES, Verdict
from streamfilter.process import standard

INDENT = "    "


def is_live() -> bool:
    """Return whether the output is a terminal that can be drawn on."""
    return sys.stdout is not None and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Return the columns and rows that may be written without a line that wraps or scrolls."""
    terminal = shutil.get_terminal_size()
    return terminal.columns - 1, terminal.lines - 1


def fitted(text: str) -> str:
    """Return *text* with lines wrapped at the width of the terminal."""
    return "\n".join(fitted_lines(text)) if is_live() else text


def fitted_lines(text: str) -> list[str]:
    """Return the lines of *text*, none of them longer than the terminal."""
    width = size()[0]
    return [
        part
        for line in text.splitlines()
        for part in (textwrap.wrap(line, width, subsequent_indent=INDENT) if line else [""])
    ]


def coloured(text: str, colour: str | None) -> str:
    """Return *text* in *colour*, unless NO_COLOR is set (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


REDRAW_SECONDS = 0.25
LINE_SECONDS = 5.0  # between two plain lines
VERDICTS_SHOWN = 10
COLOURS = {
    Verdict.UNIQUE: "green",
    Verdict.NEAR_DUPLICATE: "yellow",
    Verdict.EXACT_DUPLICATE: "cyan",
    Verdict.REJECTED: "red",
}


class Board:
    """Shows the progress of a run."""

    def __init__(self, demo: DemoRun) -> None:
        self._run = demo
        self._live = is_live()
        self._next = 0.0
        self._drawn = 0
        self._said = ""

    def show(self, elapsed: float) -> None:
        """Draw, unless it was drawn a moment ago."""
        if self._run.note != self._said and not self._live:
            self._said = self._run.note
            standard.answer(f"  {elapsed:4.0f} s  {self._said}")
        if elapsed < self._next:
            return
        self._next = elapsed + (REDRAW_SECONDS if self._live else LINE_SECONDS)
        if self._live:
            self._redraw(elapsed)
        else:
            standard.answer(f"  {elapsed:4.0f} s  {counts(self._run.ledger)}")

    def last(self) -> None:
        """Draw the final state; without a terminal only the summary shows it."""
        if self._live:
            self._redraw(self._run.plan.seconds)

    def _redraw(self, elapsed: float) -> None:
        width, height = size()
        seconds = self._run.plan.seconds
        head = [
            f"{min(elapsed, seconds):4.0f} of {seconds:.0f} s   {self._run.url}/metrics",
            counts(self._run.ledger),
            self._run.note,
            "",
        ]
        lines = [line for each in head for line in (fitted_lines(each) or [""])]
        latest = self._latest()[-max(0, height - len(lines)) :]
        lines = [*lines, *(_row(outcome, width) for outcome in latest)][:height]
        back = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        sys.stdout.write(back + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self._drawn = len(lines)

    def _latest(self) -> list[OutputRecord]:
        """Return the latest verdicts, unique ones only if there are not enough others."""
        recent = self._run.ledger.outcomes[-40:]
        worth = [outcome for outcome in recent if outcome.verdict is not Verdict.UNIQUE]
        return (worth or recent)[-VERDICTS_SHOWN:]


def counts(ledger: Ledger) -> str:
    """Return one line with the number of records in each place."""
    verdicts = ledger.verdicts
    return (
        f"in {len(ledger.sent):,} = unique {verdicts[Verdict.UNIQUE]:,}"
        f" + near duplicates {verdicts[Verdict.NEAR_DUPLICATE]:,}"
        f" + exact duplicates {verdicts[Verdict.EXACT_DUPLICATE]:,}"
        f" + dead letters {verdicts[Verdict.REJECTED]:,}"
        f" + under way {ledger.under_way:,}"
    )


def _row(outcome: OutputRecord, width: int) -> str:
    """Return one verdict, cut to *width*; colours take no room."""
    verdict = outcome.verdict.value
    text = f"{outcome.document_id:13} "
    rest = ""
    if outcome.verdict in DUPLICATES and outcome.matches:
        best = outcome.matches[0]
        rest = f" of {best['id']}  similarity {best['similarity']:.3f}"
        rest += f"  {best['bands']} bands shared" if best["bands"] else ""
    padded = f"{verdict:16}"
    shown = coloured(padded, COLOURS.get(outcome.verdict))
    return text + shown + rest[: max(0, width - len(text) - len(padded))]
