"""The colours of all drawings: dashboards, their pictures, curves, benchmarks.

A meaning has the same colour everywhere: each verdict, healthy, and faulty. Each colour is visible
on white and on dark panels (a contrast of 3 or more), so it does not depend on the reader's theme.

Text needs more contrast than lines do. So the status page has a light and a dark shade of the same
hue for each verdict (`page/page.css`). Tests check both.
"""

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
"""Dead letters are red everywhere; otherwise red only marks faults."""

SERIES = (BLUE, AMBER, TEAL, VIOLET, PINK, GREEN, GREY)
"""Colours for series without a meaning, in this order; without red, which marks faults."""
