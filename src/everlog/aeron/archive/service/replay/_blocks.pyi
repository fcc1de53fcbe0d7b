from everlog.aeron.archive.service.replay.blocks_twin import Preparer as Preparer
