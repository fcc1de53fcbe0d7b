"""All control sessions of a service: opens them for connect requests, gives each request to its session, ends them with
the publication that they came over.

A session belongs to the image over which its client connected: requests for it over another image are not answered,
except for replays with a token (see :mod:`everlog.aeron.archive.service.control.dispatch`). Source:
ControlSessionAdapter, ArchiveConductor.newControlSession.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Protocol

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, SCHEMA_ID, decode
from everlog.aeron.archive.protocol.requests import (
    NULL_VALUE,
    AuthConnect,
    BoundedReplay,
    ChallengeResponse,
    CloseSession,
    Connect,
    KeepAlive,
    Replay,
    SessionRequest,
)
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.channels import built, parse_channel, size_text
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.control.images import ControlImages
from everlog.aeron.archive.service.control.response_stream import PublishedResponses
from everlog.aeron.archive.service.control.session import IMAGE_GONE, SESSION_CLOSED, ControlSession
from everlog.aeron.archive.service.counters import CONTROL_SESSION_TYPE_ID, control_session_key, control_session_label
from everlog.aeron.archive.service.line_limit import LineLimit
from everlog.aeron.archive.service.security.interfaces import Authenticator, AuthorisationService
from everlog.aeron.channel_parameters import parse_size
from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.frames.constants import version_text
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler
from everlog.errors import EverlogError, UnknownMessage
from everlog.runtime.quiet import BUSY, FOREVER
from everlog.time_units import NS_PER_MS, NS_PER_S

_log = logging.getLogger("everlog.aeron.archive")
FRAGMENT_LIMIT = 10
MAX_SESSIONS = 1_000
"""Most control sessions at a time: each has a log buffer and a counter in the driver."""
MAX_RESPONSE_TERM_LENGTH = 1 << 20
"""Longest term of a response publication that a client may ask for, unless the settings have longer ones: it is memory
of the archive's host."""
CHECK_INTERVAL_NS = 50 * NS_PER_MS
"""How often sessions are run that only wait for requests."""
WARNINGS_IN_A_PERIOD, PERIOD_S = 20, 10.0
"""How many warnings are logged within a period at most: a client that sends rubbish does not fill the log."""
_MAX_SESSION_ID = (1 << 31) - 1


class Handler(Protocol):
    """Does what requests ask for."""

    def handle(self, session: ControlSession, request: SessionRequest, image: Image, now_ns: int) -> None:
        """Answer a request of an authenticated session, now or later."""

    def is_elsewhere(self, request: Replay | BoundedReplay) -> bool:
        """Whether the replay is asked for with a token, over another publication than its session's."""

    def session_of_token(self, request: Replay | BoundedReplay, now_ns: int) -> int | None:
        """The id of the session that asked for the token of a replay request; ``None`` if it is not valid."""


class ControlSessions:
    """The sessions, by id. ``count_changed`` is called with their number."""

    def __init__(
        self,
        context: ServiceContext,
        handler: Handler,
        authenticator: Authenticator,
        authorisation: AuthorisationService,
        count_changed: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._context = context
        self._handler = handler
        self._authenticator = authenticator
        self._authorisation = authorisation
        self._count_changed = count_changed
        self._next_id = random.randrange(_MAX_SESSION_ID)
        self._sessions: dict[int, tuple[ControlSession, Image]] = {}
        self._assemblers: dict[int, FragmentAssembler] = {}
        self._gone: list[Image] = []
        self._are_settled = True
        self._paused: set[int] = set()
        """Images, by correlation id, of clients with too many unread answers."""
        self._limit = LineLimit(WARNINGS_IN_A_PERIOD, PERIOD_S)
        self._now_ns = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def next_session_id(self) -> int:
        """Take an id, unique among control sessions and replications."""
        session_id = self._next_id
        self._next_id += 1
        return session_id

    # Duty

    def poll(self, images: ControlImages, now_ns: int) -> int:
        """Read the requests of a control subscription's clients, except clients with too many unread answers.
        Returns the amount of work done."""
        read = 0
        for image in images.due():
            if image.correlation_id in self._paused:
                continue
            assembler = self._assemblers.get(image.correlation_id)
            if assembler is None:
                assembler = self._assembler_of(image)
            self._now_ns = now_ns
            try:
                read += image.poll(assembler, FRAGMENT_LIMIT)
            except Exception as error:  # the message counts as read
                self._context.on_error(error)
                read += 1
        return read

    def _assembler_of(self, image: Image) -> FragmentAssembler:
        assembler = FragmentAssembler(lambda data, _: self._on_message(image, data))
        self._assemblers[image.correlation_id] = assembler
        return assembler

    def on_unavailable_image(self, image: Image) -> None:
        """For the control subscriptions: an image is gone. Its sessions end in the next cycle."""
        self._gone.append(image)

    def do_work(self, now_ns: int) -> int:
        """Run all sessions, and close those that have ended. Returns the amount of work done."""
        done = 0
        self._now_ns = now_ns
        self._are_settled = True
        while self._gone:
            self._end_sessions_of(self._gone.pop())
            done += 1
        self._paused.clear()
        for session, image in list(self._sessions.values()):
            try:
                done += session.do_work(now_ns)
            except Exception as error:  # of one session: the others go on
                self._context.on_error(error)
            if session.is_done:
                self._close(session, image)
                done += 1
            elif not session.is_settled:
                self._are_settled = False
                if session.is_behind:
                    self._paused.add(image.correlation_id)
        return done

    def quiet_until(self) -> int:
        """The time before which only a request can bring work; ``BUSY`` while a session waits for something else.
        Sessions' timers, and the end of clients that no longer listen, may be late by ``CHECK_INTERVAL_NS``."""
        if not self._sessions:
            return BUSY if self._gone else FOREVER
        return self._now_ns + CHECK_INTERVAL_NS if self._are_settled and not self._gone else BUSY

    def _end_sessions_of(self, image: Image) -> None:
        self._assemblers.pop(image.correlation_id, None)
        for session, its_image in self._sessions.values():
            if its_image is image:
                session.abort(
                    f"{IMAGE_GONE} : controlSessionId={session.session_id} image.correlationId={image.correlation_id} "
                    f"sessionId={image.session_id} streamId={image.stream_id}"
                )

    def _close(self, session: ControlSession, image: Image) -> None:
        del self._sessions[session.session_id]
        self._count_changed(len(self._sessions))
        session.close()
        if session.ended_by_fault:
            reason = session.abort_reason or ""
            self._warn("control session %d ended: %s", session.session_id, reason)
            try:
                if not image.is_closed:
                    image.reject(reason)
            except EverlogError as error:
                self._context.on_error(error)

    def close(self) -> None:
        """End all sessions."""
        for session, _ in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._count_changed(0)

    def _warn(self, text: str, *values: object) -> None:
        left_out = self._limit.take(self._now_ns / NS_PER_S)
        if left_out:
            _log.warning("%d more warnings were not logged", left_out)
        if left_out is not None:
            _log.warning(text, *values)

    # Messages

    def _on_message(self, image: Image, data: bytes) -> None:
        try:
            message = decode(data, "control request")
        except UnknownMessage as unknown:
            if f"schema id {SCHEMA_ID}" != unknown.expected:
                return  # a template of a later release
            raise
        now_ns = self._now_ns
        match message:
            case AuthConnect():
                self._connect(image, message, message.encoded_credentials, message.client_info, now_ns)
            case Connect():
                self._connect(image, message, b"", "", now_ns)
            case CloseSession():
                found = self._sessions.get(message.control_session_id)
                if found is not None and found[1] is image:
                    found[0].abort(SESSION_CLOSED)
            case ChallengeResponse():
                session = self._session_of(image, message)
                if session is not None:
                    session.answer_challenge(message.correlation_id, message.encoded_credentials)
            case KeepAlive():
                session = self._session_of(image, message)
                if session is not None:
                    session.activate()
            case SessionRequest():
                self._request(image, message, now_ns)

    def _request(self, image: Image, request: SessionRequest, now_ns: int) -> None:
        session: ControlSession | None
        if isinstance(request, Replay | BoundedReplay) and _has_token(request):
            found = self._sessions.get(self._handler.session_of_token(request, now_ns) or NULL_VALUE)
            session = None if found is None else found[0]
            if session is None:
                self._warn("unknown session or token timeout for a replay of recording %d", request.recording_id)
                return
        else:
            session = self._session_of(image, request)
        if session is None or not session.activate():
            return
        if self._is_authorised(session, request):
            self._handler.handle(session, request, image, now_ns)

    def _session_of(self, image: Image, request: SessionRequest) -> ControlSession | None:
        found = self._sessions.get(request.control_session_id)
        if found is None:
            self._warn("request %s of unknown control session %d", _name(request), request.control_session_id)
            return None
        session, its_image = found
        if its_image is not image:
            self._warn(
                "request %s for control session %d came from another client, %s",
                *(_name(request), session.session_id, image.source_identity),
            )
            return None
        return session

    def _is_authorised(self, session: ControlSession, request: Message) -> bool:
        if self._authorisation.is_authorised(SCHEMA_ID, request.template_id, None, session.principal):
            return True
        self._warn("control session %d may not send %s", session.session_id, _name(request))
        assert isinstance(request, SessionRequest)
        session.send_error(request.correlation_id, ErrorCode.UNAUTHORISED_ACTION, "unauthorised action")
        return False

    # Connecting

    def _connect(
        self, image: Image, request: AuthConnect | Connect, credentials: bytes, client_info: str, now_ns: int
    ) -> None:
        if len(self._sessions) >= MAX_SESSIONS:
            self._warn("refused a client from %s: %d sessions are open", image.source_identity, MAX_SESSIONS)
            return
        channel = self._response_channel(request.response_channel, image)
        refusal = None
        if request.version >> 16 != PROTOCOL_VERSION >> 16:
            versions = version_text(request.version), version_text(PROTOCOL_VERSION)
            refusal = "invalid client version {}, archive is {}".format(*versions)
        session_id = self.next_session_id()
        source = f"sourceIdentity={image.source_identity} sessionId={image.session_id}"
        counter = self._context.aeron.async_add_counter(
            CONTROL_SESSION_TYPE_ID,
            control_session_label(f"{client_info} {source}" if client_info else source, self._context.archive_id),
            control_session_key(self._context.archive_id, session_id),
        )
        stream = PublishedResponses(self._context.aeron, channel, request.response_stream_id, session_id, counter)
        session = ControlSession(
            session_id,
            request.correlation_id,
            stream,
            self._authenticator,
            self._context.settings,
            self._context.now_ms,
            now_ns,
            refusal=refusal,
        )
        self._sessions[session_id] = session, image
        self._count_changed(len(self._sessions))
        try:
            self._authenticator.on_connect_request(session_id, credentials, self._context.now_ms())
        except Exception as error:
            session.abort(f"failed with exception: {error}")
            raise

    def _response_channel(self, asked: str, image: Image) -> str:
        """The channel of the answers: what identifies the client's stream, and the service's own lengths."""
        uri, settings = parse_channel(asked), self._context.settings
        mtu = None if settings.control_mtu_length is None else size_text(settings.control_mtu_length)
        own = {
            "term-length": self._response_term_length(uri),
            "sparse": uri.get("sparse", "true" if settings.control_term_buffer_sparse else "false"),
            "mtu": uri.get("mtu", mtu),
        }
        if uri.get("control-mode") == "response":
            own["response-correlation-id"] = str(image.correlation_id)
        return built(uri, own)

    def _response_term_length(self, uri: ChannelUri) -> str:
        asked, own = uri.get("term-length"), self._context.settings.control_term_buffer_length
        most = max(own, MAX_RESPONSE_TERM_LENGTH)
        if asked is None:
            return size_text(own)
        return asked if parse_size("term-length", asked) <= most else size_text(most)


def _name(request: Message) -> str:
    return type(request).__name__


def _has_token(request: Replay | BoundedReplay) -> bool:
    """Whether the token says which session asks: only on a response channel. Elsewhere it means nothing."""
    if request.replay_token == NULL_VALUE:
        return False
    try:
        return ChannelUri.parse(request.replay_channel).get("control-mode") == "response"
    except InvalidChannel:
        return False
