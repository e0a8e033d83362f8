"""Does a slow store of backups delay the records?

A service on a real broker judges a trickle. It takes backups into a real server of S3, through a
relay that lets few bytes through. Another one without backups judges the same trickle at the same
time: what else the machine does delays both. Each record is read as soon as it is visible.
"""

import os
import socket
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import patch

from deploy.local.real import RealKafka
from streamfilter.bench import texts
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Target
from tests.bench.service import Route
from tests.support.s3 import make_bucket, moto_server, reached_at

SECONDS, RATE = {True: 15.0, False: 40.0}, 50.0
BLOCK, BLOCK_SECONDS = 2_048, 0.1
"""20 kB/s to the store: an upload of the smallest index lasts longer than the backups' period."""
EVERY = "10s"
DELAYED = 1.1
"""Times the milliseconds without backups that are wanted at most."""


class Relay:
    """Forwards connections to *target* slowly, and counts the bytes that go there."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.sent, self._target = 0, target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for way in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, upwards: bool) -> None:
        with suppress(OSError):
            while block := source.recv(BLOCK):
                time.sleep(BLOCK_SECONDS)
                sink.sendall(block)
                self.sent += len(block) * upwards
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def run(options: Options) -> BenchResult:
    """Let both services judge the same trickle at the same time, in each turn."""
    seconds = SECONDS[options.quick]
    documents = texts.documents("english", 1_024, int(seconds * RATE), seed=36)
    found: dict[bool, list[float]] = {False: [], True: []}
    late: dict[bool, list[float]] = {False: [], True: []}
    sent = list[int]()
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
        moto_server() as upstream,
        RealKafka(1) as kafka,
        ThreadPoolExecutor(2) as pool,
    ):
        host, _, port = upstream.removeprefix("http://").partition(":")
        with patch.dict(os.environ, reached_at(upstream)):
            backup = {"backup": {"target": make_bucket(), "every": EVERY}}
        routes = [Route(kafka, Path(directory), documents, index=each) for each in ({}, backup)]
        for turn in range(options.repeat):
            options.say(f"turn {turn + 1} of {options.repeat}")
            with (
                closing(Relay((host, int(port)))) as relay,
                patch.dict(os.environ, reached_at(relay.address)),
            ):
                both = list(pool.map(lambda route: route.trickle(seconds, rate=RATE), routes))
                sent.append(relay.sent)
            for backs_up, milliseconds in zip(found, map(sorted, both), strict=True):
                found[backs_up].append(statistics.median(milliseconds))
                late[backs_up].append(milliseconds[len(milliseconds) * 99 // 100])
    names = {False: "none", True: "to a slow store"}
    rows = [{"backups": names[each], "ms to visible": Measured.of(found[each]),
             "99th percentile": Measured.of(late[each])} for each in names]  # fmt: skip
    delayed = ratios(found[False], found[True]).median
    late_by = ratios(late[False], late[True]).median
    most = BLOCK / BLOCK_SECONDS * seconds
    return BenchResult(
        {"a trickle": rows},
        [
            Check.at_least(
                "share of the time in which the store was written to", min(sent) / most, 0.3
            )
        ],
        [
            Target("a slow store, times the delay without backups", delayed, DELAYED, at_most=True),
            Target("its 99th percentile, times", late_by, DELAYED, at_most=True),
        ],
        settings={"records/s": RATE, "seconds": seconds, "bytes/s": BLOCK / BLOCK_SECONDS},
    )
