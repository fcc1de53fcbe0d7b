"""Counters that clients create. They end with their client, except static ones. Source: DriverConductor,
CounterLink."""

from __future__ import annotations

from everlog.aeron.layouts import NULL_VALUE
from everlog.aeron.transport.driver.commands.clients import Clients
from everlog.aeron.transport.driver.commands.command_errors import CommandRefused, unknown_counter
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.links import CounterLink
from everlog.aeron.transport.format.counters import ALLOCATED, MAX_KEY_LENGTH, MAX_LABEL_LENGTH
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.aeron.transport.protocol import commands


class UserCounters:
    """All counters created by clients."""

    def __init__(self, context: DriverContext, clients: Clients) -> None:
        self._context = context
        self._clients = clients
        self._links: dict[int, CounterLink] = {}

    def add(self, command: commands.AddCounter) -> None:
        """Allocate a client's counter. A key or label that is too long is cut."""
        context = self._context
        client = self._clients.get_or_add(command.client_id, context.now_ms)
        counter = context.counters.allocate(
            command.counter_type_id,
            command.key[:MAX_KEY_LENGTH],
            command.label[:MAX_LABEL_LENGTH],
            registration_id=command.correlation_id,
            owner_id=command.client_id,
            now_ms=context.now_ms,
        )
        self._links[command.correlation_id] = CounterLink(command.correlation_id, client, counter)
        context.client_proxy.on_counter_ready(command.correlation_id, counter.id)

    def add_static(self, command: commands.AddStaticCounter) -> None:
        """Allocate a counter that lives as long as the driver, or return the existing one."""
        context, counters = self._context, self._context.counters
        self._clients.get_or_add(command.client_id, context.now_ms)
        type_id, registration_id = command.counter_type_id, command.registration_id
        counter_id = self._find(type_id, registration_id)
        if counter_id is None:
            counter_id = counters.allocate(
                type_id,
                command.key[:MAX_KEY_LENGTH],
                command.label[:MAX_LABEL_LENGTH],
                registration_id=registration_id,
                owner_id=NULL_VALUE,
                now_ms=context.now_ms,
            ).id
        elif counters.owner_id(counter_id) != NULL_VALUE:
            text = (
                f"cannot add static counter, because a non-static counter exists (counterId={counter_id}) for"
                f" typeId={type_id} and registrationId={registration_id}"
            )
            raise CommandRefused(ErrorCode.GENERIC_ERROR, text, None)
        context.client_proxy.on_static_counter(command.correlation_id, counter_id)

    def _find(self, type_id: int, registration_id: int) -> int | None:
        counters = self._context.counters
        for counter_id in range(counters.used_count):
            is_it = counters.type_id(counter_id) == type_id and counters.registration_id(counter_id) == registration_id
            if is_it and counters.state(counter_id) == ALLOCATED:
                return counter_id
        return None

    def remove(self, command: commands.RemoveCounter) -> None:
        """Free a client's counter."""
        link = self._links.pop(command.registration_id, None)
        if link is None:
            raise unknown_counter(command.registration_id)
        self._context.client_proxy.operation_succeeded(command.correlation_id)
        self._context.client_proxy.on_unavailable_counter(link.registration_id, link.counter.id)
        link.counter.close()

    def on_time_event(self) -> None:
        """Free the counters of clients that are gone."""
        for link in [link for link in self._links.values() if link.client.is_gone]:
            self._context.client_proxy.on_unavailable_counter(link.registration_id, link.counter.id)
            del self._links[link.registration_id]
            link.counter.close()
