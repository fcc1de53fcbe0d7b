"""An export as a Delta table: its commits are the table's own. Needs the package ``deltalake`` (extra ``delta``).

Each commit has the generation of our manifest as its transaction's version, under our application's id: so it is known
after a crash whether the table has a generation, and the table refuses one a second time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from everlog.errors import CorruptData, MissingDependency, UsageError
from everlog.pipelines.export.manifest import Manifest, StreamKey
from everlog.pipelines.export.names import value_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

APPLICATION = "everlog-export"
PARTITIONS = ("store", "stream", "hour")
GENERATION = "everlog.generation"
"""What marks our commits in the table's history."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file whose rows the table has now, ours or one that somebody made of ours. ``path`` is relative."""

    key: StreamKey
    path: str
    rows: int
    byte_count: int


class DeltaLog:
    """The table in an export's folder. Raises :class:`MissingDependency`."""

    def __init__(self, path: str) -> None:
        try:
            import deltalake
        except ImportError as error:
            hint = "pip install 'everlog[delta]'"
            raise MissingDependency("delta", found="deltalake not installed", hint=hint) from error
        self.path = path
        self._deltalake = deltalake

    def _open(self) -> DeltaTable | None:
        kind = self._deltalake.DeltaTable
        return kind(self.path) if kind.is_deltatable(self.path) else None

    def generation(self) -> int | None:
        """The last of our commits that the table has."""
        table = self._open()
        found: int | None = None if table is None else table.transaction_version(APPLICATION)
        return found

    def check(self, manifest: Manifest | None) -> None:
        """Raises :class:`CorruptData` where manifest and table do not belong together: then records could be there
        twice."""
        here, there = 0 if manifest is None else manifest.generation, self.generation() or 0
        if here != there:
            found, expected = f"generation {there} in the table's log", f"{here}, as the manifest says"
            raise CorruptData(self.path, found=found, expected=expected, hint="export to another folder")

    def files(self) -> list[TableFile]:
        """What the table is made of now, whoever wrote it: restoring, deleting and optimizing change that, and leave
        our transaction's version as it is. Raises :class:`CorruptData` where there is no table, :class:`UsageError`
        for one whose files may hold rows that are deleted."""
        import pyarrow as pa

        table = self._open()
        if table is None:
            raise CorruptData(self.path, found="no Delta table", expected="the one that was exported to")
        if "deletionVectors" in (table.protocol().reader_features or ()):
            expected = "one without: its files can hold rows that it has no more"
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
        """Of which of the streams the table lacks files that the manifest has, and what may be the reason. Raises as
        :meth:`files` does."""
        active = {file.path for file in self.files()}
        found = {}
        for key in keys:
            files = manifest.streams[key].files
            gone = [file for file in files if file.path not in active]
            if gone:
                found[key] = (
                    f"the Delta table has {len(gone)} of {len(files)} exported files no more, rewritten or removed by "
                    f"{self._others_commits()}: nobody knows whether their records are there"
                )
        return found

    def _others_commits(self) -> str:
        """What others did to the table, as far as its log goes back."""
        table = self._open()
        history = [] if table is None else table.history()
        names = [str(one["operation"]).lower() for one in history if GENERATION not in one]
        return ", ".join(sorted({*names} - {"create table"})) or "what its log does not tell"

    def commit(self, schema: pa.Schema, manifest: Manifest) -> None:
        """Tell the table, whose files are of ``schema``, of those of the last commit. A crash leaves the table without
        all of them, or with all."""
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
