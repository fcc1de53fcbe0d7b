from everlog.kernel.blocks_twin import Blocks as Blocks
