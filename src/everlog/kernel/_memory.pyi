from everlog.kernel.memory_twin import Memory as Memory
