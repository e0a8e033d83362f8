"""A real server of S3 (moto's) in a process of its own, over HTTP."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from streamfilter.files.s3_paths import client

SECRET = "a-secret-that-must-not-show"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Start the server; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def new_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that makes a bucket; the environment has what reaches it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)

    from s3fs import S3FileSystem  # a second of imports, of each worker

    client.cache_clear()  # it has the environment of another test

    def make() -> str:
        name = f"bucket-{secrets.token_hex(6)}"
        S3FileSystem(skip_instance_cache=True).mkdir(name)
        return f"s3://{name}"

    return make
