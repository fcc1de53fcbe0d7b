"""The size of a receiver's window, compared with formulas worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from everlog.aeron.transport.driver.receiver.congestion.control import Rebuild
from everlog.aeron.transport.driver.receiver.congestion.cubic import CubicSettings
from everlog.aeron.transport.driver.receiver.congestion.selection import CongestionParameters, congestion_control_for
from everlog.errors import UsageError

SECOND = 1_000_000_000


MS = 1_000_000


@dataclass
class Indicators:
    """Counters by name."""

    values: dict[str, list[int]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> Indicator:
        self.values[name] = []
        return Indicator(self, name)


@dataclass
class Indicator:
    all: Indicators
    name: str

    def set_release(self, value: int) -> None:
        self.all.values[self.name].append(value)

    def close(self) -> None:
        self.all.closed.append(self.name)


def parameters(
    name: str | None, term: int = 16 << 20, mtu: int = 1408, window: int = 0, cubic: CubicSettings | None = None
) -> CongestionParameters:
    return CongestionParameters(
        name=name,
        term_length=term,
        mtu_length=mtu,
        now_ns=0,
        receiver_window_length=window,
        indicators=Indicators(),
        cubic=cubic or CubicSettings(),
    )


def rebuilt(now_ns: int, *, loss: bool = False, consumed: int = 0, told: int = 0) -> Rebuild:
    return Rebuild(now_ns, consumed, told, 0, 0, 0, loss)


@pytest.mark.parametrize(
    ("term", "window", "expected"),
    [(16 << 20, 0, 128 << 10), (64 << 10, 0, 32 << 10), (16 << 20, 1 << 20, 1 << 20), (64 << 10, 1 << 20, 32 << 10)],
)
@pytest.mark.parametrize("name", [None, "static"])
def test_a_static_window_is_what_is_configured_but_half_a_term_at_most(
    name: str | None, term: int, window: int, expected: int
) -> None:
    control = congestion_control_for(parameters(name, term, window=window))
    assert control.initial_window_length == control.max_window_length == expected
    assert control.on_track_rebuild(rebuilt(1, loss=True)) == (expected, False)
    assert not control.should_measure_rtt(1 << 60)


def test_an_unknown_congestion_control_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"cc.*'vegas'"):
        congestion_control_for(parameters("vegas"))


def test_a_cubic_window_begins_with_ten_datagrams() -> None:
    given = parameters("cubic", mtu=4096)
    control = congestion_control_for(given)
    assert control.initial_window_length == 40960
    assert control.max_window_length == 128 << 10
    assert isinstance(given.indicators, Indicators)
    assert given.indicators.values == {"rcv-cc-cubic-rtt": [0], "rcv-cc-cubic-wnd": [40960]}
    assert congestion_control_for(parameters("cubic", mtu=1024, window=4096)).initial_window_length == 4096
    with pytest.raises(UsageError):
        congestion_control_for(parameters("cubic", mtu=8192, window=4096))


def test_a_cubic_window_is_cut_by_a_fifth_by_a_loss_and_is_back_after_its_period() -> None:
    # 128 KiB are 32 MTUs of 4096. K = cbrt(10 * 0.2 / 0.4) = 1.71 s after the loss at a window of 10.
    given = parameters("cubic", mtu=4096)
    control = congestion_control_for(given)
    assert control.on_track_rebuild(rebuilt(1, loss=True)) == (8 * 4096, True)
    window = {}
    for tenths in range(1, 61):
        window[tenths], forced = control.on_track_rebuild(rebuilt(1 + tenths * SECOND // 10))
        assert not forced
    # 0.4 * (t - 1.71)^3 + 10, towards zero before the 10 is added: at 0.1 s -1.67, at 1.7 s 0, at 3.5 s 2.29
    assert [window[t] // 4096 for t in (1, 17, 35)] == [9, 10, 12]
    # at 5.6 s 23.54, at 6 s 31.6
    assert [window[t] // 4096 for t in (56, 60)] == [33 - 1, 32]
    assert all(length % 4096 == 0 and length <= 128 << 10 for length in window.values())
    assert isinstance(given.indicators, Indicators)
    assert given.indicators.values["rcv-cc-cubic-wnd"][:2] == [40960, 8 * 4096]


def test_a_cubic_window_of_one_datagram_tells_of_all_that_is_consumed() -> None:
    control = congestion_control_for(parameters("cubic", mtu=1024, window=1024))
    assert control.on_track_rebuild(rebuilt(1, consumed=32)) == (1024, True)
    assert control.on_track_rebuild(rebuilt(2, consumed=32, told=32)) == (1024, False)
    assert control.on_track_rebuild(rebuilt(3, loss=True)) == (1024, True)


def test_the_round_trip_is_measured_four_times_as_rarely_as_it_takes() -> None:
    given = parameters("cubic", cubic=CubicSettings(measure_rtt=True))
    control = congestion_control_for(given)
    assert control.should_measure_rtt(400_001)
    control.on_rtt_measurement_sent(400_001)
    assert not control.should_measure_rtt(800_001)
    control.on_rtt_measurement(500_000, MS)
    assert not control.should_measure_rtt(500_000 + 4 * MS)
    assert control.should_measure_rtt(500_001 + 4 * MS)
    for forged in (-5, 1 << 62, 1 << 63):
        control.on_rtt_measurement(600_000, forged)
    assert isinstance(given.indicators, Indicators)
    assert given.indicators.values["rcv-cc-cubic-rtt"] == [0, MS]
    control.close()
    assert sorted(given.indicators.closed) == ["rcv-cc-cubic-rtt", "rcv-cc-cubic-wnd"]
    assert not congestion_control_for(parameters("cubic")).should_measure_rtt(1 << 60)


def test_in_tcp_mode_a_window_is_never_smaller_than_tcps() -> None:
    # W = 10: 10 * 0.8 + 3 * 0.2 / 1.8 * t / RTT is 8 + t / 0.3 ms for an RTT of 100 us; over 10 after 0.6 ms
    control = congestion_control_for(parameters("cubic", mtu=4096, cubic=CubicSettings(tcp_mode=True)))
    control.on_track_rebuild(rebuilt(1, loss=True))
    assert control.on_track_rebuild(rebuilt(1 + 450_000))[0] == 9 * 4096
    assert control.on_track_rebuild(rebuilt(1 + 1_500_000))[0] == 13 * 4096


def test_a_round_trip_that_takes_no_time_is_no_error() -> None:
    settings = CubicSettings(initial_rtt_ns=0, tcp_mode=True)
    control = congestion_control_for(parameters("cubic", mtu=4096, cubic=settings))
    control.on_track_rebuild(rebuilt(1, loss=True))
    assert control.on_track_rebuild(rebuilt(1 + MS))[0] == control.max_window_length // 4096 * 4096
