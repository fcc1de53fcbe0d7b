from everlog.kernel.watch_twin import Condition as Condition
from everlog.kernel.watch_twin import Watch as Watch
