"""A manifest as a Parquet file, for joins with other tables."""

from __future__ import annotations

import os

from everlog.errors import MissingDependency

ROWS = 64 << 10


def write_parquet(manifest: str) -> str:
    """Write the Parquet file of a JSON lines manifest again; returns its path. A crash leaves the old file."""
    try:
        import pyarrow as pa
        import pyarrow.json
        import pyarrow.parquet as pq
    except ImportError as error:
        hint = "pip install 'everlog[arrow]', or write the manifest as JSON lines"
        message = "Parquet manifests need pyarrow"
        raise MissingDependency("manifest", found="pyarrow not installed", message=message, hint=hint) from error
    target = manifest.removesuffix(".jsonl") + ".parquet"
    if not os.path.getsize(manifest):
        return manifest
    draft = f"{target}.{os.getpid()}.part"
    types = {
        "address": pa.string(),
        "new_address": pa.string(),
        "timestamp_ns": pa.int64(),
        "length": pa.int64(),
        "crc32": pa.string(),
        "subject": pa.string(),
        "reply": pa.string(),
        "session_id": pa.int32(),
        "stream_id": pa.int32(),
        "reserved_value": pa.int64(),
    }
    options = pa.json.ParseOptions(explicit_schema=pa.schema(types.items()), unexpected_field_behavior="error")
    try:
        pq.write_table(pa.json.read_json(manifest, parse_options=options), draft, row_group_size=ROWS)
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return target
