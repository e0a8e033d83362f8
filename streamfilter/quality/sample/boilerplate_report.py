"""What `streamfilter boilerplate` found, for a person and for a program."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, to_builtins

from streamfilter.process.terminal_escapes import inline
from streamfilter.quality.sample.boilerplate import OWN, Boilerplate, CommonPassage
from streamfilter.similarity.text.boilerplate import FEW, SHINGLES_MAX
from streamfilter.stops import counted

PASSAGES = 12  # passages that are shown
SHOWN_CHARACTERS = 100
MOST = 0.5  # share of the documents above which a warning is given


class BoilerplateReport(Struct, frozen=True):
    """A table of boilerplate, and what it changes."""

    found: Boilerplate
    broken: int  # records that could not be read

    def as_json(self) -> dict[str, Any]:
        found, table = self.found, self.found.table
        return {
            "documents": found.given,
            "broken": self.broken,
            "different": table.sample.documents,
            "not_counted": found.alike,
            "shingles": len(table),
            "least_documents": table.sample.least,
            "count_error": table.sample.error,
            "left_out": found.left_out,
            "dropped_share": found.dropped,
            "documents_left": dict(zip(("all", "enough", "few"), table.sample.left, strict=True)),
            "pairs": to_builtins(found.effect),
            "passages": [to_builtins(each) for each in found.passages[:PASSAGES]],
            "digest": table.digest,
            "warnings": [*self._warnings()],
        }

    def as_text(self) -> str:
        found, sample, effect = self.found, self.found.table.sample, self.found.effect
        broken = f"; {counted(self.broken, 'record')} not readable" if self.broken else ""
        everything, enough, few = sample.left
        lines = [
            f"sample       {counted(found.given, 'document')}, {sample.documents:,} with different "
            f"texts{broken}",
            f"             {found.alike:,} did not count: they have fewer than {OWN} shingles of "
            "their own",
            f"table        {counted(len(found.table), 'shingle')}, each in {sample.least:,} "
            f"documents or more; {found.dropped:.1%} of all shingles are dropped",
            f"documents    {everything:,} keep all shingles, {enough:,} keep enough, {few:,} keep "
            f"fewer than {FEW} or none",
            f"pairs        {effect.before:,} from {effect.threshold:g} on without the table, "
            f"{effect.after:,} with it, {effect.both:,} in both; among the first "
            f"{counted(effect.documents, 'document')}",
        ]
        if found.passages:
            lines += ["", "share    shingles  passage", *map(_line, found.passages[:PASSAGES])]
        return "\n".join([*lines, *(f"\nwarning: {each}" for each in self._warnings())])

    def _warnings(self) -> Iterator[str]:
        found, sample = self.found, self.found.table.sample
        if found.left_out:
            yield (
                f"{counted(found.left_out, 'shingle')} did not fit in the table of "
                f"{SHINGLES_MAX:,}; raise --share or --at-least"
            )
        if sample.error:
            yield (
                f"counts may be too low by {counted(sample.error, 'document')}: shingles in fewer "
                f"than {sample.least + sample.error:,} may be missing; lower --limit"
            )
        if sample.shares[-1] > MOST:
            yield (
                f"the table leaves {sample.shares[-1]:.0%} of the documents fewer than {FEW} "
                "shingles; raise --share or --at-least, or take a larger sample"
            )
        if found.alike > MOST * max(sample.documents, 1):
            yield (
                f"most documents have fewer than {OWN} shingles of their own and did not count: "
                "the sample is too much of one kind, or its texts are too short"
            )


def _line(each: CommonPassage) -> str:
    shown = inline(each.text)
    cut = shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 1] + "…"
    return f"{each.share:6.1%}  {each.shingles:>8,}  {cut}"
