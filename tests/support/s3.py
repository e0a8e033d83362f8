"""A real server of S3 (moto's) in a process of its own, over HTTP."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

SECRET = "a-secret-that-must-not-show"


@contextmanager
def moto_server() -> Iterator[str]:
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


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with moto_server() as address:
        yield address


def reached_at(address: str) -> dict[str, str]:
    """Return the environment that reaches the server at *address*."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
    }


def make_bucket() -> str:
    from s3fs import S3FileSystem  # a second of imports, of each worker

    name = f"bucket-{secrets.token_hex(6)}"
    S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"


@pytest.fixture
def new_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that makes a bucket; the environment has what reaches it."""
    from streamfilter.files.s3_paths import client

    for name, value in reached_at(s3_server).items():
        monkeypatch.setenv(name, value)
    client.cache_clear()  # it has the environment of another test
    return make_bucket
