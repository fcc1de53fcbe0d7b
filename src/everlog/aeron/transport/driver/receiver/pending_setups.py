"""Setup requests that wait for their answer. Source: PendingSetupMessageFromSource, Receiver
(checkPendingSetupMessages)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from everlog.aeron.transport.driver.receiver.endpoint import ReceiveEndpoint
from everlog.kernel.udp import SocketAddress

PENDING_SETUPS_TIMEOUT_NS = 1_000_000_000


@dataclass(slots=True, eq=False)
class PendingSetup:
    """A setup request that a transport of an endpoint sent to ``control_address``. A periodic request is for all
    streams and is repeated; any other is for one stream and session, and is sent once."""

    session_id: int
    stream_id: int
    transport_index: int
    endpoint: ReceiveEndpoint
    control_address: SocketAddress
    asked_ns: int
    is_periodic: bool = False

    def ask(self, now_ns: int) -> None:
        """Send the status message that elicits a setup."""
        self.asked_ns = now_ns
        self.endpoint.send_setup_eliciting_status_message(
            self.transport_index, self.control_address, self.session_id, self.stream_id
        )

    def forget(self) -> None:
        """Give up; the session's next data triggers a new request."""
        self.endpoint.dispatcher.forget_pending(self.stream_id, self.session_id)


class PendingSetups:
    """All pending requests; the ones sent once are in order of time."""

    def __init__(self) -> None:
        self._periodic: list[PendingSetup] = []
        self._once: deque[PendingSetup] = deque()

    def __len__(self) -> int:
        return len(self._periodic) + len(self._once)

    def add(self, pending: PendingSetup) -> None:
        """Add a request that was just sent."""
        if pending.is_periodic:
            self._periodic.append(pending)
        else:
            self._once.append(pending)

    def remove(self, matches: Callable[[PendingSetup], bool]) -> None:
        """Give up on all requests that match."""
        for pending in [each for each in (*self._periodic, *self._once) if matches(each)]:
            pending.forget()
        self._periodic = [each for each in self._periodic if not matches(each)]
        self._once = deque(each for each in self._once if not matches(each))

    def resolve(self, endpoint: ReceiveEndpoint, transport_index: int, address: SocketAddress) -> int:
        """Send periodic requests to a control's new address from now on. Returns their number."""
        changed = 0
        for pending in self._periodic:
            if pending.endpoint is endpoint and pending.transport_index == transport_index:
                pending.control_address = address
                changed += 1
        return changed

    def check(self, now_ns: int) -> int:
        """Expire or repeat the requests that are due. Returns their number."""
        due_ns = now_ns - PENDING_SETUPS_TIMEOUT_NS
        work = 0
        while self._once and self._once[0].asked_ns < due_ns:
            self._once.popleft().forget()
            work += 1
        for pending in self._periodic:
            if pending.asked_ns < due_ns and pending.endpoint.dispatcher.has_interest:
                pending.ask(now_ns)
                work += 1
        return work
