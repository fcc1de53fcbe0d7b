"""The driver's conductor: carries out clients' commands, checks which clients are alive, and moves limits. Source:
DriverConductor, ClientCommandAdapter.

It has no clock, thread, file or socket of its own: each cycle gets the time, and long operations are tasks
(:mod:`everlog.runtime.tasks`). A command either finishes in one cycle or is a generator that waits for a task. The next
command starts only after it, so that commands take effect in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver import publication_errors
from everlog.aeron.transport.driver.commands.clients import Clients
from everlog.aeron.transport.driver.commands.command_errors import (
    as_refused,
    refused,
    unknown_publication,
    unknown_subscription,
)
from everlog.aeron.transport.driver.commands.conductor_proxy import PublicationError
from everlog.aeron.transport.driver.commands.sessions import Sessions
from everlog.aeron.transport.driver.conductor.image_notices import ImageNotices
from everlog.aeron.transport.driver.conductor.ipc_streams import IpcStreams
from everlog.aeron.transport.driver.conductor.streams import Streams
from everlog.aeron.transport.driver.conductor.user_counters import UserCounters
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.log_factory import FreedLogs
from everlog.aeron.transport.driver.system_counters import CycleTime, SystemCounter
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.protocol import commands
from everlog.errors import CorruptData, UnknownMessage
from everlog.kernel.watch import WordPair
from everlog.runtime.quiet import BUSY

IPC_PREFIX = "aeron:ipc"
SPY_PREFIX = "aeron-spy"
COMMAND_LIMIT = 1
"""Most commands started in one cycle."""
REQUEST_LIMIT = 16
"""Most requests of sender and receiver carried out in one cycle."""
MAX_REASON_LENGTH = 1023
CLOSED_HEARTBEAT = -1
"""The heartbeat value that shows clients that the driver was closed normally."""
LOOPBACK = "127.0.0.1", 0
"""The source address in the rejection of an IPC image."""

Handler = Callable[[Any], "Iterator[None] | None"]


class NetworkCommandHandler(Protocol):
    """The conductor's network part."""

    def handlers(self) -> Mapping[type, Handler]:
        """The handlers of commands that only concern the network."""

    def add_publication(self, command: commands.AddPublication, *, is_exclusive: bool) -> Iterator[None] | None: ...
    def add_subscription(self, command: commands.AddSubscription) -> Iterator[None] | None: ...
    def add_receive_destination(self, command: commands.AddRcvDestination) -> Iterator[None] | None: ...
    def remove_receive_destination(self, command: commands.RemoveRcvDestination) -> Iterator[None] | None: ...
    def reject_image(self, command: commands.RejectImage) -> bool: ...
    def cleanup_subscription_link(self, link: Any) -> None: ...
    def on_publications_time_event(self, now_ns: int, now_ms: int) -> None: ...
    def on_images_time_event(self, now_ns: int, now_ms: int) -> None: ...
    def do_work(self, now_ns: int, now_ms: int) -> int: ...
    def close(self) -> None: ...
    @property
    def is_busy(self) -> bool: ...


class DriverConductor:
    """The conductor's agent. ``network`` creates the network part from the shared context and streams; ``None`` is for
    a driver without network. ``on_terminate`` is called when a client terminates the driver and may do so."""

    name = "driver-conductor"

    def __init__(
        self,
        context: DriverContext,
        network: Callable[[DriverContext, Streams], NetworkCommandHandler] | None = None,
        on_terminate: Callable[[], None] | None = None,
    ) -> None:
        configuration, system = context.configuration, context.system_counters
        self.context = context
        self._on_terminate = on_terminate
        timeouts = system[SystemCounter.CLIENT_TIMEOUTS]
        self._clients = Clients(
            context.counters,
            context.client_proxy,
            configuration.client_liveness_timeout_ns,
            timeouts.increment_release,
        )
        self._sessions = Sessions(
            context.random.randint(-(1 << 31), (1 << 31) - 1),
            configuration.publication_reserved_session_id_low,
            configuration.publication_reserved_session_id_high,
        )
        notices = ImageNotices(context.client_proxy)
        freed = FreedLogs(context.tasks, system[SystemCounter.FREE_FAILS])
        self.streams = Streams(self._clients, self._sessions, notices, freed)
        self._ipc = IpcStreams(context, self.streams)
        self._counters = UserCounters(context, self._clients)
        self._network = None if network is None else network(context, self.streams)
        self._handlers: dict[type, Handler] = self._own_handlers()
        if self._network is not None:
            self._handlers.update(self._network.handlers())
        self._pending: Iterator[None] | None = None
        self._pending_id = 0
        self._timer_deadline_ns = context.now_ns + configuration.timer_interval_ns
        self._blocked_since_ns = context.now_ns
        self._last_command_position = context.to_driver.consumer_position
        self._cycle_time = CycleTime(
            system[SystemCounter.CONDUCTOR_MAX_CYCLE_TIME],
            system[SystemCounter.CONDUCTOR_CYCLE_TIME_THRESHOLD_EXCEEDED],
            configuration.conductor_cycle_threshold_ns,
        )
        context.to_driver.consumer_heartbeat = context.now_ms

    def _own_handlers(self) -> dict[type, Handler]:
        clients, counters = self._clients, self._counters
        return {
            commands.AddPublication: lambda command: self._add_publication(command, is_exclusive=False),
            commands.AddExclusivePublication: lambda command: self._add_publication(command, is_exclusive=True),
            commands.RemovePublication: self._remove_publication,
            commands.AddSubscription: self._add_subscription,
            commands.RemoveSubscription: self._remove_subscription,
            commands.AddRcvDestination: self._add_receive_destination,
            commands.RemoveRcvDestination: self._remove_receive_destination,
            commands.AddCounter: counters.add,
            commands.AddStaticCounter: counters.add_static,
            commands.RemoveCounter: counters.remove,
            commands.ClientKeepalive: lambda command: clients.on_keepalive(command.client_id, self.context.now_ms),
            commands.ClientClose: lambda command: clients.on_close(command.client_id),
            commands.TerminateDriver: self._terminate,
            commands.RejectImage: self._reject_image,
            commands.GetNextAvailableSessionId: self._next_session_id,
        }

    # The cycle

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Run one cycle at ``now_ns`` (monotonic) and ``now_ms`` (since 1970). Returns the amount of work done."""
        context = self.context
        context.now_ns = now_ns
        context.now_ms = context.errors.now_ms = context.counters.now_ms = now_ms
        self._cycle_time.measure(now_ns)
        work_count = 0
        if now_ns - self._timer_deadline_ns > 0:
            self._timer_deadline_ns = now_ns + context.configuration.timer_interval_ns
            self._on_timer(now_ns, now_ms)
            work_count += 1
        if self._pending is None:
            work_count += self._read_commands()
        else:
            self._step()
            work_count += 1
        guard = context.errors.guard
        work_count += self._ipc.update_limits() + guard(context.conductor_proxy.drain, REQUEST_LIMIT)
        if self._network is not None:
            work_count += guard(self._network.do_work, now_ns, now_ms)
        return work_count + guard(self.streams.freed_logs.do_work)

    def quiet_until(self) -> int:
        """See :class:`~everlog.runtime.agent_runner.Agent`. Without streams the conductor only waits for commands and
        its timer."""
        is_busy = self._pending is not None or self.streams.has_any
        if self._network is not None and self._network.is_busy:
            is_busy = True
        if not self.context.conductor_proxy.requests.listen() or is_busy:
            return BUSY
        return self._timer_deadline_ns + 1

    @property
    def words(self) -> Sequence[WordPair]:
        """The words that change when a command or a request is queued."""
        return self.context.to_driver.words, self.context.conductor_proxy.requests.words

    def sockets(self) -> Sequence[int]:
        """Return no sockets: the conductor polls none."""
        return ()

    def resume(self) -> None:
        """Exclude the idle time from the measured cycle times."""
        self._cycle_time.restart()

    def close(self) -> None:
        """Notify clients that the driver stopped, and delete its logs."""
        self._pending = None
        if self._network is not None:
            self._network.close()
        self._ipc.close()
        self.context.tasks.close()
        self.streams.freed_logs.free_all()
        self.context.to_driver.consumer_heartbeat = CLOSED_HEARTBEAT

    def _on_timer(self, now_ns: int, now_ms: int) -> None:
        self.context.to_driver.consumer_heartbeat = now_ms
        guard = self.context.errors.guard
        guard(self._clients.on_time_event, now_ms)
        self._close_links_of_gone_clients(self.streams.publication_links)
        if self._network is not None:
            guard(self._network.on_publications_time_event, now_ns, now_ms)
        for link in self._close_links_of_gone_clients(self.streams.subscription_links):
            guard(self._cleanup_subscription_link, link)
        if self._network is not None:
            guard(self._network.on_images_time_event, now_ns, now_ms)
        guard(self._ipc.on_time_event, now_ns)
        guard(self._counters.on_time_event)
        guard(self._check_for_blocked_commands, now_ns)

    def _close_links_of_gone_clients(self, links: list[Any]) -> list[Any]:
        gone = [link for link in links if link.client.is_gone]
        for link in gone:
            links.remove(link)
            self.context.errors.guard(link.close)
        return gone

    def _check_for_blocked_commands(self, now_ns: int) -> None:
        """Skip the command of a client that died between claiming and writing it, after the client liveness timeout.
        Until then it blocks all other commands."""
        ring = self.context.to_driver
        position = ring.consumer_position
        if position != self._last_command_position or ring.producer_position <= position:
            self._blocked_since_ns = now_ns
            self._last_command_position = position
        elif now_ns - self._blocked_since_ns > self.context.configuration.client_liveness_timeout_ns and ring.unblock():
            self.context.system_counters[SystemCounter.UNBLOCKED_COMMANDS].increment_release()

    # Commands

    def _read_commands(self) -> int:
        try:
            return self.context.to_driver.read(self._on_command, COMMAND_LIMIT)
        except CorruptData as error:
            self.context.errors.record(error)
            return 1

    def _on_command(self, type_id: int, data: bytes) -> None:
        try:
            command = commands.decode_command(type_id, data)
        except UnknownMessage:
            self._refuse(0, refused(ErrorCode.UNKNOWN_COMMAND_TYPE_ID, f"command typeId={type_id}"))
        except CorruptData as error:
            text = f"command={type_id} too short: length={len(data)}: {error}"
            self._refuse(0, refused(ErrorCode.MALFORMED_COMMAND, text))
        else:
            self._begin(command)

    def _begin(self, command: commands.Command) -> None:
        try:
            handler = self._handlers.get(type(command))
            if handler is None:
                raise refused(ErrorCode.NOT_SUPPORTED, f"{type(command).__name__} needs a driver with a network")
            steps = handler(command)
        except Exception as error:
            self._refuse(command.correlation_id, error)
            return
        if steps is not None:
            self._pending, self._pending_id = steps, command.correlation_id
            self._step()

    def _step(self) -> None:
        """Continue the command that waits for a task."""
        assert self._pending is not None
        try:
            next(self._pending)
        except StopIteration:
            self._pending = None
        except Exception as error:
            self._pending = None
            self._refuse(self._pending_id, error)

    def _refuse(self, correlation_id: int, error: Exception) -> None:
        refusal = as_refused(error)
        if refusal.java is not None:
            self.context.errors.record(error)
        self.context.client_proxy.on_error(correlation_id, refusal)

    def _required_network(self) -> NetworkCommandHandler:
        if self._network is None:
            raise refused(ErrorCode.NOT_SUPPORTED, "this driver has no network")
        return self._network

    def _add_publication(self, command: commands.AddPublication, *, is_exclusive: bool) -> Iterator[None] | None:
        if command.channel.startswith(IPC_PREFIX):
            return self._ipc.add_publication(command, is_exclusive=is_exclusive)
        return self._required_network().add_publication(command, is_exclusive=is_exclusive)

    def _remove_publication(self, command: commands.RemovePublication) -> None:
        links = self.streams.publication_links
        link = next((link for link in links if link.registration_id == command.registration_id), None)
        if link is None:
            raise unknown_publication(command.registration_id)
        links.remove(link)
        if command.revoke:
            link.publication.revoke()
        link.close()
        self.context.client_proxy.operation_succeeded(command.correlation_id)

    def _add_subscription(self, command: commands.AddSubscription) -> Iterator[None] | None:
        if command.channel.startswith(IPC_PREFIX):
            self._ipc.add_subscription(command)
            return None
        return self._required_network().add_subscription(command)

    def _remove_subscription(self, command: commands.RemoveSubscription) -> None:
        links = self.streams.subscription_links
        found = [link for link in links if link.registration_id == command.registration_id]
        if not found:
            raise unknown_subscription(command.registration_id)
        for link in found:
            links.remove(link)
            link.close()
            self._cleanup_subscription_link(link)
        self.context.client_proxy.operation_succeeded(command.correlation_id)

    def _cleanup_subscription_link(self, link: Any) -> None:
        if self._network is not None:
            self._network.cleanup_subscription_link(link)

    def _add_receive_destination(self, command: commands.AddRcvDestination) -> Iterator[None] | None:
        if command.channel.startswith(IPC_PREFIX):
            self._ipc.add_destination(command)
            return None
        return self._required_network().add_receive_destination(command)

    def _remove_receive_destination(self, command: commands.RemoveRcvDestination) -> Iterator[None] | None:
        if not command.channel.startswith((IPC_PREFIX, SPY_PREFIX)):
            return self._required_network().remove_receive_destination(command)
        registration_id, links = command.registration_correlation_id, self.streams.subscription_links
        for link in links:
            if link.registration_id == registration_id and link.channel == command.channel:
                break
        else:
            raise unknown_subscription(registration_id)
        images = link.image_ids()
        links.remove(link)
        link.close()
        self._cleanup_subscription_link(link)
        self.context.client_proxy.operation_succeeded(command.correlation_id)
        for image_id in images:
            self.streams.notices.unavailable(image_id, link)
        return None

    def _next_session_id(self, command: commands.GetNextAvailableSessionId) -> None:
        session_id = self._sessions.next_available_on_any(command.stream_id)
        self.context.client_proxy.on_next_available_session_id(command.correlation_id, session_id)

    def _terminate(self, command: commands.TerminateDriver) -> None:
        if self._on_terminate is not None and self.context.configuration.termination_validator == "allow":
            self._on_terminate()

    def _reject_image(self, command: commands.RejectImage) -> None:
        if len(command.reason) > MAX_REASON_LENGTH:
            text = f"Invalidation reason must be {MAX_REASON_LENGTH} bytes or less"
            raise refused(ErrorCode.GENERIC_ERROR, text)
        if self._network is None or not self._network.reject_image(command):
            self._reject_ipc_image(command)
        self.context.system_counters[SystemCounter.IMAGES_REJECTED].increment_release()
        self.context.client_proxy.operation_succeeded(command.correlation_id)

    def _reject_ipc_image(self, command: commands.RejectImage) -> None:
        publication = self._ipc.find(command.image_correlation_id)
        if publication is None:
            text = f"Unable to resolve image for correlationId={command.image_correlation_id}"
            raise refused(ErrorCode.GENERIC_ERROR, text)
        error = PublicationError(
            registration_id=publication.registration_id,
            destination_registration_id=NULL_VALUE,
            session_id=publication.session_id,
            stream_id=publication.stream_id,
            receiver_id=NULL_VALUE,
            group_tag=NULL_VALUE,
            address=LOOPBACK,
            error_code=ErrorCode.IMAGE_REJECTED,
            message=command.reason,
        )
        publication_errors.report(self.context, error)
        publication.reject(self.context.now_ns)
