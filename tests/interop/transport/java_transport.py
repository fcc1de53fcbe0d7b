"""The real Aeron media driver and client as peers of ours: a program of ours (``TransportPeer.java``) around them, and
the tools that come with them.

Typical use, with the fixtures ``start_java_driver`` and ``start_java_client``::

    with start_java_driver({"aeron.term.buffer.length": "64k"}) as driver, start_java_client(driver.dir) as client:
        client.subscribe("s", "aeron:ipc", 10)
        client.publish("p", "aeron:ipc", 10)
        client.offer("p", Messages(seed=1, sizes=SMALL, count=100))
        assert client.poll("s", 100) == {1: Seen.of(Messages(...))}
"""

from __future__ import annotations

import subprocess
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Self

from tools import aeron_java

from tests.interop.archive.java_archive import FLAGS, SECONDS_OF_A_TOOL, Messages, ToolResult
from tests.interop.line_process import LineProcess

PROGRAM = Path(__file__).with_name("TransportPeer.java")
DRIVER_DEFAULTS = {
    "aeron.threading.mode": "SHARED",
    "aeron.dir.delete.on.start": "true",
    "aeron.dir.delete.on.shutdown": "true",
    "aeron.term.buffer.length": "64k",
    "aeron.ipc.term.buffer.length": "64k",
}
LOSS = {
    "aeron.SendChannelEndpoint.supplier": "io.aeron.driver.ext.DebugSendChannelEndpointSupplier",
    "aeron.ReceiveChannelEndpoint.supplier": "io.aeron.driver.ext.DebugReceiveChannelEndpointSupplier",
}
_ROW = Struct("<iIq")


def losing(rate: float, seed: int = 1) -> dict[str, str]:
    """Properties of a Java driver that drops this part of data and control frames, by a seed: of what its senders send
    (``send.data``) and hear (``send.control``), of what its receivers hear and answer."""
    kinds = [f"{side}.{kind}" for side in ("send", "receive") for kind in ("data", "control")]
    rates = {f"aeron.debug.{kind}.loss.rate": str(rate) for kind in kinds}
    seeds = {f"aeron.debug.{kind}.loss.seed": str(seed) for kind in kinds}
    return LOSS | rates | seeds


@dataclass(slots=True)
class Seen:
    """What came from one sender: ``digest`` is CRC32 over length, CRC32 and reserved value of each message, in order;
    ``breaks`` counts messages that were not the one behind the one before."""

    count: int = 0
    payload_bytes: int = 0
    digest: int = 0
    breaks: int = 0
    _next: int = -1

    @classmethod
    def of(cls, messages: Messages) -> Self:
        """What must come when all of them do."""
        seen = cls()
        for payload, reserved in messages:
            seen.add(payload, reserved)
        return seen

    def add(self, payload: bytes, reserved: int) -> None:
        """One more message."""
        self.digest = zlib.crc32(_ROW.pack(len(payload), zlib.crc32(payload), reserved), self.digest)
        self.payload_bytes += len(payload)
        self.count += 1
        index = reserved & 0xFFFF_FFFF
        self.breaks += self._next >= 0 and index != self._next
        self._next = index + 1

    def row(self) -> tuple[int, int, int, int]:
        """What is compared."""
        return self.count, self.payload_bytes, self.digest, self.breaks


def by_seed(messages: Iterable[tuple[bytes, int]]) -> dict[int, tuple[int, int, int, int]]:
    """Payloads and reserved values that came, as :meth:`JavaClient.poll` answers them."""
    found: dict[int, Seen] = {}
    for payload, reserved in messages:
        found.setdefault(reserved >> 32, Seen()).add(payload, reserved)
    return {seed: seen.row() for seed, seen in found.items()}


def expected(*sent: Messages) -> dict[int, tuple[int, int, int, int]]:
    """As :meth:`JavaClient.poll` must answer when all of these came."""
    return {messages.seed: Seen.of(messages).row() for messages in sent}


class JavaDriver(LineProcess):
    """A running media driver; ``dir`` is its folder, ``pid`` its process."""

    def __init__(self, jar: Path, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        given = DRIVER_DEFAULTS | {"aeron.dir": str(folder)} | dict(properties or {})
        flags = FLAGS + tuple(f"-D{name}={value}" for name, value in given.items())
        super().__init__(aeron_java.command(jar, "TransportPeer", "driver", source=PROGRAM, flags=flags))
        self.pid = int(self.greeting[0])
        self.dir = folder


class JavaClient(LineProcess):
    """A client of any driver. Publications and subscriptions have names that the caller gives."""

    def __init__(self, jar: Path, folder: Path | str, **options: object) -> None:
        words = [f"{name.replace('_', '-')}={value}" for name, value in options.items()]
        arguments = ("client", folder, *words)
        super().__init__(aeron_java.command(jar, "TransportPeer", *arguments, source=PROGRAM, flags=FLAGS))

    def publish(self, name: str, channel: str, stream_id: int, *, exclusive: bool = False) -> int:
        """Adds a publication; its session id."""
        kind = "exclusive" if exclusive else "concurrent"
        return int(self.ask("publish", name, channel, stream_id, kind)[0][0])

    def offer(self, name: str, messages: Messages, *, claims: bool = False) -> tuple[int, int]:
        """Publishes all, waiting for room; positions before and behind."""
        self.tell_offer(name, messages, claims=claims)
        begin, end = self.answer()[0]
        return int(begin), int(end)

    def tell_offer(self, name: str, messages: Messages, *, claims: bool = False) -> None:
        """As :meth:`offer`, without waiting for the answer."""
        sizes = ",".join(str(size) for size in messages.sizes)
        kind = "claim" if claims else "offer"
        self.tell("offer", name, messages.seed, messages.first, messages.count, sizes, kind)

    def subscribe(self, name: str, channel: str, stream_id: int) -> int:
        """Adds a subscription; its registration id."""
        return int(self.ask("subscribe", name, channel, stream_id)[0][0])

    def poll(self, name: str, count: int, kind: str = "messages") -> dict[int, tuple[int, int, int, int]]:
        """Until so many came: of each seed, count, bytes, digest and breaks. ``kind``: messages, fragments,
        controlled."""
        self.tell_poll(name, count, kind)
        return self.answer_poll()

    def tell_poll(self, name: str, count: int, kind: str = "messages") -> None:
        """As :meth:`poll`, without waiting for the answer."""
        self.tell("poll", name, count, kind)

    def answer_poll(self) -> dict[int, tuple[int, int, int, int]]:
        """Of :meth:`tell_poll`."""
        found = [[int(part) for part in word.split(":")] for word in self.answer()[0]]
        return {seed: (count, length, digest, breaks) for seed, count, length, digest, breaks in found}

    def await_images(self, name: str, count: int) -> list[tuple[int, int]]:
        """Until a subscription has so many; session ids and positions."""
        found = [word.split(":") for word in self.ask("await-images", name, count)[0]]
        return [(int(session_id), int(position)) for session_id, position in found]

    def await_connected(self, name: str, connected: bool = True) -> None:
        """Until a publication has a subscriber, or none."""
        self.ask("await-connected", name, "true" if connected else "false")

    def add_destination(self, name: str, uri: str) -> None:
        """Of a publication or subscription."""
        self.ask("add-destination", name, uri)

    def remove_destination(self, name: str, uri: str) -> None:
        """Of a publication or subscription."""
        self.ask("remove-destination", name, uri)

    def close_one(self, name: str) -> None:
        """A publication, subscription or counter."""
        self.ask("close-one", name)

    def add_counter(self, name: str, type_id: int, label: str, value: int) -> int:
        """A counter of the client's; its id. ``label`` has no blanks."""
        return int(self.ask("counter", name, type_id, label, value)[0][0])

    def counters(self) -> dict[int, tuple[int, int, str]]:
        """Of each counter id: type id, value, label."""
        found = [line.split(" ", 4) for line in self.ask("counters")[1]]
        return {int(number): (int(kind), int(value), label) for _, number, kind, value, label in found}

    def events(self) -> list[str]:
        """``available|unavailable NAME SESSION POSITION EOS SOURCE`` since the last call."""
        return [line.removeprefix("line ") for line in self.ask("events")[1]]

    def await_event(self, kind: str, seconds: float = 10.0) -> str:
        """The first event of a kind: an image is in its subscription before its handler was told, and gone before
        that, too."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in self.events():
                if event.startswith(kind):
                    return event
            time.sleep(0.01)
        raise TimeoutError(f"no {kind} image was told of")

    def errors(self) -> list[str]:
        """What came to the client's error handler since the last call."""
        return [line.removeprefix("line ") for line in self.ask("errors")[1]]


def tool(jar: Path, name: str, *arguments: object, properties: Mapping[str, str] | None = None) -> ToolResult:
    """A main class of the jar: ``tool(jar, "io.aeron.samples.AeronStat", properties={"aeron.dir": ...})``."""
    flags = FLAGS + tuple(f"-D{key}={value}" for key, value in (properties or {}).items())
    words = tuple(str(argument) for argument in arguments)
    ended = subprocess.run(
        aeron_java.command(jar, name, *words, flags=flags),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_OF_A_TOOL,
    )
    return ToolResult(ended.stdout, ended.stderr, ended.returncode, words)


def prepare(jar: Path) -> None:
    """Compiles the program. Raises :class:`aeron_java.Missing`."""
    aeron_java.classes(PROGRAM, jar)
