"""A service copies its index by itself, and starts from a copy after its disk was lost."""

import hashlib
import json
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamfilter.backup.download import restorable
from streamfilter.backup.manifest import Copied
from streamfilter.backup.targets import store_at
from tests.kafka.recovery.test_standby import restored
from tests.kafka.recovery.test_takeover import SETTINGS, replayed
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.s3 import SECRET
from tests.support.stage import Stage

SEED = 20_261_126


def backed_up(target: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a service that takes a backup every ten seconds."""
    return {**SETTINGS, "index": {"backup": {"target": target, "every": "10s", **more}}}


def wait_for_backup(process: FilterProcess) -> None:
    """Return when a backup has all that the index holds."""
    documents = process.status()["index_documents"]

    def copied(_: Any) -> bool:
        found = re.findall(r"is backed up to .*?: ([\d,]+) documents", process.log.read_text())
        return f"{documents:,}" in found

    process.wait_for(copied, what=f"a backup of {documents} documents")


@pytest.mark.slow(30)
def test_a_lost_disk_is_restored_from_s3_and_the_changelogs_tail_with_the_verdicts_of_one_life(
    embedded_stage: Callable[..., Stage], new_bucket: Callable[[], str]
) -> None:
    stage, target = embedded_stage(partitions=2), f"{new_bucket()}/prefix"
    stories = texts(random.Random(SEED), 400)
    stage.produce(records(stories[:200], partitions=2))
    process = stage.start(state="one", **backed_up(target))
    stage.drain(process)
    wait_for_backup(process)
    assert process.status()["backup_made_seconds"] > 1.7e9
    assert "streamfilter_backup_every_seconds 10.0" in (process.get("/metrics") or "")
    stage.produce(records(stories[200:300], partitions=2, first=200))
    log = stage.end(process)
    again = stage.start(state="again", **backed_up(target))
    stage.produce(records(stories[300:], partitions=2, first=300))
    stage.drain(again)
    log += stage.end(again)
    assert f"takes the backup {target}/" in log
    assert 0 < restored(again)[0] < 200, "the copy, and only the tail after it, was used"
    assert SECRET not in log
    found = verdicts(stage)
    assert len(found) == 400
    assert found == replayed(embedded_stage, stage)


def only_backup(stage: Stage, root: Path, *, seed: int) -> tuple[Path, Copied]:
    """Return the manifest of the backup in *root* that a service of 100 documents has taken."""
    target = f"file://{root}"
    stage.produce(records(texts(random.Random(seed), 100)))
    process = stage.start(state="one", **backed_up(target))
    stage.drain(process)
    wait_for_backup(process)
    stage.end(process)
    (copied,) = restorable(store_at(target))
    return root / copied.place, copied


@pytest.mark.slow
def test_a_backup_ahead_of_the_changelog_or_of_another_index_is_not_taken(
    embedded_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    """Both are put under this index's name, as a careless hand or a lost changelog would."""
    stage, target = embedded_stage(), f"file://{tmp_path}/backups"
    manifest, copied = only_backup(stage, tmp_path / "backups", seed=SEED + 1)
    whole, end = manifest.read_text(), copied.progress.changelog_offset

    def planted(name: str, text: str) -> None:
        (manifest.parent / f"9999999999{name}-999999999999-0000000{name[-1]}.json").write_text(text)

    planted("991", whole.replace(f'"changelog_offset": {end}', '"changelog_offset": 1000000'))
    planted("992", whole.replace(f'"changelog_offset": {end}', f'"changelog_offset": {end - 2}'))
    planted("993", whole.replace('"bucket_cap": 8', '"bucket_cap": 9'))
    planted("994", whole.replace('"next_batch"', '"next_botch"'))
    planted("995", whole[: len(whole) // 2])
    again = stage.start(state="again", **backed_up(target))
    log = stage.end(again)
    for why in (
        "it is at offset 1000000, and the changelog ends at",
        f"the changelog holds another record at offset {end - 2}",
        "index.bucket_cap: it has 9, wanted is 8",
        "cannot be read: 'next_batch'",
        "cannot be read: ",
    ):
        assert why in log, log
    assert log.count("is not taken: ") == 5
    assert f"takes the backup {target}/{copied.place}" in log


@pytest.mark.slow
def test_a_backup_that_holds_damage_is_taken_once_and_the_changelog_repairs_it(
    embedded_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    """The owner's disk was damaged before the copy: every sum is right, and RocksDB's are not."""
    stage, target = embedded_stage(), f"file://{tmp_path}/backups"
    manifest, _ = only_backup(stage, tmp_path / "backups", seed=SEED + 3)
    fields = json.loads(manifest.read_text())
    files = fields["indexes"][0]["files"]
    for name in [each for each in files if each.endswith(".sst")]:
        kept = manifest.parent / "files" / files[name][1]
        broken = bytes(each ^ 0xFF for each in kept.read_bytes())
        files[name][1] = hashlib.blake2b(broken).hexdigest()
        (kept.parent / files[name][1]).write_bytes(broken)
    manifest.write_text(json.dumps(fields))
    again = stage.start(state="again", **backed_up(target, keep=1))
    stage.produce(records(texts(random.Random(SEED + 4), 50), first=100))
    stage.drain(again)
    log = stage.end(again)
    assert log.count("takes the backup") == 1
    assert "is removed and restored from" in log
    assert len(verdicts(stage)) == 150


@pytest.mark.parametrize("target", ["file:///proc/nothing", "s3://no-such-bucket-at-all/x"])
def test_a_target_that_fails_neither_stops_the_filter_nor_a_restore(
    embedded_stage: Callable[..., Stage], target: str, new_bucket: Callable[[], str]
) -> None:
    stage = embedded_stage()
    stage.produce(records(texts(random.Random(SEED + 2), 60)))
    process = stage.start(state="one", **backed_up(target))
    stage.drain(process)
    status = process.wait_for(lambda s: s["backup_failure"], what="a backup's failure")
    assert (status["state"], status["ready"]) == ("running", True)
    metrics = process.get("/metrics") or ""
    assert re.search(r'backup_failures_total{reason="(refused|unreachable)"} [1-9]', metrics)
    log = stage.end(process)
    assert "is not backed up, and tries again" in log
    assert SECRET not in log + str(status)
    again = stage.start(state="again", **backed_up(target))
    log = stage.end(again)
    assert "is restored from the changelog alone" in log or "the changelog restores all" in log


def test_a_store_that_never_answers_costs_the_filter_nothing(
    embedded_stage: Callable[..., Stage],
    new_bucket: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes connections, and says nothing: the slowest store there is."""
    stage, target = embedded_stage(), new_bucket()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        stage.produce(records(texts(random.Random(SEED + 5), 200)))
        process = stage.start(state="one", **backed_up(target))
        asking, _ = silent.accept()
        stage.produce(records(texts(random.Random(SEED + 6), 100), first=200))
        status = stage.drain(process)
        assert (process.status()["state"], process.status()["backup_made_seconds"]) == (
            "running",
            None,
        ), status
        stage.end(process)
        asking.close()
    assert len(verdicts(stage)) == 300
