from everlog.jlog.reading.walk_twin import walk_messages as walk_messages
