"""What a driver answers to commands that it refuses: the real one gives the codes and texts that ours is tested by."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.aeron.transport.driver.socket_lengths import system_socket_lengths
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.memory.broadcast import BroadcastReceiver
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver import driver_answers as answers
from tests.interop.transport.java_transport import JavaDriver

TIMEOUT_S = 20
QUERY = re.compile(r"(aeron:[a-z]+\?)([^ ]*)")


class RawClient:
    """Writes commands and reads what the driver says, and no more."""

    def __init__(self, folder: Path) -> None:
        cnc = CncMemory.map(folder)
        self._to_driver = ManyToOneRingBuffer(cnc.to_driver)
        self._receiver = BroadcastReceiver(cnc.to_clients)

    def next_id(self) -> int:
        """A correlation id."""
        return self._to_driver.next_correlation_id()

    def refused(self, command: commands.Command) -> commands.OnError:
        """The refusal of a command."""
        assert self._to_driver.write(*commands.encode(command))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._receiver.receive()
            event = None if message is None else commands.decode_event(*message)
            if isinstance(event, commands.OnError) and event.correlation_id == command.correlation_id:
                return event
            ready = commands.OnPublicationReady, commands.OnSubscriptionReady
            if isinstance(event, ready) and event.correlation_id == command.correlation_id:
                raise AssertionError(f"{command} was not refused: {event}")
            time.sleep(0.0005)
        raise AssertionError(f"no answer to {command}")

    def added(self, command: commands.AddPublication) -> LogMetaData:
        """What the log of a new publication says."""
        assert self._to_driver.write(*commands.encode(command))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._receiver.receive()
            event = None if message is None else commands.decode_event(*message)
            if isinstance(event, commands.OnPublicationReady):
                metadata = LogMemory.map(Path(event.log_file_name)).metadata
                return LogMetaData.unpack_from(metadata.read(0, len(metadata)))
            time.sleep(0.0005)
        raise AssertionError(f"no answer to {command}")


def in_order(text: str) -> str:
    """With the parameters of channels sorted: Java keeps them in a hash map."""
    return QUERY.sub(lambda found: found[1] + "|".join(sorted(found[2].split("|"))), text)


@pytest.fixture
def client(start_java_driver: Callable[..., JavaDriver]) -> RawClient:
    """Of the real driver."""
    return RawClient(start_java_driver().dir)


@pytest.mark.smoke
def test_the_real_driver_refuses_publications_in_the_same_words(client: RawClient) -> None:
    for rest, code, text in answers.PUBLICATIONS:
        event = client.refused(commands.AddExclusivePublication(1, client.next_id(), 10, "aeron:ipc" + rest))
        assert (event.error_code, in_order(event.message)) == (code, in_order(text))


def test_the_real_driver_refuses_subscriptions_in_the_same_words(client: RawClient) -> None:
    for rest, code, text in answers.SUBSCRIPTIONS:
        event = client.refused(commands.AddSubscription(1, client.next_id(), -1, 10, "aeron:ipc" + rest))
        assert (event.error_code, in_order(event.message)) == (code, in_order(text))


def test_the_real_driver_refuses_channels_of_the_network_with_the_same_codes(client: RawClient) -> None:
    for channel, code, text in answers.NETWORK_PUBLICATIONS:
        if "10.0.0.1" not in channel:  # an address that only the simulated machine has
            event = client.refused(commands.AddPublication(1, client.next_id(), 10, channel))
            assert (event.error_code, event.message.split(":")[0]) == (code, text.split(":")[0])
    for channel, code, text in answers.NETWORK_SUBSCRIPTIONS:
        event = client.refused(commands.AddSubscription(1, client.next_id(), -1, 10, channel))
        assert (event.error_code, event.message.split(":")[0]) == (code, text.split(":")[0])


def test_the_real_driver_answers_what_is_no_command_in_the_same_words(client: RawClient) -> None:
    for kind, code, text in answers.UNKNOWN:
        event = client.refused(kind(1, client.next_id(), 9999))
        assert (event.error_code, event.message) == (code, text)


def test_the_real_driver_knows_the_same_lengths_of_socket_buffers(client: RawClient) -> None:
    found = client.added(commands.AddPublication(1, client.next_id(), 10, "aeron:udp?endpoint=localhost:24099"))
    ours = system_socket_lengths()
    assert (found.os_default_socket_sndbuf_length, found.os_max_socket_sndbuf_length) == (
        ours.default_sndbuf,
        ours.max_sndbuf,
    )
    assert (found.os_default_socket_rcvbuf_length, found.os_max_socket_rcvbuf_length) == (
        ours.default_rcvbuf,
        ours.max_rcvbuf,
    )
