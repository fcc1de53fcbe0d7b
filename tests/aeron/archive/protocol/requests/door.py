"""A raw client of an archive's control protocol: what it is told to send it sends, what comes it keeps."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, SCHEMA_VERSION, decode, encode
from everlog.aeron.archive.protocol.requests import AuthConnect
from everlog.aeron.messages import HEADER_LENGTH, Message
from everlog.aeron.transport.client import Aeron, FragmentAssembler

NO_SESSION = -1


class Door:
    """A request publication and a response subscription. ``session_id`` is that of its control session, once it has
    one."""

    def __init__(
        self,
        name: str,
        aeron: Aeron,
        request: tuple[str, int],
        response: tuple[str, int],
        heard: Callable[[Door, Message], object],
    ) -> None:
        self.name = name
        self.session_id = NO_SESSION
        self.response_stream_id = response[1]
        self._subscription = aeron.add_subscription(*response)
        self._publication = aeron.add_exclusive_publication(*request)
        self._aeron = aeron
        self._assembler = FragmentAssembler(lambda payload, _: heard(self, decode(payload)))
        if not aeron.wait_until(lambda: self._publication.is_connected):
            raise TimeoutError(f"no archive listens on {request}")

    @property
    def response_channel(self) -> str:
        """With the port that was chosen for it."""
        assert self._aeron.wait_until(lambda: self._subscription.resolved_channel() is not None)
        return self._subscription.resolved_channel() or ""

    def connect_request(self, correlation_id: int, credentials: bytes = b"") -> AuthConnect:
        """For this door's responses."""
        channel, stream_id = self.response_channel, self.response_stream_id
        return AuthConnect(correlation_id, stream_id, PROTOCOL_VERSION, channel, credentials, f"table {self.name}")

    def send(self, message: Message | bytes) -> None:
        """Send a request, or bytes as they are."""
        self._publication.send(message if isinstance(message, bytes) else encode(message))

    def poll(self) -> int:
        """Hear what has come."""
        return self._subscription.poll(self._assembler)

    def close(self) -> None:
        """Close both."""
        self._publication.close()
        self._subscription.close()


def with_header(message: Message, *, template: int | None = None, schema: int | None = None) -> bytes:
    """A message with another template or schema id in its header."""
    data = bytearray(encode(message))
    if template is not None:
        data[2:4] = template.to_bytes(2, "little")
    if schema is not None:
        data[4:6] = schema.to_bytes(2, "little")
    return bytes(data)


def older(message: Message, block_length: int, version: int) -> bytes:
    """A message as a client of an earlier schema sends it: a shorter block."""
    data = encode(message)
    length = int.from_bytes(data[0:2], "little")
    assert block_length <= length
    assert version < SCHEMA_VERSION
    head = block_length.to_bytes(2, "little") + data[2:6] + version.to_bytes(2, "little")
    return head + data[HEADER_LENGTH : HEADER_LENGTH + block_length] + data[HEADER_LENGTH + length :]
