"""How a report of `evaluate` is printed: a table for a person, JSON for a program."""

from __future__ import annotations

from typing import Any

from streamfilter.process.visible import inline
from streamfilter.quality.report import Example, Report, Tally


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values; a share of nothing is null."""
    return {
        "sound": report.sound,
        "records": report.given,
        "verdicts": dict(sorted(report.verdicts.items())),
        "missing": report.missing,
        "extra": report.extra,
        "self_matches": report.self_matches,
        "later_matches": report.later_matches,
        "unkept_matches": report.unkept_matches,
        "recall": _tally_as_json(report.recalled, "found"),
        "precision": _tally_as_json(report.precise, "right"),
        "ambiguous_ids": report.ambiguous,
        "unknown_ids": report.unknown,
        "buckets": [
            {"from": tenth / 10, "documents": documents, "withheld": withheld}
            for tenth, (documents, withheld) in sorted(report.buckets.items())
        ],
        "examples": [
            {"kind": each.kind, "id": each.id, "other": each.other,
             "similarity": each.similarity, "claimed": each.claimed}
            for each in report.examples
        ],
    }  # fmt: skip


def as_text(report: Report, *, recall_from: float, precision_from: float) -> str:
    """Return the report as lines for a terminal."""
    lines = [
        f"conservation   {_conservation(report)}",
        f"matches        {_soundness(report)}",
        f"recall         {share_as_text(report.recalled)}  ({_count(report.recalled)} "
        f"whose best earlier kept one has J >= {recall_from:g})",
        f"precision      {share_as_text(report.precise)}  ({_count(report.precise)} "
        f"that were withheld, whose match has J >= {precision_from:g})",
        "verdicts       "
        + ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(report.verdicts.items())),
    ]
    if report.ambiguous:
        lines.append(f"not judged     {report.ambiguous:,} documents share an id with another")
    if report.unknown:
        lines.append(f"not given      {report.unknown:,} ids of the truth")
    lines += ["", "best earlier kept   documents   withheld   share"]
    for tenth, (documents, withheld) in sorted(report.buckets.items()):
        label = f"{tenth / 10:.1f} to {tenth / 10 + 0.1:.1f}" if tenth < 10 else "1.0"
        lines.append(f"{label:<17}{documents:>12,}{withheld:>11,}{withheld / documents:>8.1%}")
    if report.examples:
        lines += ["", "errors (some)", *map(_example, report.examples)]
    return "\n".join(lines)


def _conservation(report: Report) -> str:
    if not report.missing + report.extra:
        return f"ok  ({report.given:,} records, each in exactly one place)"
    return f"BROKEN  ({report.missing:,} lost, {report.extra:,} too many, of {report.given:,})"


def _soundness(report: Report) -> str:
    wrong = report.self_matches + report.later_matches + report.unkept_matches
    if not wrong:
        return "ok  (none with itself, a later document, or one that was withheld)"
    return (
        f"BROKEN  ({report.self_matches:,} with itself, {report.later_matches:,} with a later "
        f"document, {report.unkept_matches:,} with one that was not kept)"
    )


def _tally_as_json(tally: Tally, good: str) -> dict[str, Any]:
    share, (many, of) = tally.share, tally.counts
    return {
        "share": share.value if share else None,
        "interval": [share.lower, share.upper] if share else None,
        "of": of,
        good: many,
        "families": len(tally.of),
    }


def share_as_text(tally: Tally) -> str:
    """Return the share with its 95 % interval; a dash if there is nothing to share."""
    share = tally.share
    if share is None:
        return "  –   "
    return f"{share.value:.4f}, 95 % interval {share.lower:.4f} to {share.upper:.4f}"


def _count(tally: Tally) -> str:
    many, of = tally.counts
    return f"{many:,} of {of:,} documents in {len(tally.of):,} families"


def _example(example: Example) -> str:
    true = "below the truth's floor" if example.similarity is None else f"{example.similarity:.3f}"
    claimed = "" if example.claimed is None else f", claimed {example.claimed:.3f}"
    two = f"{inline(example.id)}  with {inline(example.other)}"
    return f"  {example.kind:<8} {two}  (J {true}{claimed})"
