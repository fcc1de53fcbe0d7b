from everlog.kernel.crc32_twin import Crc32 as Crc32
