from everlog.kernel.memory_twin import BlockSink as BlockSink
from everlog.kernel.memory_twin import Memory as Memory
