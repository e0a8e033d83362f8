"""From settings to parts: the one place, so that `run`, `filter` and `evaluate` cannot differ."""

from __future__ import annotations

from streamfilter.config import Config
from streamfilter.documents import Limits, Reader
from streamfilter.verification import MatchPolicy


def reader_for(config: Config) -> Reader:
    """Return what reads records as *config* says."""
    return Reader(
        config.input.format,
        text_pointer=config.input.text,
        id_pointer=config.input.id,
        limits=Limits(
            document_bytes=config.limits.document,
            text_characters=config.limits.text_characters,
            depth=config.limits.depth,
        ),
        empty_text=config.input.empty_text,
        tombstones=config.input.tombstones,
    )


def policy_for(config: Config) -> MatchPolicy:
    """Return what counts as a duplicate as *config* says."""
    return MatchPolicy(
        threshold=config.similarity.threshold,
        method=config.verify.method,
        max_candidates=config.verify.max_candidates,
        short_text=config.input.short_text,
    )
