"""Subscribes to the control channels."""

from __future__ import annotations

import logging
from collections.abc import Callable

from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.errors import StoreUnavailable
from everlog.time_units import NS_PER_S

TIMEOUT_S = 10.0
"""How long an archive waits at its start for a driver that is short of resources."""
RETRY_S = 0.1
_log = logging.getLogger("everlog.aeron.archive")


def subscribe_control(
    aeron: Aeron, channel: str, stream_id: int, on_unavailable_image: Callable[[Image], object]
) -> Subscription:
    """Subscribe to a control channel; try again while the driver is short of resources. Raises
    :class:`StoreUnavailable` if it still is after ``TIMEOUT_S``, :class:`RegistrationRefused`,
    :class:`DriverTimeout`."""
    deadline_ns = aeron.clock.now_ns() + round(TIMEOUT_S * NS_PER_S)
    is_waiting = False
    while True:
        adding = aeron.async_add_subscription(channel, stream_id, on_unavailable_image=on_unavailable_image)
        try:
            subscription = adding.result()
        except RegistrationRefused as error:
            if error.error_code != ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE:
                raise
            if aeron.clock.now_ns() >= deadline_ns:
                raise _refusal(channel, stream_id, error) from error
            if not is_waiting:
                _log.warning("control channel %s: the driver is short of resources, trying again: %s", channel, error)
            is_waiting = True
            aeron.wait_until(lambda: False, RETRY_S)
        else:
            if is_waiting:
                _log.warning("control channel %s: the driver has resources again", channel)
            return subscription


def _refusal(channel: str, stream_id: int, error: RegistrationRefused) -> StoreUnavailable:
    found = f"a driver that was short of resources for {TIMEOUT_S:g} s: {error.found}"
    message = f"can't subscribe to control channel {channel}, stream {stream_id}: {found}"
    hint = "free resources of the driver (counters, ports, memory), or choose another control channel"
    return StoreUnavailable(channel, found=found, expected="a subscription", hint=hint, message=message)
