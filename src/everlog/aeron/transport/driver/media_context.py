"""Builds the context of a driver's channel endpoints."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.stream_counters import update_bind_address
from everlog.aeron.transport.driver.system_counters import SystemCounter, SystemCounters
from everlog.aeron.transport.media.context import EndpointCounters, MediaContext
from everlog.aeron.transport.media.network import Network
from everlog.aeron.transport.media.port_manager import SYSTEM_CHOICE, WildcardPortManager


def media_context(context: DriverContext, network: Network, epoch_ns: Callable[[], int]) -> MediaContext:
    """The context that all endpoints of a driver share. ``epoch_ns`` is the clock of the timestamps that channels may
    request."""
    configuration, counters = context.configuration, context.counters
    sender_ports = configuration.sender_wildcard_port_range or SYSTEM_CHOICE
    receiver_ports = configuration.receiver_wildcard_port_range or SYSTEM_CHOICE
    return MediaContext(
        network=network,
        counters=endpoint_counters(context.system_counters),
        errors=context.errors,
        conductor=context.conductor_proxy,
        append_label=lambda counter, text: counters.append_label(counter.id, text),
        update_bind_address=partial(update_bind_address, counters),
        sender_ports=WildcardPortManager(sender_ports, is_sender=True),
        receiver_ports=WildcardPortManager(receiver_ports, is_sender=False),
        receiver_ids=receiver_ids(context.random.getrandbits(64)),
        epoch_ns=epoch_ns,
        receiver_group_tag=configuration.receiver_group_tag,
        socket_sndbuf_length=configuration.socket_sndbuf_length,
        socket_rcvbuf_length=configuration.socket_rcvbuf_length,
        multicast_ttl=configuration.socket_multicast_ttl,
    )


def endpoint_counters(system: SystemCounters) -> EndpointCounters:
    """The system counters that endpoints update."""
    return EndpointCounters(
        invalid_packets=system[SystemCounter.INVALID_PACKETS],
        short_sends=system[SystemCounter.SHORT_SENDS],
        status_messages_received=system[SystemCounter.STATUS_MESSAGES_RECEIVED],
        status_messages_rejected=system[SystemCounter.STATUS_MESSAGES_REJECTED],
        nak_messages_received=system[SystemCounter.NAK_MESSAGES_RECEIVED],
        error_frames_received=system[SystemCounter.ERROR_FRAMES_RECEIVED],
        error_frames_sent=system[SystemCounter.ERROR_FRAMES_SENT],
    )


def receiver_ids(first: int) -> Iterator[int]:
    """Consecutive signed 64-bit receiver ids, starting at ``first``, with wrap-around."""
    return ((number + (1 << 63)) % (1 << 64) - (1 << 63) for number in itertools.count(first))
