"""Checks of settings, alone and in combination. Source: Aeron, MediaDriver.Context.conclude and the checks of
Configuration that it calls."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, NoReturn, get_args

from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH
from everlog.aeron.transport.driver.settings import choices
from everlog.aeron.transport.driver.settings.property_values import INT32_MAX, INT64_MAX
from everlog.errors import UsageError, WrongType
from everlog.runtime.idle import IdleStrategyName

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.settings.settings import Settings

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MAX_UDP_PAYLOAD_LENGTH = 65504
TERM_MIN_LENGTH, TERM_MAX_LENGTH = 64 * KIB, GIB
PAGE_MIN_SIZE, PAGE_MAX_SIZE = 4 * KIB, GIB
RING_BUFFER_TRAILER, BROADCAST_TRAILER = 768, 128
RANGES = {
    "conductor_buffer_length": ("aeron.conductor.buffer.length", MIB + RING_BUFFER_TRAILER, INT32_MAX),
    "to_clients_buffer_length": ("aeron.clients.buffer.length", MIB + BROADCAST_TRAILER, INT32_MAX),
    "counter_values_buffer_length": ("aeron.counters.buffer.length", MIB, 500 * MIB),
    "error_buffer_length": ("aeron.error.buffer.length", 4 * MIB, INT32_MAX),
    "loss_report_buffer_length": ("aeron.loss.report.buffer.length", 64, INT32_MAX),
    "publication_term_window_length": ("aeron.publication.term.window.length", 0, TERM_MAX_LENGTH),
    "ipc_publication_term_window_length": ("aeron.ipc.publication.term.window.length", 0, TERM_MAX_LENGTH),
    "publication_term_buffer_length": ("aeron.term.buffer.length", TERM_MIN_LENGTH, TERM_MAX_LENGTH),
    "ipc_term_buffer_length": ("aeron.ipc.term.buffer.length", TERM_MIN_LENGTH, TERM_MAX_LENGTH),
    "file_page_size": ("aeron.file.page.size", PAGE_MIN_SIZE, PAGE_MAX_SIZE),
    "mtu_length": ("aeron.mtu.length", HEADER_LENGTH + FRAME_ALIGNMENT, MAX_UDP_PAYLOAD_LENGTH),
    "ipc_mtu_length": ("aeron.ipc.mtu.length", HEADER_LENGTH + FRAME_ALIGNMENT, MAX_UDP_PAYLOAD_LENGTH),
    "nak_unicast_delay_ns": ("aeron.nak.unicast.delay", 1000, INT64_MAX),
    "nak_unicast_retry_delay_ratio": ("aeron.nak.unicast.retry.delay.ratio", 1, INT64_MAX),
    "nak_multicast_group_size": ("aeron.nak.multicast.group.size", 1, INT32_MAX),
    "unicast_flow_control_rrwm": ("aeron.unicast.flow.control.rrwm", 1, INT32_MAX),
    "multicast_flow_control_rrwm": ("aeron.multicast.flow.control.rrwm", 1, INT32_MAX),
    "flow_control_group_min_size": ("aeron.flow.control.group.min.size", 0, INT32_MAX),
    "max_resend": ("aeron.max.resend", 1, 256),
    "socket_multicast_ttl": ("aeron.socket.multicast.ttl", 0, 255),
    "resource_free_limit": ("aeron.driver.resource.free.limit", 1, INT32_MAX),
    "stream_session_limit": ("aeron.driver.stream.session.limit", 1, INT32_MAX),
    "send_to_status_message_poll_ratio": ("aeron.send.to.status.poll.ratio", 1, INT32_MAX),
    "timer_interval_ns": ("aeron.timer.interval", 1, INT64_MAX),
    "driver_timeout_ms": ("aeron.driver.timeout", 1, INT64_MAX),
}
"""Field to property, least and greatest value."""
POWERS_OF_TWO = ("publication_term_buffer_length", "ipc_term_buffer_length", "file_page_size")


NUMBER, FLAG, TEXT = "a whole number", "True or False", "a str"
TYPES: dict[str, tuple[type | UnionType, str]] = {
    "int": (int, NUMBER),
    "int | None": (int | None, f"{NUMBER} or None"),
    "bool": (bool, FLAG),
    "bool | None": (bool | None, f"{FLAG}, or None"),
    "str": (str, TEXT),
    "str | None": (str | None, f"{TEXT} or None"),
    "tuple[int, int] | None": (tuple | None, "two ports or None"),
    "ThreadingMode": (Enum, "a ThreadingMode"),
}
"""A field's annotation to the type of its values, and to its name in messages."""
CHOICES: dict[str, tuple[str, ...]] = {
    "IdleStrategyName": get_args(IdleStrategyName),
    "choices.UnicastFlowControl": get_args(choices.UnicastFlowControl),
    "choices.MulticastFlowControl": get_args(choices.MulticastFlowControl),
    "choices.CongestionControlName": get_args(choices.CongestionControlName),
    "choices.TerminationValidator": get_args(choices.TerminationValidator),
}
"""A field's annotation to its allowed values."""


def check(settings: Settings) -> None:
    """Check all settings. Raises :class:`UsageError`, which names the property, and :class:`WrongType` for a value of a
    wrong type."""
    _check_types(settings)
    for name, (prop, low, high) in RANGES.items():
        value = getattr(settings, name)
        if not low <= value <= high:
            _refuse(prop, value, f"from {low} to {high}")
    for name in POWERS_OF_TWO:
        value = getattr(settings, name)
        if value & (value - 1):
            _refuse(RANGES[name][0], value, "a power of two")
    for name in ("mtu_length", "ipc_mtu_length"):
        value = getattr(settings, name)
        if value % FRAME_ALIGNMENT:
            _refuse(RANGES[name][0], value, f"a multiple of {FRAME_ALIGNMENT}")
    _check_buffers(settings)
    _check_sessions(settings)
    _check_timeouts(settings)


def _check_types(settings: Settings) -> None:
    for each in fields(settings):
        value, annotation, prop = getattr(settings, each.name), str(each.type), each.metadata["names"][0]
        if annotation in CHOICES:
            if value not in CHOICES[annotation]:
                *names, last = map(repr, CHOICES[annotation])
                expected = f"{', '.join(names)} or {last}" if names else last
                raise UsageError(prop, found=repr(value), expected=expected)
            continue
        kind, expected = TYPES[annotation]
        is_wrong_bool = isinstance(value, bool) and "bool" not in annotation
        if is_wrong_bool or not isinstance(value, kind):
            raise WrongType(prop, found=repr(value), expected=expected)


def _check_buffers(settings: Settings) -> None:
    ring = settings.conductor_buffer_length - RING_BUFFER_TRAILER
    broadcast = settings.to_clients_buffer_length - BROADCAST_TRAILER
    if ring & (ring - 1):
        _refuse(
            "aeron.conductor.buffer.length", ring + RING_BUFFER_TRAILER, f"a power of two plus {RING_BUFFER_TRAILER}"
        )
    if broadcast & (broadcast - 1):
        expected = f"a power of two plus {BROADCAST_TRAILER}"
        _refuse("aeron.clients.buffer.length", broadcast + BROADCAST_TRAILER, expected)
    if settings.mtu_length > settings.initial_window_length:
        expected = f"at least {settings.mtu_length} (aeron.mtu.length)"
        _refuse("aeron.rcv.initial.window.length", settings.initial_window_length, expected)
    send_buffer, receive_buffer = settings.socket_sndbuf_length, settings.socket_rcvbuf_length
    if send_buffer and settings.mtu_length > send_buffer:
        _refuse("aeron.socket.so_sndbuf", send_buffer, f"at least {settings.mtu_length} (aeron.mtu.length)")
    if receive_buffer and settings.initial_window_length > receive_buffer:
        expected = f"at least {settings.initial_window_length} (aeron.rcv.initial.window.length)"
        _refuse("aeron.socket.so_rcvbuf", receive_buffer, expected)
    # The counters' metadata is four times as long as their values.
    total = ring + broadcast + 5 * settings.counter_values_buffer_length + settings.error_buffer_length
    if total + settings.file_page_size > INT32_MAX:
        expected = "a length that keeps cnc.dat below 2 GiB"
        _refuse("aeron.counters.buffer.length", settings.counter_values_buffer_length, expected)


def _check_sessions(settings: Settings) -> None:
    low, high = settings.publication_reserved_session_id_low, settings.publication_reserved_session_id_high
    if not 0 <= high - low <= INT32_MAX:
        expected = f"at least {low} (aeron.publication.reserved.session.id.low) and less than 2^31 above it"
        _refuse("aeron.publication.reserved.session.id.high", high, expected)


def _check_timeouts(settings: Settings) -> None:
    timer, liveness = settings.timer_interval_ns, settings.client_liveness_timeout_ns
    _check_above("aeron.publication.unblock.timeout", settings.publication_unblock_timeout_ns, liveness)
    for prop, value in (
        ("aeron.client.liveness.timeout", liveness),
        ("aeron.untethered.window.limit.timeout", settings.untethered_window_limit_timeout_ns),
        ("aeron.untethered.resting.timeout", settings.untethered_resting_timeout_ns),
        ("aeron.untethered.linger.timeout", settings.untethered_linger_timeout_ns),
    ):
        if value is not None:
            _check_above(prop, value, timer)
    if settings.nak_unicast_delay_ns * settings.nak_unicast_retry_delay_ratio > INT64_MAX:
        expected = "a ratio that keeps the retry delay below 2^63 ns"
        _refuse("aeron.nak.unicast.retry.delay.ratio", settings.nak_unicast_retry_delay_ratio, expected)


def _check_above(prop: str, value: int, limit: int) -> None:
    other = "aeron.client.liveness.timeout" if prop.endswith("unblock.timeout") else "aeron.timer.interval"
    if value <= limit:
        _refuse(prop, value, f"more than {limit} ns ({other})")


def _refuse(prop: str, found: int, expected: str) -> NoReturn:
    raise UsageError(prop, found=str(found), expected=expected)
