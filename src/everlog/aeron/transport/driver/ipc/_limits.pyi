from everlog.aeron.transport.driver.ipc.limits_twin import IpcLimits as IpcLimits
from everlog.aeron.transport.driver.ipc.limits_twin import update_all as update_all
