"""Requests of sender and receiver to the conductor: queued if they run on other threads, else direct calls. Source:
DriverConductorProxy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from everlog.runtime.doorbell import DoorbellQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationError:
    """A receiver's rejection of a publication. ``address`` is the receiver's; missing ids are -1."""

    registration_id: int
    destination_registration_id: int
    session_id: int
    stream_id: int
    receiver_id: int
    group_tag: int
    address: tuple[str, int]
    error_code: int
    message: str


class ConductorRequests(Protocol):
    """The conductor's methods for requests of sender and receiver."""

    def on_create_publication_image(self, request: Any) -> None: ...
    def on_publication_error(self, error: PublicationError) -> None: ...
    def on_re_resolve_endpoint(self, endpoint_text: str, endpoint: Any, address: Any) -> None: ...
    def on_re_resolve_control(self, control_text: str, channel: Any, endpoint: Any, address: Any) -> None: ...
    def on_close_receive_destination(self, transport: Any) -> None: ...
    def on_response_setup(self, response_correlation_id: int, response_session_id: int) -> None: ...
    def on_response_connected(self, response_correlation_id: int) -> None: ...
    def on_receive_channel_endpoint_closed(self, endpoint: Any) -> None: ...
    def on_send_channel_endpoint_closed(self, endpoint: Any) -> None: ...


class ConductorProxy:
    """Passes requests to ``target``, the conductor, which sets itself. With ``is_direct``, sender and receiver share
    the conductor's thread, and a request is carried out before the call returns. Otherwise any thread may call the
    request methods, and only the conductor calls :meth:`drain`."""

    def __init__(self, *, is_direct: bool = False) -> None:
        self.target: ConductorRequests | None = None
        self._is_direct = is_direct
        self.requests: DoorbellQueue[Callable[[], None]] = DoorbellQueue()

    def drain(self, limit: int = 1) -> int:
        """Carry out at most ``limit`` queued requests. Returns their number."""
        count = 0
        while count < limit and self.requests:
            count += 1
            self.requests.popleft()()
        return count

    def create_publication_image(self, request: Any) -> None:
        """Request an image, after a setup frame for a stream with subscribers."""
        self._offer("on_create_publication_image", request)

    def on_publication_error(
        self,
        registration_id: int,
        destination_registration_id: int,
        session_id: int,
        stream_id: int,
        receiver_id: int,
        group_tag: int | None,
        address: Any,
        error_code: int,
        message: str,
    ) -> None:
        """Report a receiver's error frame for a publication."""
        error = PublicationError(
            registration_id=registration_id,
            destination_registration_id=destination_registration_id,
            session_id=session_id,
            stream_id=stream_id,
            receiver_id=receiver_id,
            group_tag=-1 if group_tag is None else group_tag,
            address=(address.host, address.port),
            error_code=error_code,
            message=message,
        )
        self._offer("on_publication_error", error)

    def re_resolve_endpoint(self, endpoint_text: str, endpoint: Any, address: Any) -> None:
        """Resolve an endpoint's name again, because nobody answers at its address."""
        self._offer("on_re_resolve_endpoint", endpoint_text, endpoint, address)

    def re_resolve_control(self, control_text: str, channel: Any, endpoint: Any, address: Any) -> None:
        """Resolve a control's name again, because nothing arrives from its address."""
        self._offer("on_re_resolve_control", control_text, channel, endpoint, address)

    def close_receive_destination(self, transport: Any) -> None:
        """Close a destination that the receiver released; ``None`` if it had no such destination."""
        self._offer("on_close_receive_destination", transport)

    def response_setup(self, response_correlation_id: int, response_session_id: int) -> None:
        """Report the session id of a response."""
        self._offer("on_response_setup", response_correlation_id, response_session_id)

    def response_connected(self, response_correlation_id: int) -> None:
        """Report that a response publication is connected."""
        self._offer("on_response_connected", response_correlation_id)

    def receive_channel_endpoint_closed(self, endpoint: Any) -> None:
        """Close an endpoint that the receiver released."""
        self._offer("on_receive_channel_endpoint_closed", endpoint)

    def send_channel_endpoint_closed(self, endpoint: Any) -> None:
        """Close an endpoint that the sender released."""
        self._offer("on_send_channel_endpoint_closed", endpoint)

    def _offer(self, name: str, *arguments: Any) -> None:
        if self._is_direct:
            self._do(name, arguments)
        else:
            self.requests.append(partial(self._do, name, arguments))

    def _do(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.target is not None:
            getattr(self.target, name)(*arguments)
