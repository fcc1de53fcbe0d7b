"""The driver's clients and their liveness. Keepalive commands update a client's heartbeat counter; a client that is
silent for too long is gone, and its resources are freed. Source: AeronClient, DriverConductor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everlog.aeron.transport.driver import stream_counters
from everlog.aeron.transport.driver.commands.client_proxy import ClientProxy
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.time_units import NS_PER_MS


@dataclass(slots=True)
class Client:
    """A client. Once ``is_gone`` is set, its resources are freed."""

    client_id: int
    heartbeat: AtomicCounter
    is_gone: bool = False
    is_closed_by_command: bool = False


class Clients:
    """All clients. ``on_timeout`` is called for each client that times out without closing."""

    def __init__(
        self, counters: Counters, client_proxy: ClientProxy, liveness_timeout_ns: int, on_timeout: Callable[[], object]
    ) -> None:
        self._counters = counters
        self._client_proxy = client_proxy
        self._liveness_timeout_ms = max(1, liveness_timeout_ns // NS_PER_MS)
        self._on_timeout = on_timeout
        self._clients: dict[int, Client] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def get_or_add(self, client_id: int, now_ms: int) -> Client:
        """Return a client. A new one gets a heartbeat counter, and is notified of it."""
        client = self._clients.get(client_id)
        if client is None:
            heartbeat = stream_counters.client_heartbeat(self._counters, client_id, now_ms)
            client = self._clients[client_id] = Client(client_id, heartbeat)
            self._client_proxy.on_counter_ready(client_id, heartbeat.id)
        return client

    def on_keepalive(self, client_id: int, now_ms: int) -> None:
        """Update a client's heartbeat. Unknown clients are ignored."""
        client = self._clients.get(client_id)
        if client is not None:
            client.heartbeat.set_release(now_ms)

    def on_close(self, client_id: int) -> None:
        """Handle a client's close command; the next time event removes the client."""
        client = self._clients.get(client_id)
        if client is not None:
            client.is_closed_by_command = True
            client.heartbeat.set_release(0)

    def on_time_event(self, now_ms: int) -> None:
        """Remove clients that closed or timed out, and mark them as gone for the holders of their resources."""
        for client in list(self._clients.values()):
            if now_ms <= client.heartbeat.get() + self._liveness_timeout_ms:
                continue
            client.is_gone = True
            if not client.is_closed_by_command:
                self._on_timeout()
                self._client_proxy.on_client_timeout(client.client_id)
            self._client_proxy.on_unavailable_counter(client.client_id, client.heartbeat.id)
            del self._clients[client.client_id]
            client.heartbeat.close()
