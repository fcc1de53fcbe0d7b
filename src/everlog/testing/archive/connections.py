"""How the clients of a simulated system reach the archive: over IPC, over the network, with response channels."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.archive.client.machine.session import ControlSession, Event
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.messages import Message

LOCAL_CONTROL = "aeron:ipc?term-length=64k"
RESPONSE_STREAM = 20
RESPONSE_PORT, REPLAY_PORT = 8100, 8200
"""The ports at the archive's host from which answers and replays come over response channels, one for each client."""
MESSAGE_TIMEOUT_MS = 5000


def client_options(
    number: int, host: str, control: str, *, is_local: bool, has_response_channel: bool
) -> ArchiveClientOptions:
    """The options of the client with a number on a host. ``control`` is the archive's endpoint."""
    requests = LOCAL_CONTROL if is_local and not has_response_channel else f"aeron:udp?endpoint={control}"
    if has_response_channel:
        responses = response_channel(control, RESPONSE_PORT + number)
    else:
        responses = "aeron:ipc" if is_local else f"aeron:udp?endpoint={host}:0"
    return ArchiveClientOptions(
        control_request_channel=requests,
        control_response_channel=responses,
        control_response_stream_id=RESPONSE_STREAM + number,
        message_timeout_ms=MESSAGE_TIMEOUT_MS,
    )


def response_channel(control: str, port: int) -> str:
    """A channel on which the archive answers from one of its ports."""
    return f"aeron:udp?control-mode=response|control={control.partition(':')[0]}:{port}"


def request_channel(options: ArchiveClientOptions, subscription_id: int) -> str:
    """The channel to ask for a replay to the subscription with an id."""
    changes = {"response-correlation-id": str(subscription_id), "term-length": "64k"}
    return str(ChannelUri.parse(options.control_request_channel).with_params(changes))


class TappedSession(ControlSession):
    """A session that shows each message before it takes it."""

    def __init__(self, session: ControlSession, on_message: Callable[[Message], None]) -> None:
        super().__init__(session.session_id, session.archive_id, session.version, MESSAGE_TIMEOUT_MS * 1_000_000)
        self._on_message = on_message

    def receive(self, data: bytes, now_ns: int) -> list[Event]:
        """Show a message, and take it."""
        self._on_message(decode(data))
        return super().receive(data, now_ns)
