"""Connects to an archive over an Aeron client, without waiting: poll it until it gives a link."""

from __future__ import annotations

from typing import TypeVar

from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.connection.link import FRAGMENT_LIMIT, ControlLink
from everlog.aeron.archive.client.machine.connecting import Connecting, ConnectRequest, State, StreamsSeen
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.errors import EverlogError

T = TypeVar("T")


class Connector:
    """One attempt to connect. After an error, or if it is no longer wanted, close it."""

    def __init__(self, aeron: Aeron, options: ArchiveClientOptions, inbox: Inbox, now_ns: int) -> None:
        request = ConnectRequest(
            response_stream_id=options.control_response_stream_id,
            credentials=options.credentials_supplier,
            client_info=options.shown_client_info,
            message_timeout_ns=options.message_timeout_ns,
            next_correlation_id=aeron.next_correlation_id,
        )
        self._aeron = aeron
        self._options = options
        self._inbox = inbox
        self._machine = Connecting(request, now_ns)
        self._requests = options.with_defaults(options.control_request_channel)
        self._responses = options.with_defaults(options.control_response_channel)
        if not options.has_response_channel:
            # With one session id for both directions the archive's answers reach this client alone.
            session_id = str(aeron.next_session_id(options.control_request_stream_id))
            self._requests = self._requests.with_params({"session-id": session_id})
            self._responses = self._responses.with_params({"session-id": session_id})
        self._adding_subscription: Registration[Subscription] | None = None
        self._adding_publication: Registration[ExclusivePublication] | None = None
        self._subscription: Subscription | None = None
        self._publication: ExclusivePublication | None = None
        self._assembler = FragmentAssembler(lambda data, _: self._machine.receive(data))

    @property
    def state(self) -> State:
        """Where the attempt is."""
        return self._machine.state

    def poll(self, now_ns: int) -> ControlLink | None:
        """Go on; returns the link once it is there. Raises :class:`ArchiveTimeout`, :class:`ArchiveError` if the
        archive refuses, :class:`RegistrationRefused` if the driver does."""
        machine = self._machine
        self._add_streams()
        if self._subscription is not None and self._publication is not None:
            try:
                self._subscription.poll(self._assembler, FRAGMENT_LIMIT)
            except EverlogError:
                if machine.farewell is not None:
                    self._publication.offer(machine.farewell)
                raise
        machine.step(self._seen(), now_ns)
        outgoing, publication = machine.outgoing, self._publication
        if outgoing is not None and publication is not None and publication.offer(outgoing) >= 0:
            machine.sent()
        if machine.session is None or self._publication is None or self._subscription is None:
            return None
        attempts = self._options.message_retry_attempts
        link = ControlLink(machine.session, self._publication, self._subscription, self._inbox, attempts)
        self._subscription = self._publication = None
        return link

    def _add_streams(self) -> None:
        options, aeron = self._options, self._aeron
        if self._machine.state is State.AWAIT_SUBSCRIPTION and self._subscription is None:
            if self._adding_subscription is None:
                stream_id = options.control_response_stream_id
                self._adding_subscription = aeron.async_add_subscription(str(self._responses), stream_id)
            self._subscription = _granted(self._adding_subscription)
            if self._adding_subscription.done:
                self._adding_subscription = None
        elif self._machine.state is State.ADD_PUBLICATION and self._publication is None:
            if self._adding_publication is None:
                channel, stream_id = self._request_channel(), options.control_request_stream_id
                self._adding_publication = aeron.async_add_exclusive_publication(channel, stream_id)
            self._publication = _granted(self._adding_publication)
            if self._adding_publication.done:
                self._adding_publication = None

    def _request_channel(self) -> str:
        if not self._options.has_response_channel or self._subscription is None:
            return str(self._requests)
        correlation = str(self._subscription.registration_id)
        return str(self._requests.with_params({"response-correlation-id": correlation}))

    def _seen(self) -> StreamsSeen:
        subscription, publication = self._subscription, self._publication
        return StreamsSeen(
            has_subscription=subscription is not None,
            has_publication=publication is not None,
            is_publication_connected=publication is not None and publication.is_connected,
            is_subscription_connected=subscription is not None and subscription.is_connected,
            response_channel=None if subscription is None else subscription.resolved_channel(),
        )

    def close(self) -> None:
        """Give back the streams of an attempt that did not succeed."""
        for adding in (self._adding_subscription, self._adding_publication):
            if adding is not None:
                adding.cancel()
        for stream in (self._publication, self._subscription):
            if stream is not None:
                stream.close()


def _granted(adding: Registration[T]) -> T | None:
    """What the driver granted; ``None`` until then, and if it asks to try again."""
    if not adding.done:
        return None
    try:
        return adding.result()
    except RegistrationRefused as refused:
        if refused.error_code == ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE:
            return None
        raise
