"""A few seconds of fuzzing for each reader of bytes; the long run is ``python -m tests.fuzz``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter.config.loading import read_config
from streamfilter.engine.messages.changelog import (
    BatchRecord,
    decode_batch,
    decode_changelog_documents,
    encode_batch,
    encode_changelog_documents,
)
from streamfilter.index.directory.identity import decode_identity
from streamfilter.index.errors import FormatError
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.columns import Widths
from tests.fuzz import received, stored, written
from tests.fuzz.pieces import Target, cut, joined
from tests.index import samples

ROOT = Path(__file__).parents[2]
TARGETS: dict[str, Target] = {**received.TARGETS, **stored.TARGETS, **written.TARGETS}
SEARCHED = {
    "documents": 6_000, "configuration": 150, "index": 600, "changelog": 600,
    "envelope": 6_000, "protobuf": 3_000, "proto_schema": 150, "avro": 150,
}  # fmt: skip
"""Inputs that are tried, the same ones on every machine."""
SEED = 20_261_122


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_what_the_search_begins_with_keeps_the_promises(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        target.check(seed)
        for end in range(len(seed)):
            target.check(seed[:end] if end % 7 == 0 else seed[:end] + b"\xff" + seed[end + 1 :])


@pytest.mark.slow(10)
def test_searches_guided_by_coverage_find_no_input_that_breaks_a_promise(tmp_path):
    pytest.importorskip("atheris", reason="Atheris has wheels for Linux only")
    left = tmp_path / "left"
    left.mkdir()
    asked = [f"{name}={inputs}" for name, inputs in SEARCHED.items()]
    options = [f"--seed={SEED}", f"--corpus={tmp_path}"]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.search", *asked, *options], cwd=ROOT,
        capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        env=os.environ | {"TMPDIR": str(left)},
    )  # fmt: skip
    logs = {name: (tmp_path / f"{name}.log").read_text(errors="replace") for name in SEARCHED}
    for name, log in logs.items():
        assert f"number_of_executed_units: {SEARCHED[name]}\n" in log, f"{name}:\n{log[-4_000:]}"
        assert re.search(r"\bcov: [1-9]", log), log[-4_000:]
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert list(left.iterdir()) == []


@pytest.mark.parametrize("content", ["?\n", '"": 1\n', 'kafka: {common: {"": x}}\n'])
def test_a_key_without_a_name_is_refused_by_its_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("input: {topic: news}\n" + content)
    (problem,) = read_config([path], {}).problems
    assert "line 2: a key must be a word" in str(problem)


def test_pieces_are_cut_where_they_were_joined() -> None:
    assert cut(joined(b"ab", b"", b"c"), 3) == [b"ab", b"", b"c"]
    assert cut(b"", 3) == [b""]


def test_an_identity_with_an_infinite_number_is_refused() -> None:
    fields = samples.identity().encode()
    for broken in (
        fields.replace(b'"slots":16', b'"slots":1e999'),
        fields.replace(b'"created":1700000000000', b'"created":1e999'),
    ):
        assert broken != fields
        with pytest.raises(FormatError):
            decode_identity(broken)


def test_an_ordinal_that_no_index_can_hold_is_refused() -> None:
    (record,) = encode_changelog_documents(samples.documents([5]))
    for ordinal in (1 << 40, 1 << 63, (1 << 64) - 1):
        broken = record[:2] + ordinal.to_bytes(8, "little") + record[10:]
        with pytest.raises(FormatError, match="ordinal"):
            decode_changelog_documents([broken], Widths(samples.SLOTS))


@pytest.mark.parametrize("numbers", [(1 << 63, 0, 0), (0, 0, 1 << 63), (0, 1 << 63, 1 << 63)])
def test_a_batch_with_numbers_beyond_the_index_is_refused(numbers: tuple[int, int, int]) -> None:
    batch = BatchRecord(BatchMark(*numbers, (Span(0, 0, 1),)), -1)
    with pytest.raises(FormatError, match="numbers"):
        decode_batch(encode_batch(batch))


def test_a_section_in_other_letters_is_an_unknown_key_and_not_an_exception(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("input: {topic: news}\noutPut:\n  unique:ext:s.\n")
    assert any("outPut" in str(problem) for problem in read_config([path], {}).problems)
