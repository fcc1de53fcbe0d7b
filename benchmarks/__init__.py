"""everlog beside memcpy, Parquet and the original systems, in one run each. ``python -m benchmarks [GROUP ...]``."""
