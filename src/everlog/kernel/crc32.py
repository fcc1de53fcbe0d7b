"""CRC-32 with any reflected polynomial: compiled, or its twin :mod:`everlog.kernel.crc32_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load
from everlog.kernel.crc32_twin import CASTAGNOLI as CASTAGNOLI
from everlog.kernel.crc32_twin import IEEE as IEEE

if TYPE_CHECKING:
    from everlog.kernel.crc32_twin import Crc32 as Crc32
else:
    Crc32 = load("everlog.kernel._crc32", "everlog.kernel.crc32_twin").Crc32
