"""Chooses a channel's congestion control: a static window or CUBIC. Source: CongestionControl,
DefaultCongestionControlSupplier, StaticWindowCongestionControl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, JavaException
from everlog.aeron.transport.driver.receiver.congestion.control import CongestionControl, Rebuild
from everlog.aeron.transport.driver.receiver.congestion.cubic import CubicCongestionControl, CubicSettings, Indicator
from everlog.errors import UsageError

STATIC, CUBIC = "static", "cubic"
DEFAULT_WINDOW_LENGTH = 128 << 10


class StaticWindowCongestionControl:
    """A window that never changes."""

    def __init__(self, window_length: int) -> None:
        self._outcome = window_length, False
        self.initial_window_length = window_length
        self.max_window_length = window_length

    def on_track_rebuild(self, rebuild: Rebuild) -> tuple[int, bool]:
        """Return the window; it never requires a status message."""
        return self._outcome

    def should_measure_rtt(self, now_ns: int) -> bool:
        """Return false: the window does not depend on the round-trip time."""
        return False

    def on_rtt_measurement_sent(self, now_ns: int) -> None:
        """Do nothing."""

    def on_rtt_measurement(self, now_ns: int, rtt_ns: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: a static window has no counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionParameters:
    """The parameters of the choice. ``name`` is the channel's ``cc``; ``receiver_window_length`` is the channel's
    ``rcv-wnd``, or 0 for the driver's ``initial_window_length``; ``indicators`` allocates an image's counter of a given
    name."""

    term_length: int
    mtu_length: int
    now_ns: int
    name: str | None = None
    receiver_window_length: int = 0
    initial_window_length: int = DEFAULT_WINDOW_LENGTH
    indicators: Callable[[str], Indicator]
    cubic: CubicSettings = field(default_factory=CubicSettings)

    @property
    def window_length(self) -> int:
        """The longest window: the configured one, at most half a term."""
        return min(self.receiver_window_length or self.initial_window_length, self.term_length >> 1)


class UnknownCongestionControl(UsageError):
    """A channel's ``cc`` is not a known congestion control."""

    def __init__(self, name: str) -> None:
        super().__init__("channel parameter cc", found=repr(name), expected=f"{STATIC!r} or {CUBIC!r}")
        self.name = name
        self.java = JavaException(ILLEGAL_ARGUMENT, f"unsupported congestion control : cc={name}")

    def __reduce__(self) -> tuple[object, ...]:
        return UnknownCongestionControl, (self.name,)


def congestion_control_for(parameters: CongestionParameters) -> CongestionControl:
    """Create the control that a channel asks for; the default is static. Raises :class:`UnknownCongestionControl`."""
    if parameters.name is None or parameters.name == STATIC:
        return StaticWindowCongestionControl(parameters.window_length)
    if parameters.name == CUBIC:
        lengths = parameters.window_length, parameters.mtu_length
        return CubicCongestionControl(*lengths, parameters.now_ns, parameters.indicators, parameters.cubic)
    raise UnknownCongestionControl(parameters.name)
