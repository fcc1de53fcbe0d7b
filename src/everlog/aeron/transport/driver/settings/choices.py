"""Settings that name a class in Aeron's Java driver and a function in its C driver, mapped to everlog's choices.

Source: Aeron, Configuration.agentIdleStrategy; agrona, the idle strategies' aliases; aeron_flow_control.c,
aeron_congestion_control.c, aeron_termination_validator.c, aeron_agent.c."""

from __future__ import annotations

from typing import Literal

from everlog.aeron.transport.driver.settings.property_values import choice

UnicastFlowControl = Literal["unicast"]
MulticastFlowControl = Literal["max", "min", "tagged"]
CongestionControlName = Literal["default", "static", "cubic"]
TerminationValidator = Literal["deny", "allow"]

IDLE = {
    "noop": "noop",
    "NoOpIdleStrategy": "noop",
    "spin": "spin",
    "busy_spin": "spin",
    "BusySpinIdleStrategy": "spin",
    "yield": "yield",
    "yielding": "yield",
    "YieldingIdleStrategy": "yield",
    "sleep-ns": "sleep-ns",
    "sleeping": "sleep-ns",
    "SleepingIdleStrategy": "sleep-ns",
    "sleep-ms": "sleep-ms",
    "SleepingMillisIdleStrategy": "sleep-ms",
    "backoff": "backoff",
    "BackoffIdleStrategy": "backoff",
    "controllable": "controllable",
    "ControllableIdleStrategy": "controllable",
}
UNICAST_FLOW = {
    "unicast": "unicast",
    "UnicastFlowControl": "unicast",
    "DefaultUnicastFlowControlSupplier": "unicast",
    "aeron_unicast_flow_control_strategy_supplier": "unicast",
}
MULTICAST_FLOW = {
    "max": "max",
    "MaxMulticastFlowControl": "max",
    "MaxMulticastFlowControlSupplier": "max",
    "DefaultMulticastFlowControlSupplier": "max",
    "aeron_max_multicast_flow_control_strategy_supplier": "max",
    "min": "min",
    "MinMulticastFlowControl": "min",
    "MinMulticastFlowControlSupplier": "min",
    "aeron_min_flow_control_strategy_supplier": "min",
    "tagged": "tagged",
    "TaggedMulticastFlowControl": "tagged",
    "TaggedMulticastFlowControlSupplier": "tagged",
    "PreferredMulticastFlowControl": "tagged",
    "PreferredMulticastFlowControlSupplier": "tagged",
    "aeron_tagged_flow_control_strategy_supplier": "tagged",
}
CONGESTION = {
    "default": "default",
    "DefaultCongestionControlSupplier": "default",
    "aeron_congestion_control_default_strategy_supplier": "default",
    "static": "static",
    "StaticWindowCongestionControl": "static",
    "aeron_static_window_congestion_control_strategy_supplier": "static",
    "cubic": "cubic",
    "CubicCongestionControlSupplier": "cubic",
    "aeron_cubic_congestion_control_strategy_supplier": "cubic",
}
VALIDATOR = {
    "deny": "deny",
    "DefaultDenyTerminationValidator": "deny",
    "aeron_driver_termination_validator_default_deny": "deny",
    "allow": "allow",
    "DefaultAllowTerminationValidator": "allow",
    "aeron_driver_termination_validator_default_allow": "allow",
}
THREADING_MODE = {mode: mode for mode in ("INVOKER", "SHARED", "SHARED_NETWORK", "DEDICATED")}

parse_idle = choice(IDLE)
parse_unicast_flow = choice(UNICAST_FLOW)
parse_multicast_flow = choice(MULTICAST_FLOW)
parse_congestion = choice(CONGESTION)
parse_validator = choice(VALIDATOR)
parse_threading_mode = choice(THREADING_MODE)
