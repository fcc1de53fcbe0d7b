"""Writes data frames from the network into images' terms: the compiled module, or its documented Python twin
:mod:`everlog.aeron.transport.driver.receiver.packets_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.driver.receiver.packets_twin import CONTROL as CONTROL
from everlog.aeron.transport.driver.receiver.packets_twin import END_OF_STREAM as END_OF_STREAM
from everlog.aeron.transport.driver.receiver.packets_twin import MAX_TRANSPORTS as MAX_TRANSPORTS
from everlog.aeron.transport.driver.receiver.packets_twin import NEW_CONNECTION as NEW_CONNECTION
from everlog.aeron.transport.driver.receiver.packets_twin import NEW_SESSION as NEW_SESSION
from everlog.aeron.transport.driver.receiver.packets_twin import NO_TIME as NO_TIME
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.driver.receiver.packets_twin import ImageRebuilder as ImageRebuilder
    from everlog.aeron.transport.driver.receiver.packets_twin import ImageSessions as ImageSessions
else:
    _loaded = load(
        "everlog.aeron.transport.driver.receiver._packets", "everlog.aeron.transport.driver.receiver.packets_twin"
    )
    ImageRebuilder, ImageSessions = _loaded.ImageRebuilder, _loaded.ImageSessions
