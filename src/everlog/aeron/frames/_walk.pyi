from everlog.aeron.frames.walk_twin import Walker as Walker
