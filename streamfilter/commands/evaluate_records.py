"""How `evaluate` prints what brute force found among records."""

from __future__ import annotations

from typing import Any

from streamfilter.process.visible import inline
from streamfilter.quality.record_sample import RecordSample


def records_as_json(sample: RecordSample) -> dict[str, Any]:
    """Return the findings as JSON values."""
    valid, why_not = (None, sample.valid) if isinstance(sample.valid, str) else (sample.valid, None)
    return {
        "documents": sample.records,
        "threshold": sample.threshold,
        "similar_pairs": sample.similar,
        "false_negatives": sample.similar - sample.found,
        "false_positives": sample.false_candidates,
        "missed": [
            {"id": each.id, "other": each.other, "similarity": each.similarity}
            for each in sample.missed
        ],
        "held_out": {
            "pools": {
                name: {"pairs": pool.pairs, "mean": pool.mean if pool.pairs else None}
                for name, pool in sample.held_out.pools.items()
            },
            "valid_share": valid.value if valid else None,
            "interval": [valid.lower, valid.upper] if valid else None,
            "not_known": why_not,
        },
    }


def records_as_text(sample: RecordSample) -> str:
    """Return the findings as lines for a terminal."""
    lines = [
        f"fields         {sample.found:,} of {sample.similar:,} pairs that score from "
        f"{sample.threshold:g} on agree in a field; {sample.similar - sample.found:,} do not and "
        "never meet",
        f"               {sample.false_candidates:,} pairs agree in a field and score too low",
        f"held out       {_validation(sample)}",
    ]
    pools = sample.held_out.pools.items()
    lines += [f"               {name}: mean difference {pool.mean:.2f} of {pool.pairs:,} pairs"
              for name, pool in pools if pool.pairs]  # fmt: skip
    if sample.missed:
        lines += ["", "pairs that never met (the most similar)"]
        lines += [f"  {inline(each.id)}  and  {inline(each.other)}  (score {each.similarity:.3f})"
                  for each in sample.missed]  # fmt: skip
    return "\n".join(lines)


def _validation(sample: RecordSample) -> str:
    if isinstance(sample.valid, str):
        return f"not known: {sample.valid} (input.held_out names the field; --sample takes more)"
    valid = sample.valid
    return (
        f"{valid.value:.3f} of the matches are true, by a field that took no part "
        f"(95 % interval {valid.lower:.3f} to {valid.upper:.3f})"
    )
