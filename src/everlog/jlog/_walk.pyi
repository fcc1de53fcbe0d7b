from everlog.jlog.walk_twin import walk_messages as walk_messages
