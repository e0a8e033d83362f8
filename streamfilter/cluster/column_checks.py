"""Checks the columns of sketches that came in a message: the index trusts them."""

import numpy as np

from streamfilter.similarity.columns import Contents, Widths
from streamfilter.similarity.scheme import SAMPLE_TOKENS


def check_columns(contents: Contents, widths: Widths, *, fields: bool) -> None:
    """Raise `ValueError` unless *contents* are such as a sketcher makes.

    *fields* says whether the index compares records.
    """
    samples = contents.samples
    tokens, starts, sizes = samples.tokens, samples.starts, samples.sizes
    if contents.widths != widths or bool(contents.payloads) is not fields:
        raise ValueError("its columns are those of another scheme")
    for payload in contents.payloads:
        payload.decode()
    whole = starts[0] == 0 and starts[-1] == len(tokens) and not (sizes < 0).any()
    if not whole or (sizes > SAMPLE_TOKENS).any() or (samples.set_sizes < sizes).any():
        raise ValueError("its samples do not fit their sizes")
    first = np.zeros(len(tokens) + 1, np.bool_)
    first[starts] = True
    if (tokens[1:] <= tokens[:-1])[~first[1:-1]].any():
        raise ValueError("its samples do not rise")
