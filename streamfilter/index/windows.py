"""Windows: which one a document or a batch belongs to, which begin, and which are gone.

A document belongs to the last window whose first ordinal is not above its own. A batch belongs to
the last window whose first batch number is not above its own, because an empty batch has no
ordinal. Both numbers are in the changelog, so a restore makes the same windows as the owner.
"""

from bisect import bisect_right
from itertools import pairwise

import numpy as np

from streamfilter.index.progress import Progress
from streamfilter.index.protocol import WINDOWS_MAX, Changes
from streamfilter.model import Window
from streamfilter.similarity.columns import I64

Windows = tuple[Window, ...]


def after(windows: Windows, progress: Progress, changes: Changes) -> Windows:
    """Return which windows are alive after *changes*; raise `ValueError` if they do not follow."""
    horizon = changes.progress.horizon
    if horizon < progress.horizon:
        raise ValueError(f"the horizon fell from {progress.horizon} to {horizon}")
    windows = _opened(windows, progress, changes.opens)
    gone = sum(following.first_ordinal <= horizon for _, following in pairwise(windows))
    alive = windows[gone:]
    if len(alive) > WINDOWS_MAX:
        raise ValueError(f"{len(alive)} windows would be alive, {WINDOWS_MAX} may be")
    return alive


def _opened(windows: Windows, progress: Progress, opens: Window | None) -> Windows:
    newest = windows[-1]
    if opens is None or opens.number <= newest.number:
        return windows
    if progress == Progress():
        return (opens,)
    follows = opens.number == newest.number + 1
    if not (follows and opens.first_ordinal >= progress.next_ordinal
            and opens.first_batch >= progress.next_batch):  # fmt: skip
        raise ValueError(f"{opens} does not follow {newest} and {progress}")
    return (*windows, opens)


def parts_of(windows: Windows, ordinals: I64) -> list[slice]:
    """Return the part of the rising *ordinals* in each window; dropped windows are left out.

    Two windows begin with the ordinals 4 and 10. The ordinals 2 5 9 12 have the parts 5 9 and 12:
    2 was in a window that is dropped.
    """
    begins = np.searchsorted(ordinals, [window.first_ordinal for window in windows]).tolist()
    return [slice(*part) for part in pairwise((*begins, len(ordinals)))]


def owner(windows: Windows, batch: int) -> int:
    """Return the place in *windows* of the window of a batch number; -1: it is dropped."""
    return bisect_right([window.first_batch for window in windows], batch) - 1
