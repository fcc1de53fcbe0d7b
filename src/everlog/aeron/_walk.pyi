from everlog.aeron.walk_twin import Walker as Walker
