"""Our client with the methods of :class:`java_transport.JavaClient`, so that one test is for both."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from everlog.aeron import Aeron
from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.subscription import Subscription
from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import by_seed

SECONDS = 40.0


class OurClient:
    """Publications and subscriptions have names that the caller gives."""

    def __init__(self, folder: Path | str) -> None:
        self.aeron = Aeron.connect(folder)
        self.publications: dict[str, Publication | ExclusivePublication] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.events: list[tuple[str, int]] = []
        self._polled: dict[int, tuple[int, int, int, int]] = {}

    def publish(self, name: str, channel: str, stream_id: int, *, exclusive: bool = False) -> int:
        """Adds a publication; its session id."""
        add = self.aeron.add_exclusive_publication if exclusive else self.aeron.add_publication
        self.publications[name] = add(channel, stream_id)
        return self.publications[name].session_id

    def offer(self, name: str, messages: Messages, *, claims: bool = False) -> tuple[int, int]:
        """Publishes all, waiting for room; positions before and behind."""
        publication = self.publications[name]
        begin = publication.position
        for payload, reserved in messages:
            if claims and len(payload) <= publication.max_payload_length:
                self._claim(publication, payload, reserved)
            else:
                publication.send(payload, reserved_value=reserved, timeout_s=SECONDS)
        return begin, publication.position

    @staticmethod
    def _claim(publication: Publication | ExclusivePublication, payload: bytes, reserved: int) -> None:
        from everlog.aeron.transport.client.appending.appenders import BufferClaim

        claim = BufferClaim()
        await_that(lambda: publication.try_claim(len(payload), claim) >= 0, "room to publish")
        claim.put(payload)
        claim.reserved_value = reserved
        claim.commit()

    def subscribe(self, name: str, channel: str, stream_id: int) -> int:
        """Adds a subscription; its registration id."""
        self.subscriptions[name] = self.aeron.add_subscription(
            channel,
            stream_id,
            lambda image: self.events.append((f"available {name}", image.session_id)),
            lambda image: self.events.append((f"unavailable {name}", image.session_id)),
        )
        return self.subscriptions[name].registration_id

    def poll(self, name: str, count: int, kind: str = "messages") -> dict[int, tuple[int, int, int, int]]:
        """Until so many came: of each seed, count, bytes, digest and breaks."""
        self.tell_poll(name, count, kind)
        return self.answer_poll()

    def tell_poll(self, name: str, count: int, kind: str = "messages") -> None:
        """As :meth:`poll`; what came is given by :meth:`answer_poll`."""
        found: list[tuple[bytes, int]] = []

        def take(payload: bytes, header: object) -> None:
            found.append((payload, header.reserved_value))  # type: ignore[attr-defined]

        handler = FragmentAssembler(take) if kind == "messages" else take
        subscription = self.subscriptions[name]
        end = time.monotonic() + SECONDS
        while len(found) < count:
            if subscription.poll(handler, count - len(found)):
                end = time.monotonic() + SECONDS
            elif time.monotonic() > end:
                raise TimeoutError(f"{len(found)} of {count} {kind} came: {by_seed(found)}")
            else:
                time.sleep(0.0002)
        self._polled = by_seed(found)

    def answer_poll(self) -> dict[int, tuple[int, int, int, int]]:
        """Of :meth:`tell_poll`."""
        return self._polled

    def await_images(self, name: str, count: int) -> list[tuple[int, int]]:
        """Until a subscription has so many; session ids and positions."""
        subscription = self.subscriptions[name]
        await_that(lambda: len(subscription.images) == count, f"{count} images")
        return [(image.session_id, image.position) for image in subscription.images]

    def await_connected(self, name: str, connected: bool = True) -> None:
        """Until a publication has a subscriber, or none."""
        publication = self.publications[name]
        await_that(lambda: publication.is_connected == connected, f"connected {connected}")

    def add_destination(self, name: str, uri: str) -> None:
        """Of a publication or subscription."""
        (self.publications.get(name) or self.subscriptions[name]).add_destination(uri)

    def remove_destination(self, name: str, uri: str) -> None:
        """Of a publication or subscription."""
        (self.publications.get(name) or self.subscriptions[name]).remove_destination(uri)

    def close_one(self, name: str) -> None:
        """A publication or subscription."""
        (self.publications.pop(name, None) or self.subscriptions.pop(name)).close()

    def close(self) -> None:
        """Ends the client."""
        self.aeron.close()

    kill = close


def await_that(is_done: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Raises :class:`TimeoutError`."""
    end = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > end:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(0.0005)


def in_thread(function: Callable[..., Any], *arguments: Any, **more: Any) -> Callable[[], Any]:
    """Begins a call; what is returned waits for it and gives its result, or raises what it raised."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function, *arguments, **more)
    pool.shutdown(wait=False)
    return future.result


def free_port() -> int:
    """Of UDP on the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
