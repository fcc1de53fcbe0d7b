from everlog.aeron.transport.driver.ipc.ipc_limits_twin import IpcLimits as IpcLimits
from everlog.aeron.transport.driver.ipc.ipc_limits_twin import update_all as update_all
