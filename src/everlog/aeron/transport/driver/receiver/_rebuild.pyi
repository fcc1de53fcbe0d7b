from everlog.aeron.transport.driver.receiver.rebuild_twin import (
    RebuildTracker as RebuildTracker,
)
