"""A TCP proxy of ours between the clients and one broker: it cuts, holds back, slows, half-closes.

Bytes are never dropped from the middle of a connection, for TCP does not do that either. What a
hole swallows waits, and arrives when the hole is gone: also when the client has long given up
and hung up. That is how a late EndTxn comes to a broker.

Requests are read as frames (size, api key, …), so that one kind of request can be waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from deploy.local.node import Node

END_TXN, PRODUCE = 26, 0
METADATA = 3
CHUNK_BYTES = 16 * 1024
QUEUE_CHUNKS = 64
CALL_SECONDS = 20
CLOSE_SECONDS = 2
_HEAD = struct.Struct(">ih")
_OF_A_REQUEST = struct.Struct(">hi")
_SIZE, _NUMBER = struct.Struct(">i"), struct.Struct(">i")
_BEFORE_BROKERS = 9
"""Bytes of a metadata reply: its number, a byte of tags, for how long it was throttled."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network is like, for every connection at once."""

    latency: float = 0.0
    """Seconds that every byte is under way, in each direction."""
    rate: float | None = None
    """Bytes a second, of each connection in each direction."""
    requests: bool = True
    """False: requests wait, as if no packet came through."""
    replies: bool = True
    refusing: bool = False
    """True: new connections end at once."""
    orphaned: bool = False
    """True: metadata names no brokers, as that of one which was fenced and does not know others."""


CLEAR = Weather()
HOLE = Weather(requests=False, replies=False)
ONE_WAY = Weather(replies=False)
REFUSING = Weather(refusing=True)
ORPHANED = Weather(orphaned=True)


class Trap:
    """Waits for the next request of one kind."""

    def __init__(self, api: int, *, hold: bool, loop: asyncio.AbstractEventLoop) -> None:
        self.api, self.hold = api, hold
        self.caught = threading.Event()
        self._loop, self._free = loop, asyncio.Event()

    def wait(self, timeout_seconds: float) -> None:
        assert self.caught.wait(timeout_seconds), f"no request {self.api} came"

    def release(self) -> None:
        """Let what was held go on: a request to the broker, or replies to the client."""
        self._loop.call_soon_threadsafe(self._free.set)

    async def released(self) -> None:
        await self._free.wait()


@dataclass(slots=True, eq=False)
class _Link:
    """One connection: the client's side and the broker's."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    muted: Trap | None = None
    """Its replies wait until this is released."""
    metadata: set[int] = field(default_factory=set)
    """The numbers of the requests whose replies name brokers."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def reset(self) -> None:
        """End both sides with a reset, and not as one who has said everything."""
        for writer in (self.client, self.broker):
            its = writer.get_extra_info("socket")
            if its.fileno() >= 0:  # it may have ended by itself, a moment ago
                its.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        for writer in (self.client, self.broker):
            writer.transport.abort()
        for task in self.tasks:
            task.cancel()


class Proxy:
    """Forwards one port to another; every method may be called from any thread."""

    def __init__(self, listen: int, target: int) -> None:
        self._listen, self._target = listen, target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._links: set[_Link] = set()
        self._traps: list[Trap] = []
        self._weather = CLEAR
        self._open = {True: asyncio.Event(), False: asyncio.Event()}

    @classmethod
    def of(cls, node: Node) -> Proxy:
        """Return the proxy that *node*'s second listener advertises."""
        return cls(node.ports.proxy, node.ports.proxied)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *exception: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)

    @property
    def weather(self) -> Weather:
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._call(self._become(weather))

    @property
    def connections(self) -> int:
        return len(self._links)

    def cut(self) -> int:
        """Reset every connection; return how many there were."""
        return self._call(self._cut())

    def half_close(self) -> None:
        """End the broker's half of every connection; what clients send still arrives."""
        self._call(self._half_close())

    def hold(self, api: int) -> Trap:
        """Keep the next request of kind *api* (and what follows it there) until released."""
        return self._trap(api, hold=True)

    def mute_after(self, api: int) -> Trap:
        """Let the next request of kind *api* through, and none of its connection's replies."""
        return self._trap(api, hold=False)

    def forget(self, trap: Trap) -> None:
        """Wait for it no longer; what it has caught stays caught until it is released."""

        def drop() -> None:
            if trap in self._traps:
                self._traps.remove(trap)

        self._loop.call_soon_threadsafe(drop)

    def _trap(self, api: int, *, hold: bool) -> Trap:
        trap = Trap(api, hold=hold, loop=self._loop)
        self._loop.call_soon_threadsafe(self._traps.append, trap)
        return trap

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    async def _start(self) -> None:
        await self._become(CLEAR)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._listen)

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()
        # Not cancelled but waited for: asyncio complains of accepting tasks that are cancelled.
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)

    async def _become(self, weather: Weather) -> None:
        self._weather = weather
        for event, passes in ((True, weather.requests), (False, weather.replies)):
            change = self._open[event].set if passes else self._open[event].clear
            change()

    async def _cut(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    async def _half_close(self) -> None:
        for link in list(self._links):
            with contextlib.suppress(OSError, RuntimeError):
                link.client.write_eof()

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._weather.refusing:
            client.transport.abort()
            return
        try:
            back, broker = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.transport.abort()
            return
        link = _Link(client, broker)
        self._links.add(link)
        ways = (
            self._pump(link, lambda: self._request(link, reader), broker, requests=True),
            self._pump(link, lambda: self._reply(link, back), client, requests=False),
        )
        link.tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.gather(*link.tasks, return_exceptions=True)
        link.abort()
        self._links.discard(link)

    async def _request(self, link: _Link, reader: asyncio.StreamReader) -> bytes:
        """Return the next whole request, once no trap holds it; empty at the end."""
        try:
            head = await reader.readexactly(_HEAD.size)
            size, api = _HEAD.unpack(head)
            frame = head + await reader.readexactly(size - 2)
        except asyncio.IncompleteReadError:
            return b""
        if api == METADATA:
            link.metadata.add(_OF_A_REQUEST.unpack_from(frame, _HEAD.size)[1])
        trap = next((trap for trap in self._traps if trap.api == api), None)
        if trap is not None:
            self._traps.remove(trap)
            if trap.hold:
                trap.caught.set()
                await trap.released()
            else:
                link.muted = trap
        return frame

    async def _reply(self, link: _Link, reader: asyncio.StreamReader) -> bytes:
        """Return the next whole reply; what there is of it at the end."""
        try:
            head = await reader.readexactly(_SIZE.size)
            reply = await reader.readexactly(*_SIZE.unpack(head))
        except asyncio.IncompleteReadError as end:
            return end.partial
        (number,) = _NUMBER.unpack_from(reply)
        if number in link.metadata:
            link.metadata.remove(number)
            if self._weather.orphaned:
                reply = without_brokers(reply)
        return _SIZE.pack(len(reply)) + reply

    async def _pump(
        self,
        link: _Link,
        read: Callable[[], Coroutine[Any, Any, bytes]],
        writer: asyncio.StreamWriter,
        *,
        requests: bool,
    ) -> None:
        """Carry bytes one way until the sender hangs up."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUE_CHUNKS)
        carry = asyncio.create_task(self._carry(link, queue, writer, requests=requests))
        link.tasks.append(carry)
        with contextlib.suppress(OSError):
            while data := await read():
                await queue.put((self._loop.time() + self._weather.latency, data))
        await queue.put((0.0, b""))
        await carry

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Write at the rate that the weather allows: a large request arrives late as a whole."""
        for at in range(0, len(data), CHUNK_BYTES):
            piece = data[at : at + CHUNK_BYTES]
            writer.write(piece)
            await writer.drain()
            if rate := self._weather.rate:
                await asyncio.sleep(len(piece) / rate)

    async def _carry(
        self,
        link: _Link,
        queue: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        *,
        requests: bool,
    ) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._open[requests].wait()
                if not requests and link.muted is not None:
                    await link.muted.released()
                if not data:
                    writer.write_eof()
                    return
                await self._write(writer, data)
                if requests and link.muted is not None:
                    link.muted.caught.set()
        while True:  # the receiver is gone: what the sender still says is of no use
            if not (await queue.get())[1]:
                return


def without_brokers(reply: bytes) -> bytes:
    """Return a metadata reply (version 9 or later) that names no brokers."""
    at = _BEFORE_BROKERS
    count, at = _varint(reply, at)
    for _ in range(count - 1):
        at += 4  # its id
        size, at = _varint(reply, at)
        at += size - 1 + 4  # host and port
        size, at = _varint(reply, at)
        at += max(0, size - 1) + 1  # rack and tags
    return reply[:_BEFORE_BROKERS] + b"\x01" + reply[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at
