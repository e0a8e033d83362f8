"""The seed that keys the hashes stands where it must be, and nowhere else."""

import random

import pytest

from streamfilter.index.directory.opening import read_identity
from streamfilter.model import Record
from tests.kafka.story import records, texts
from tests.support.secure import dresses
from tests.support.stage import Stage
from tests.support.topics import Input, read_committed

SEED = 20_261_203
PATHS = ("/", "/metrics", "/status", "/livez", "/readyz")


def content(each: Record) -> bytes:
    headers = b"".join(name.encode() + (value or b"") for name, value in each.headers)
    return (each.key or b"") + (each.value or b"") + headers


@pytest.mark.slow
def test_only_the_changelog_s_header_and_the_state_hold_it(embedded_stage) -> None:
    stage: Stage = embedded_stage()
    stage.produce([*records(texts(random.Random(SEED), 60)), Input(b"{broken")])
    # Without a seed file the process draws a seed of its own.
    process = stage.start(index={"seed_file": None}, log={"level": "debug"})
    stage.drain(process)
    told = "".join(process.get(path) or "" for path in PATHS).encode()
    assert process.terminate() == 0
    state = stage.directory / "state"
    identity = read_identity(state)
    assert identity is not None
    forms = dresses(identity.seed)
    header, *others = read_committed(stage.bootstrap, stage.changelog)
    assert identity.seed.hex().encode() in content(header)  # the search finds what is there
    outputs = [each for placed in stage.outputs().values() for each in placed]
    assert len(outputs) == 61
    assert any(b"__streamfilter.error.code" in content(each) for each in outputs)
    for each in (*others, *outputs):
        assert not any(form in content(each) for form in forms)
    for text in (told, process.log.read_bytes()):
        assert text
        assert not any(form in text for form in forms)
    beside = [path for path in stage.directory.rglob("*") if path.is_file()
              and state not in path.parents]  # fmt: skip
    assert beside
    for path in beside:
        assert not any(form in path.read_bytes() for form in forms), path
