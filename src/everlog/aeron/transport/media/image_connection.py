"""One transport through which an image receives its stream. Source: Aeron, ImageConnection."""

from __future__ import annotations

from everlog.kernel.socket_address import SocketAddress

NEVER = (1 << 63) - 1


class ImageConnection:
    """The control address of a source, and when it last sent. An image has one for each of its endpoint's
    destinations."""

    __slots__ = ("control_address", "eos_position", "is_eos", "time_of_last_activity_ns", "time_of_last_frame_ns")

    def __init__(self, control_address: SocketAddress, now_ns: int) -> None:
        self.control_address = control_address
        self.time_of_last_activity_ns = now_ns
        self.time_of_last_frame_ns = 0
        self.is_eos = False
        self.eos_position = NEVER
