"""Objects of S3 as inputs and outputs: the same bytes as files, whole or not at all, no secrets."""

import gzip
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import avro.schema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from avro.datafile import DataFileWriter
from avro.io import DatumWriter

from streamfilter.backup import s3_objects
from streamfilter.backup.s3_objects import BLOCK, S3Client, S3Object, S3Upload
from streamfilter.backup.stores import StoreUnreachable
from streamfilter.cli import main
from streamfilter.commands.seed import _name
from streamfilter.files.inputs import named
from streamfilter.files.outputs import OutputFile
from streamfilter.files.s3_paths import client
from streamfilter.killpoints import VARIABLE
from streamfilter.stops import Stop, Temporary
from tests.backup.servers import Handler, serving
from tests.filter.stories import lines_of, stories, write
from tests.support.s3 import SECRET

STORIES = stories(300)


@pytest.fixture
def bucket(new_bucket: Callable[[], str]) -> str:
    return new_bucket()


@pytest.fixture
def store(bucket: str) -> Any:
    from s3fs import S3FileSystem  # a second of imports, of each worker

    return S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


def uploads(store: Any, bucket: str) -> list[object]:
    """Return the uploads that have begun, and have neither been finished nor forgotten."""
    return store.call_s3("list_multipart_uploads", Bucket=bucket[5:]).get("Uploads", [])


def stored(path: Path) -> Path:
    """Write the stories to *path* in the format of its name."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(STORIES), path, row_group_size=50)
    elif path.suffix == ".csv":
        rows = [("id", "text"), *map(dict.values, STORIES)]
        path.write_text("".join(f"{id},{text}\n" for id, text in rows))
    elif path.suffix == ".avro":
        fields = ",".join(f'{{"name": "{each}", "type": "string"}}' for each in ("id", "text"))
        schema = avro.schema.parse(f'{{"type": "record", "name": "a", "fields": [{fields}]}}')
        with DataFileWriter(path.open("wb"), DatumWriter(), schema) as file:
            for each in STORIES:
                file.append(each)
    else:
        write(path, lines_of(STORIES))
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.avro", "a.parquet"])
def test_an_object_is_filtered_into_objects_as_a_file_into_files(
    name, desk, bucket, store, monkeypatch
):
    """Requests of a few bytes, so that a small object needs many of them."""
    monkeypatch.setattr(s3_objects, "FIRST", 1000)
    monkeypatch.setattr(s3_objects, "AHEAD", 777)
    monkeypatch.setattr(s3_objects, "BLOCK", 5000)
    path = stored(desk.path / name)
    local = desk.path / f"out-{name}"
    assert desk.run(path, unique=local) == 0
    expected = desk.records(desk.duplicates)
    store.put(str(path), f"{bucket}/{name}")
    out = f"{bucket}/out/{name}"
    assert desk.run(f"{bucket}/{name}", unique=out, duplicates=f"{bucket}/d", workers=1) == 0
    assert store.cat(out) == local.read_bytes()
    desk.duplicates.write_bytes(store.cat(f"{bucket}/d"))
    found = desk.records(desk.duplicates)
    assert [each["similarity"] for each in found] == [each["similarity"] for each in expected]
    assert {each["source"]["topic"] for each in found} == {f"{bucket}/{name}"}
    assert uploads(store, bucket) == []


def test_a_prefix_and_a_pattern_stand_for_the_objects_below_them(bucket, store):
    names = ["a.jsonl", "b/c.csv", "b/d.jsonl", "b/.e.jsonl", ".f/g.jsonl", "b/h.pdf", "bc.jsonl"]
    for each in names:
        store.pipe(f"{bucket}/in/{each}", b"{}")
    store.touch(f"{bucket}/in/b/")

    def below(path: str) -> list[str]:
        return [each.removeprefix(f"{bucket}/in/") for each in named([f"{bucket}/in/{path}"])]

    assert below("") == ["a.jsonl", "b/c.csv", "b/d.jsonl", "bc.jsonl"]
    assert below("b/") == ["b/c.csv", "b/d.jsonl"]
    assert below("*.jsonl") == ["a.jsonl", "bc.jsonl"]
    assert below("**/*.jsonl") == ["a.jsonl", "b/d.jsonl", "bc.jsonl"]
    assert below("b/[ch].*") == ["b/c.csv", "b/h.pdf"]
    for nothing in ("c/", "*.x", "b/**x"):
        with pytest.raises(Stop) as error:
            below(nothing)
        assert error.value.exit_code == 64


def test_a_state_knows_an_object_by_its_name_and_takes_what_was_added(desk, bucket, store):
    lines = lines_of(STORIES)
    for count, expected in ((200, 0), (300, 0), (100, 78)):
        store.pipe(f"{bucket}/a.jsonl", b"\n".join(lines[:count]) + b"\n")
        assert desk.run(f"{bucket}/a.jsonl", state="s") == expected
    assert desk.run(write(desk.path / "a.jsonl", lines), unique=desk.path / "u") == 0
    assert desk.unique.read_bytes() == (desk.path / "u").read_bytes()
    assert _name(f"{bucket}//a") == f"{bucket}//a"


@pytest.mark.parametrize("seeking", [False, True])
@pytest.mark.parametrize("size", [3 * BLOCK, BLOCK])
def test_an_object_that_is_written_again_while_it_is_read_is_refused(bucket, store, seeking, size):
    store.pipe(f"{bucket}/a", b"a" * 3 * BLOCK)
    file = S3Object(client(), f"{bucket}/a", seeking=seeking)
    assert file.read(10) == b"a" * 10
    store.pipe(f"{bucket}/a", b"b" * size)
    file.seek(2 * BLOCK)
    with pytest.raises(Temporary, match="was written again while it was read"):
        file.read(10)


def test_an_output_appears_with_its_last_request_and_never_after_an_error(
    bucket, store, monkeypatch
):
    monkeypatch.setattr(s3_objects, "PART", 5 << 20)  # the least that a store takes
    for parts, end in ((3, ""), (1, ""), (0, ""), (3, "broken")):
        with suppress(ValueError), OutputFile(f"{bucket}/{parts}{end}") as output:
            for _ in range(parts):
                output.append(bytes(4 << 20))
            assert not store.exists(f"{bucket}/{parts}{end}")
            if end:
                raise ValueError
        assert uploads(store, bucket) == []
    sizes = {each["name"][-1:]: each["size"] for each in store.ls(bucket, detail=True)}
    assert sizes == {"3": 12 << 20, "1": 4 << 20, "0": 0}


def test_a_kill_before_the_outputs_are_published_leaves_the_ones_of_before(desk, bucket, store):
    source = write(desk.path / "in", lines_of(STORIES))
    store.pipe(f"{bucket}/u", b"before")
    command = desk.arguments(source, unique=f"{bucket}/u", duplicates=f"{bucket}/d")
    run = [sys.executable, "-m", "streamfilter", *command]
    killed = {**os.environ, VARIABLE: "close.begun"}
    assert subprocess.run(run, env=killed, timeout=120).returncode == -9
    assert store.ls(bucket) == [f"{bucket[5:]}/u"]
    assert store.cat(f"{bucket}/u") == b"before"
    assert subprocess.run(run, timeout=120).returncode == 0
    assert store.cat(f"{bucket}/u") != b"before"


def test_what_an_operator_does_wrong_is_named_with_its_cure(desk, bucket, capsys, monkeypatch):
    source = write(desk.path / "in", lines_of(STORIES))

    def refused(code: int, words: str, *inputs: object, **options: object) -> None:
        assert desk.run(*inputs, **options) == code
        said = capsys.readouterr().err
        assert words in said
        assert SECRET not in said

    refused(64, "is missing", f"{bucket}/none.jsonl")
    refused(64, "names no file", f"{bucket}/none/")
    refused(64, "write s3://BUCKET/KEY", source, unique=f"{bucket}/u/")
    refused(64, "is given twice", f"{bucket}/a", unique=f"{bucket}/a")
    refused(64, "set AWS_ACCESS_KEY_ID", f"s3://KEY:{SECRET}@bucket/a")
    refused(64, "set AWS_ACCESS_KEY_ID", f"s3://KEY:{SECRET}@bucket/")
    refused(64, "JSON Lines", source, duplicates=f"{bucket}/d.parquet")
    assert main([*desk.arguments(source), "--state", f"{bucket}/s"]) == 64
    assert "an index lives on a disk" in capsys.readouterr().err
    refused(78, "create the bucket", "s3://there-is-no-such-bucket/a.jsonl")
    refused(78, "create the bucket", "s3://there-is-no-such-bucket/")
    refused(78, "create the bucket", source, unique="s3://there-is-no-such-bucket/u")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        client.cache_clear()
        refused(75, "cannot be used now", f"{bucket}/a.jsonl")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    client.cache_clear()
    refused(78, "check AWS_ACCESS_KEY_ID", f"{bucket}/a.jsonl")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    client.cache_clear()
    refused(64, "pip install 'streamfilter[s3]'", f"{bucket}/a.jsonl")


def answering(status: int, body: bytes, **headers: str) -> type[Handler]:
    class Answering(Handler):
        def answer(self) -> None:
            self.reply(status, headers, body)

    return Answering


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [(400, f"<Error><Code>ExpiredToken</Code><Message>{SECRET}</Message></Error>", 78, "AWS_SES"),
     (403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>", 78, "GetObject"),
     (200, "x" * (1 << 20), 75, "1048576 bytes were sent for bytes=0-131071"),
     (302, "", 75, "cannot be used now"), (200, "", 0, "")],
)  # fmt: skip
def test_what_a_store_refuses_or_should_not_answer_is_an_end_with_its_cause(
    status, body, code, words, desk, bucket, monkeypatch, capsys
):
    with serving(answering(status, body.encode())) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert desk.run(f"{bucket}/a.jsonl") == code
    said = capsys.readouterr().err
    assert words in said
    assert SECRET not in said


def test_ctrl_c_is_obeyed_while_a_store_does_not_answer(desk, bucket, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        command = [sys.executable, "-m", "streamfilter", *desk.arguments(f"{bucket}/a.jsonl")]
        run = subprocess.Popen(command, stderr=subprocess.PIPE)
        server.accept()  # it is asked
        run.send_signal(signal.SIGINT)
        assert b"stopped" in run.communicate(timeout=120)[1]
        assert run.returncode == 130


def test_ctrl_c_does_not_part_the_last_requests_of_a_run(bucket, store, monkeypatch):
    """Else one output of a run would be new, and the others as they were."""
    monkeypatch.setattr(s3_objects, "POLL_SECONDS", 0)
    pressed: list[bool] = []

    def alive() -> None:
        if pressed:
            raise Stop("stopped")

    for content in (b"a", b""):
        upload = S3Upload(S3Client("a test", alive=alive), f"{bucket}/a").begin()
        upload.write(content)
        upload.complete()
        pressed.append(True)
        upload.publish()
        upload.close()
        assert store.cat(f"{bucket}/a") == content
        assert uploads(store, bucket) == []
        with pytest.raises(Stop):
            upload.begin()
        pressed.clear()


def test_a_body_that_breaks_off_is_asked_for_again(bucket, monkeypatch):
    class Breaking(Handler):
        asked = 0

        def answer(self) -> None:
            Breaking.asked += 1
            self.reply(206, {"Content-Range": "bytes 0-9/10", "ETag": "a"}, b"0123456789")

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            if Breaking.asked % 3 == 0:
                super().reply(status, headers, body)
                return
            self.send_response(status)
            for name, value in (headers | {"Content-Length": "10"}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:4])
            self.close_connection = True

    with serving(Breaking) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert S3Object(S3Client("a test"), f"{bucket}/a").read() == b"0123456789"
        monkeypatch.setattr(s3_objects, "ATTEMPTS", 2)
        with pytest.raises(StoreUnreachable):
            S3Object(S3Client("a test"), f"{bucket}/a")
    assert Breaking.asked == 5
