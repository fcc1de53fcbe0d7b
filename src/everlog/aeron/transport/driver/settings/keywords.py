"""The driver's settings as keyword arguments, so that type checkers know their names and types."""

from __future__ import annotations

from typing import TypedDict

from everlog.aeron.transport.driver.settings import choices
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.runtime.idle import IdleStrategyName


class SettingKeywords(TypedDict, total=False):
    """The fields of :class:`~everlog.aeron.transport.driver.settings.settings.Settings`, all optional."""

    dir: str
    dir_warn_if_exists: bool
    dir_delete_on_start: bool
    dir_delete_on_shutdown: bool
    print_configuration_on_start: bool
    driver_timeout_ms: int
    threading_mode: ThreadingMode
    termination_validator: choices.TerminationValidator
    conductor_idle_strategy: IdleStrategyName
    sender_idle_strategy: IdleStrategyName
    receiver_idle_strategy: IdleStrategyName
    shared_network_idle_strategy: IdleStrategyName
    shared_idle_strategy: IdleStrategyName
    conductor_cycle_threshold_ns: int
    sender_cycle_threshold_ns: int
    receiver_cycle_threshold_ns: int
    file_page_size: int
    conductor_buffer_length: int
    to_clients_buffer_length: int
    counter_values_buffer_length: int
    error_buffer_length: int
    loss_report_buffer_length: int
    perform_storage_checks: bool
    low_storage_warning_threshold: int
    timer_interval_ns: int
    client_liveness_timeout_ns: int
    counter_free_to_reuse_timeout_ns: int
    resource_free_limit: int
    stream_session_limit: int
    publication_term_buffer_length: int
    ipc_term_buffer_length: int
    term_buffer_sparse_file: bool
    publication_term_window_length: int
    ipc_publication_term_window_length: int
    mtu_length: int
    ipc_mtu_length: int
    publication_unblock_timeout_ns: int
    publication_connection_timeout_ns: int
    publication_linger_timeout_ns: int
    publication_reserved_session_id_low: int
    publication_reserved_session_id_high: int
    spies_simulate_connection: bool
    image_liveness_timeout_ns: int
    initial_window_length: int
    status_message_timeout_ns: int
    send_to_status_message_poll_ratio: int
    tether_subscriptions: bool
    reliable_stream: bool
    rejoin_stream: bool
    untethered_window_limit_timeout_ns: int
    untethered_linger_timeout_ns: int | None
    untethered_resting_timeout_ns: int
    receiver_group_consideration: bool | None
    receiver_group_tag: int | None
    congestion_control: choices.CongestionControlName
    cubic_measure_rtt: bool
    cubic_initial_rtt_ns: int
    cubic_tcp_mode: bool
    nak_multicast_group_size: int
    nak_multicast_max_backoff_ns: int
    nak_unicast_delay_ns: int
    nak_unicast_retry_delay_ratio: int
    retransmit_unicast_delay_ns: int
    retransmit_unicast_linger_ns: int
    max_resend: int
    unicast_flow_control: choices.UnicastFlowControl
    multicast_flow_control: choices.MulticastFlowControl
    flow_control_group_tag: int
    flow_control_group_min_size: int
    flow_control_receiver_timeout_ns: int
    unicast_flow_control_rrwm: int
    multicast_flow_control_rrwm: int
    socket_rcvbuf_length: int
    socket_sndbuf_length: int
    socket_multicast_ttl: int
    sender_wildcard_port_range: tuple[int, int] | None
    receiver_wildcard_port_range: tuple[int, int] | None
    resolver_name: str | None
    resolver_interface: str | None
    resolver_bootstrap_neighbor: str | None
    resolver_neighbor_timeout_ns: int
    resolver_self_resolution_interval_ns: int
    resolver_neighbor_resolution_interval_ns: int
    resolver_bootstrap_neighbor_resolution_interval_ns: int
    re_resolution_check_interval_ns: int
    name_resolver_threshold_ns: int
