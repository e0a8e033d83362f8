"""Durations and sizes: what is written can be read again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfilter.config.settings.types import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from tests.support.cases import cases


@cases(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7_200), ("7d", 604_800), ("1.5s", 1.5),
     ("0", 0), (0, 0)],
)  # fmt: skip
def test_durations_carry_their_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@cases(
    ("text", "size"),
    [("64Mi", 64 << 20), ("8MiB", 8 << 20), ("1GB", 10**9), ("1G", 10**9), ("64Ki", 65_536),
     ("2k", 2_000), ("512", 512), (512, 512), ("1.5Ki", 1_536), ("7B", 7)],
)  # fmt: skip
def test_binary_and_decimal_sizes_differ(text, size):
    assert parse_size(text) == size


@cases("text", ["5", 5, True, "s", "5 weeks", "-1s", "1e9d", "٣s", None, "9" * 40])
def test_a_duration_without_a_known_unit_is_refused(text):
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@cases("text", ["Mi", "-5", -5, True, "5 mb", "9" * 30, 1.5, None, [], "5Bi"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@pytest.mark.slow
@given(st.integers(0, 10**12))
def test_a_duration_reads_back_as_written(milliseconds):
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(0, 2**50))
def test_a_size_reads_back_as_written(size):
    assert parse_size(format_size(size)) == size
