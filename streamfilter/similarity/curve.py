"""The S-curve: how band shape turns similarity into the chance of being noticed.

A pair of similarity s shares one band of r rows with probability s^r, so it shares at
least one of b bands with probability 1 - (1 - s^r)^b. Everything here follows from that.
"""

from __future__ import annotations


def collision_probability(similarity: float, *, bands: int, rows: int) -> float:
    """Return the probability that a pair of *similarity* shares at least one band."""
    return float(1.0 - (1.0 - similarity**rows) ** bands)


def widest_rows(similarity: float, *, slots: int, recall: float) -> tuple[int, int]:
    """Return the most selective ``(bands, rows)`` that still finds *recall* of the pairs.

    More rows mean fewer false candidates to verify, so we walk from selective to permissive
    and stop at the first shape that keeps the promise. Of that row count we take no more
    bands than the promise needs, in steps of a power of two or a multiple of four, because
    every band is one more key to read and write for each document.
    Raises ValueError when no shape reaches the recall.
    """
    for rows in range(slots, 0, -1):
        most = slots // rows
        if collision_probability(similarity, bands=most, rows=rows) >= recall:
            return _fewest_bands(similarity, rows=rows, most=most, recall=recall), rows
    raise ValueError(
        f"{slots} slots cannot reach recall {recall} at similarity {similarity}; "
        "raise `slots` or lower `recall`"
    )


def _fewest_bands(similarity: float, *, rows: int, most: int, recall: float) -> int:
    """Return the least multiple of four (or *most*) that keeps *recall*."""
    for bands in range(4, most, 4):
        if collision_probability(similarity, bands=bands, rows=rows) >= recall:
            return bands
    return most


def false_negative_share(threshold: float, *, bands: int, rows: int) -> float:
    """Return the area above the curve right of *threshold*, per unit: pairs never noticed.

    For similarities spread evenly over [threshold, 1], by Simpson's rule.
    """
    return 1.0 - _mean_probability(threshold, 1.0, bands=bands, rows=rows)


def false_positive_share(threshold: float, *, bands: int, rows: int) -> float:
    """Return the mean of the curve left of *threshold*: candidates that verification rejects."""
    return _mean_probability(0.0, threshold, bands=bands, rows=rows)


def _mean_probability(low: float, high: float, *, bands: int, rows: int, steps: int = 400) -> float:
    """Return the mean of the curve over [low, high] by Simpson's rule (0 for an empty range)."""
    if high <= low:
        return collision_probability(high, bands=bands, rows=rows)
    width = (high - low) / steps
    weights = [1.0, *(4.0 if i % 2 else 2.0 for i in range(1, steps)), 1.0]
    points = (
        collision_probability(low + i * width, bands=bands, rows=rows) for i in range(steps + 1)
    )
    return sum(w * p for w, p in zip(weights, points, strict=True)) / (3 * steps)
