from everlog.aeron.transport.driver.rebuild_twin import *
