"""The metadata of a publication's log. Source: DriverConductor, initLogMetadata."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.transport.driver.commands.publication_params import PublicationParams
from everlog.aeron.transport.memory.log_memory import CONCURRENT_PUBLICATION, EXCLUSIVE_PUBLICATION, LogParameters


@dataclass(frozen=True, slots=True)
class SocketLengths:
    """Socket buffer lengths in bytes: configured (0 for the system's default), the system's default, and the system's
    greatest. The defaults are Linux's."""

    sndbuf: int = 0
    default_sndbuf: int = 106_496
    max_sndbuf: int = 212_992
    rcvbuf: int = 0
    default_rcvbuf: int = 106_496
    max_rcvbuf: int = 212_992


def publication_log(
    params: PublicationParams,
    correlation_id: int,
    sockets: SocketLengths,
    *,
    is_exclusive: bool,
    is_group: bool = False,
) -> LogParameters:
    """The parameters of a publication's log. For an IPC publication, ``sockets`` has only the system's lengths."""
    return LogParameters(
        correlation_id=correlation_id,
        session_id=params.session_id,
        stream_id=params.stream_id,
        initial_term_id=params.initial_term_id,
        term_length=params.term_length,
        mtu_length=params.mtu_length,
        log_type=EXCLUSIVE_PUBLICATION if is_exclusive else CONCURRENT_PUBLICATION,
        term_id=params.term_id if params.has_position else None,
        term_offset=params.term_offset,
        publication_window_length=params.publication_window_length,
        socket_sndbuf_length=sockets.sndbuf,
        os_default_socket_sndbuf_length=sockets.default_sndbuf,
        os_max_socket_sndbuf_length=sockets.max_sndbuf,
        socket_rcvbuf_length=sockets.rcvbuf,
        os_default_socket_rcvbuf_length=sockets.default_rcvbuf,
        os_max_socket_rcvbuf_length=sockets.max_rcvbuf,
        max_resend=params.max_resend,
        entity_tag=params.entity_tag,
        response_correlation_id=params.response_correlation_id,
        linger_timeout_ns=params.linger_timeout_ns,
        untethered_window_limit_timeout_ns=params.untethered_window_limit_timeout_ns,
        untethered_linger_timeout_ns=params.untethered_linger_timeout_ns,
        untethered_resting_timeout_ns=params.untethered_resting_timeout_ns,
        group=is_group,
        is_response=params.is_response,
        sparse=params.is_sparse,
        signal_eos=params.signal_eos,
        spies_simulate_connection=params.spies_simulate_connection,
    )
