from everlog.kernel.watch_twin import Watch as Watch
