"""The colours of everything that is drawn: dashboards, their pictures, curves, benchmarks.

What has a meaning has one colour wherever it is: a verdict, and what is well or ill. Each can be
seen on white and on a dark panel alike (a contrast of 3 and more), so that nothing changes with
the reader's theme. The process's page, whose words need more contrast than lines do, has a light
and a dark shade of the same hue for each verdict (`page/page.css`). Both are tested.
"""

from __future__ import annotations

from streamfilter.model import Verdict

GREEN, BLUE, VIOLET, GREY = "#2f9461", "#3f7fe0", "#9a6bd6", "#7d8796"
AMBER, RED = "#b87a1a", "#dc4a43"
TEAL, PINK = "#2492a8", "#c8579b"

BY_VERDICT = {
    Verdict.UNIQUE: GREEN,
    Verdict.NEAR_DUPLICATE: BLUE,
    Verdict.EXACT_DUPLICATE: VIOLET,
    Verdict.PASSTHROUGH: GREY,
    Verdict.DROPPED: AMBER,
    Verdict.REJECTED: RED,
}
"""Dead letters are red everywhere, and nothing else is but what is ill."""

SERIES = (BLUE, AMBER, TEAL, VIOLET, PINK, GREEN, GREY)
"""For lines that are only to be told apart, in this order: without the red of what is ill."""
