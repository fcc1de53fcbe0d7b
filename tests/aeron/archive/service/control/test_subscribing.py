"""Subscribing to a control channel while the driver is short of resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.archive.service.control.subscribing import RETRY_S, TIMEOUT_S, subscribe_control
from everlog.aeron.transport.client.conducting.runner import Clock
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.errors import StoreUnavailable
from everlog.time_units import NS_PER_S

CHANNEL = "aeron:udp?endpoint=127.0.0.1:8010"


class Driver:
    """Refuses so many times with an error code, then subscribes."""

    def __init__(self, refusals: int, code: int = ErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE) -> None:
        self.asked = 0
        self.now_ns = 0
        self.clock = Clock(lambda: self.now_ns, lambda: 0, lambda seconds: None)
        self._refusals, self._code = refusals, code

    def async_add_subscription(self, channel: str, stream_id: int, **_: object) -> Any:
        self.asked += 1
        return self

    def result(self) -> str:
        if self.asked <= self._refusals:
            raise RegistrationRefused.of("add-subscription", self._code, "no free counter")
        return "subscription"

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        self.now_ns += round(timeout_s * NS_PER_S)
        return condition()


def subscribed(driver: Any) -> Any:
    return subscribe_control(driver, CHANNEL, 10, lambda image: None)


def test_it_is_tried_again_while_the_driver_is_short_of_resources(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(refusals=5)
    assert subscribed(driver) == "subscription"
    assert driver.asked == 6
    short, again = [record.getMessage() for record in caplog.records]
    assert short.startswith(f"control channel {CHANNEL}: the driver is short of resources, trying again: ")
    assert again == f"control channel {CHANNEL}: the driver has resources again"


def test_it_is_given_up_in_time(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(refusals=1 << 40)
    with pytest.raises(StoreUnavailable) as refused:
        subscribed(driver)
    assert str(refused.value).startswith(
        f"can't subscribe to control channel {CHANNEL}, stream 10: a driver that was short of resources for 10 s: "
        "RESOURCE_TEMPORARILY_UNAVAILABLE: no free counter"
    )
    assert driver.asked == pytest.approx(TIMEOUT_S / RETRY_S, abs=2)
    assert len(caplog.records) == 1


def test_another_refusal_is_final(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(refusals=1, code=ErrorCode.INVALID_CHANNEL)
    with pytest.raises(RegistrationRefused):
        subscribed(driver)
    assert (driver.asked, caplog.records) == (1, [])
