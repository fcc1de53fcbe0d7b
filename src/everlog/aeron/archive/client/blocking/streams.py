"""Replays and recorded publications of a blocking client."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from dataclasses import replace
from typing import TypeVar

from everlog.aeron.archive.client.blocking.replayed import ReplayedMessages
from everlog.aeron.archive.client.blocking.requests import BlockingRequests
from everlog.aeron.archive.client.connection.core import (
    ClientCore,
    awaited_channel,
    is_response_channel,
    is_unresolved,
    no_subscription,
    replayed_channel,
    unresolved,
    with_session_id,
)
from everlog.aeron.archive.client.connection.link import Ticket
from everlog.aeron.archive.client.connection.replay import OpenReplay
from everlog.aeron.archive.client.errors import timeout
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import ReplayParams
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication
from everlog.aeron.transport.client.subscription import Subscription
from everlog.errors import UsageError

T = TypeVar("T")
WHOLE = ReplayParams()
PendingAnswer = tuple[Ticket[T], threading.Event]


class BlockingStreams(BlockingRequests):
    """What a blocking client does with streams: it records its own publications, and receives replays."""

    _core: ClientCore
    _lock: threading.RLock

    @property
    @abstractmethod
    def options(self) -> ArchiveClientOptions:
        """The client's options."""

    @property
    @abstractmethod
    def aeron(self) -> Aeron:
        """The Aeron client that it uses."""

    @abstractmethod
    def poll(self) -> bool:
        """Do the session's work."""

    @abstractmethod
    def _submit(self, call: Call[T]) -> PendingAnswer[T]:
        """Start a request."""

    @abstractmethod
    def _finish(self, pending: PendingAnswer[T]) -> T:
        """Wait for the answer."""

    @abstractmethod
    def _cancel(self, ticket: Ticket[T]) -> None:
        """Forget a request."""

    # Recording one's own publications

    def add_recorded_publication(self, channel: str, stream_id: int) -> Publication:
        """Add a publication and record it, and nothing else of its stream. Raises :class:`UsageError` if the
        publication exists already."""
        publication = self.aeron.add_publication(channel, stream_id)
        if not publication.is_original:
            publication.close()
            where = f"publication {channel}, stream {stream_id}"
            raise UsageError(where, message=f"{where} already added")
        self._record(publication, channel, stream_id)
        return publication

    def add_recorded_exclusive_publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """Like :meth:`add_recorded_publication`, exclusive."""
        publication = self.aeron.add_exclusive_publication(channel, stream_id)
        self._record(publication, channel, stream_id)
        return publication

    def _record(self, publication: Publication | ExclusivePublication, channel: str, stream_id: int) -> None:
        try:
            self.start_recording(with_session_id(channel, publication.session_id), stream_id, SourceLocation.LOCAL)
        except BaseException:
            publication.close()
            raise

    def stop_recording_of(self, publication: Publication | ExclusivePublication) -> None:
        """Stop the recording of a publication that was added here. Source: stopRecording(Publication)."""
        self.stop_recording(with_session_id(publication.channel, publication.session_id), publication.stream_id)

    # Replays

    def start_replay(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> int:
        """Replay a recording to a channel. Returns the replay session's id, for :meth:`stop_replay`; its low 32 bits
        are the session id of the replayed stream."""
        params = self._with_length(recording_id, params)
        if not is_response_channel(replay_channel):
            return self._call(calls.replay(recording_id, replay_channel, replay_stream_id, params))
        if params.subscription_registration_id is None:
            raise no_subscription()
        return self._replay_over_response(recording_id, replay_channel, replay_stream_id, params)[0]

    def replay(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> Subscription:
        """Replay a recording, and return a subscription that receives the replay alone. Close it to end the replay."""
        subscription, _, correlation_id = self._replay(recording_id, replay_channel, replay_stream_id, params)
        self._core.inbox.unwatch(correlation_id)
        return subscription

    def replay_messages(
        self, recording_id: int, replay_channel: str, replay_stream_id: int, params: ReplayParams = WHOLE
    ) -> ReplayedMessages:
        """Replay a recording, and return its messages: to iterate over, or in batches that Arrow takes."""
        subscription, replay_session_id, correlation_id = self._replay(
            recording_id, replay_channel, replay_stream_id, params
        )
        ids, timeout_s = (replay_session_id, correlation_id), self.options.message_timeout_ms / 1000
        return ReplayedMessages(OpenReplay(subscription, ids, self._core.inbox, self.poll, timeout_s))

    def _with_length(self, recording_id: int, params: ReplayParams) -> ReplayParams:
        """Return the parameters with an explicit length, up to what is recorded now: old archives need one."""
        if not self._core.is_length_needed(params):
            return params
        start = self.start_position(recording_id) if params.position is None else params.position
        end = self.recording_position(recording_id)
        if end is None:
            end = self.stop_position(recording_id)
        return replace(params, position=start, length=max(0, (start if end is None else end) - start))

    def _replay(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[Subscription, int, int]:
        """The subscription, the replay session's id, and the correlation id of the request."""
        params = self._with_length(recording_id, params)
        if is_response_channel(channel):
            subscription = self.aeron.add_subscription(channel, stream_id)
            chosen = replace(params, subscription_registration_id=subscription.registration_id)
            try:
                ids = self._replay_over_response(recording_id, channel, stream_id, chosen)
            except BaseException:
                subscription.close()
                raise
            return subscription, *ids
        if is_unresolved(channel):
            return self._replay_to_any_port(recording_id, channel, stream_id, params)
        with self._lock:
            pending = self._submit(calls.replay(recording_id, channel, stream_id, params))
            correlation_id = pending[0].correlation_id
            self._core.inbox.watch(correlation_id)
        try:
            replay_session_id = self._finish(pending)
            try:
                subscription = self.aeron.add_subscription(replayed_channel(channel, replay_session_id), stream_id)
            except BaseException:
                self.stop_replay(replay_session_id)
                raise
        except BaseException:
            self._core.inbox.unwatch(correlation_id)
            raise
        return subscription, replay_session_id, correlation_id

    def _replay_to_any_port(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[Subscription, int, int]:
        """Subscribe first: the request names the port that the driver has chosen."""
        subscription = self.aeron.add_subscription(awaited_channel(channel), stream_id)
        correlation_id = None
        try:
            resolved = self._resolved(subscription)
            with self._lock:
                pending = self._submit(calls.replay(recording_id, resolved, stream_id, params))
                correlation_id = pending[0].correlation_id
                self._core.inbox.watch(correlation_id)
            return subscription, self._finish(pending), correlation_id
        except BaseException:
            if correlation_id is not None:
                self._core.inbox.unwatch(correlation_id)
            subscription.close()
            raise

    def _resolved(self, subscription: Subscription) -> str:
        timeout_ns = self.options.message_timeout_ns
        deadline_ns = time.monotonic_ns() + timeout_ns
        while (resolved := subscription.resolved_channel()) is None:
            if time.monotonic_ns() >= deadline_ns:
                raise unresolved(subscription.channel, timeout_ns)
            self.poll()
            time.sleep(0.001)
        return resolved

    def _replay_over_response(
        self, recording_id: int, channel: str, stream_id: int, params: ReplayParams
    ) -> tuple[int, int]:
        """Ask for a replay over a publication of its own: the archive answers to the subscription that it names."""
        registration_id = params.subscription_registration_id or 0
        token = self.replay_token(recording_id)
        call = calls.replay(recording_id, channel, stream_id, params, token)
        request_channel = self._core.request_channel_for(registration_id)
        timeout_ns = self.options.message_timeout_ns
        deadline_ns = time.monotonic_ns() + timeout_ns
        with self.aeron.add_exclusive_publication(request_channel, self.options.control_request_stream_id) as requests:
            wake = threading.Event()
            with self._lock:
                data, ticket = self._core.submit_elsewhere(call, wake.set)
            try:
                while not ticket.done and requests.offer(data) < 0:
                    if time.monotonic_ns() >= deadline_ns:
                        raise timeout(call.name, ticket.correlation_id, timeout_ns, was_sent=False)
                    self.poll()
                    time.sleep(0.001)
            except BaseException:
                self._cancel(ticket)
                raise
            return self._finish((ticket, wake)), ticket.correlation_id
