"""An export as a Delta table: each commit of the export is one of the table. Needs the package ``deltalake`` (extra
``delta``).

Each commit stores the generation of the manifest as the version of its application transaction, under everlog's
application id. So after a crash it is known whether the table has a generation, and the table refuses to take one
twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from everlog.core.counting import counted
from everlog.errors import CorruptData, MissingDependency, UsageError
from everlog.pipelines.export.manifest import Manifest, StreamKey
from everlog.pipelines.export.names import value_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APPLICATION = "everlog-export"
PARTITIONS = ("store", "stream", "hour")
GENERATION = "everlog.generation"
"""Marks everlog's commits in the table's history."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A current file of the table, written by everlog or made of its files by someone else. ``path`` is relative."""

    key: StreamKey
    path: str
    rows: int
    byte_count: int


class DeltaLog:
    """The table in an export's folder. Raises :class:`MissingDependency` without ``deltalake``."""

    def __init__(self, path: str) -> None:
        try:
            import deltalake
        except ImportError as error:
            hint = "pip install 'everlog[delta]'"
            message = "Delta tables need deltalake"
            raise MissingDependency("delta", found="deltalake not installed", message=message, hint=hint) from error
        self.path = path
        self._deltalake = deltalake

    def _open(self) -> DeltaTable | None:
        kind = self._deltalake.DeltaTable
        return kind(self.path) if kind.is_deltatable(self.path) else None

    def generation(self) -> int | None:
        """The last generation that the table has; ``None`` if there is none."""
        table = self._open()
        found: int | None = None if table is None else table.transaction_version(APPLICATION)
        return found

    def check(self, manifest: Manifest | None) -> None:
        """Raise :class:`CorruptData` if manifest and table do not match: records could be there twice."""
        here, there = 0 if manifest is None else manifest.generation, self.generation() or 0
        if here != there:
            found, expected = f"generation {there} in the table's log", f"generation {here} as in the manifest"
            raise CorruptData(self.path, found=found, expected=expected, hint="export to another folder")

    def files(self) -> list[TableFile]:
        """The table's current files, whoever wrote them: restoring, deleting and optimizing change them without
        changing the transaction's version. Raises :class:`CorruptData` if there is no table, :class:`UsageError` for a
        table whose files may contain deleted rows."""
        import pyarrow as pa

        table = self._open()
        if table is None:
            raise CorruptData(self.path, found="no Delta table", expected="the one of the export")
        if "deletionVectors" in (table.protocol().reader_features or ()):
            expected = "a table without them: its files may contain deleted rows"
            raise UsageError(self.path, found="a Delta table with deletion vectors", expected=expected)
        return [
            TableFile(
                StreamKey(row.get("partition.store") or "", row.get("partition.stream") or ""),
                unquote(row["path"]),
                row.get("num_records") or 0,
                row["size_bytes"],
            )
            for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()
        ]

    def lacking(self, manifest: Manifest, keys: Sequence[StreamKey]) -> dict[StreamKey, str]:
        """The streams whose files the manifest has but the table lacks, with the likely reason. Raises what
        :meth:`files` raises."""
        active = {file.path for file in self.files()}
        found = {}
        for key in keys:
            files = manifest.streams[key].files
            gone = [file for file in files if file.path not in active]
            if gone:
                found[key] = (
                    f"{len(gone)} of {counted(len(files), 'exported file')} are not in the Delta table any more, "
                    f"changed by {self._others_commits()}: it is unknown whether their records are there"
                )
        return found

    def _others_commits(self) -> str:
        """What others did to the table, as far as its log goes back."""
        table = self._open()
        history = [] if table is None else table.history()
        names = [str(one["operation"]).lower() for one in history if GENERATION not in one]
        return ", ".join(sorted({*names} - {"create table"})) or "commits that its log no longer has"

    def commit(self, schema: pa.Schema, manifest: Manifest) -> None:
        """Add the files of the manifest's last commit, which have ``schema``, to the table. A crash leaves the table
        with none of them or with all."""
        import pyarrow as pa
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        fields = [pa.field(name, pa.string()) for name in PARTITIONS]
        schema = pa.schema([*fields, *schema])
        table = self._open()
        if table is None:
            table = self._deltalake.DeltaTable.create(self.path, schema, partition_by=list(PARTITIONS), name="everlog")
        chosen = {path for _, path in manifest.placing.files}
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                file.path,
                file.byte_count,
                _partition(key, file.path),
                now,
                True,
                json.dumps({"numRecords": file.rows}),
            )
            for key, stream in manifest.streams.items()
            for file in stream.files
            if file.path in chosen
        ]
        properties = CommitProperties(
            app_transactions=[Transaction(APPLICATION, manifest.generation)],
            custom_metadata={GENERATION: str(manifest.generation)},
        )
        table.create_write_transaction(
            actions, "append", schema, partition_by=list(PARTITIONS), commit_properties=properties
        )


def _partition(key: StreamKey, path: str) -> dict[str, Any]:
    hour = path.split("/")[2]
    return {"store": key.store, "stream": key.stream, "hour": value_of(hour)}
