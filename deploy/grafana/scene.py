"""Ten minutes in which things happen, drawn: `python -m deploy.grafana.scene`.

It starts the native demo. In it come a takeover, an outage, a burst of broken records and an
operator's setting that loses recall. Then `pictures` draws the dashboards. Pictures of a quiet
service would show flat lines.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import click

from deploy.grafana.asking import Source
from deploy.grafana.pictures import OUT, draw
from deploy.native import Native
from streamfilter.demo.wire import as_json
from streamfilter.kafka.traffic import Feed

MINUTES = 10
OUTAGE_SECONDS = 45
BROKEN, BROKEN_SECONDS = 600, 30.0
LOW = {"THRESHOLD": "0.55", "RECALL": "0.36", "BANDS": "16", "ROWS": "6"}
"""A lower threshold with the bands of the old one: 36 % of the pairs at .55 share a band."""
RELATED = 8_000
"""Pairs of texts with a similarity of .6, sent while the setting is in force."""
WORDS, CHANGED = 80, 20
AUDIT = {"arrivals: 1 ": "time: 0.2\n  arrivals: 0.2 "}
"""In the demo's configuration: ten minutes have several rounds of the audit then."""


class Scene:
    """The native demo, and what happens to it."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._feed = Feed(native.kafka.bootstrap, "stories", partition=None)
        self._rng = random.Random(1)
        self._ids = (f"scene-{n}" for n in count())

    def takeover(self) -> None:
        """Kill the process that works. The standby takes over, and the killed one comes back."""
        self._native.children.pop("streamfilter-a").kill()
        time.sleep(20)
        self._native.start_one("streamfilter-a")

    def outage(self) -> None:
        """Freeze the broker."""
        (broker,) = self._native.kafka.nodes
        broker.pause()
        time.sleep(OUTAGE_SECONDS)
        broker.resume()

    def poison(self) -> None:
        """Send records that cannot be read."""
        for _ in range(BROKEN):
            self._feed.send(b'{"id": "cut, "text', key=next(self._ids).encode())
            time.sleep(BROKEN_SECONDS / BROKEN)

    def wrong_setting(self) -> None:
        """Start both processes again with `LOW`, and send pairs that its bands miss."""
        names = ("streamfilter-a", "streamfilter-b")
        for name in names:
            self._native.children.pop(name).stop()
        for name in names:
            self._native.start_one(name, {f"STREAMFILTER_SIMILARITY__{k}": LOW[k] for k in LOW})
        for _ in range(RELATED):
            words = [f"w{self._rng.randrange(50_000)}" for _ in range(WORDS)]
            for text in (words, words[:-CHANGED] + words[:CHANGED]):
                id_ = next(self._ids)
                self._feed.send(as_json(id_, " ".join(text)), key=id_.encode())
            time.sleep(0.02)


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=OUT)
def main(out: Path) -> None:
    """Run the demo for ten minutes, and draw every dashboard into OUT."""
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-scene-") as directory,
        Native(Path(directory), any_ports=True, replacing=AUDIT) as native,
    ):
        scene, begun = Scene(native), time.time() + 60  # the first minute is the start
        acts: list[tuple[float, Callable[[], None]]] = [
            (1.5, scene.takeover), (3, scene.outage), (5, scene.poison), (6.5, scene.wrong_setting)
        ]  # fmt: skip
        for minute, act in [*acts, (MINUTES, native.check)]:
            time.sleep(max(0.0, begun + 60 * minute - time.time()))
            click.echo(f"{time.strftime('%H:%M:%S')} {act.__name__}: {act.__doc__}")
            act()
        draw(Source(native.url("prometheus", 9090), 60 * MINUTES, time.time(), 5), out)


if __name__ == "__main__":
    main()
