from everlog.aeron.transport.driver.packets_twin import *
