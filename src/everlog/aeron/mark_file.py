"""Mark files: which process uses a folder, its start time, its last heartbeat, and its distinct errors. Source:
ArchiveMarkFile, Agrona's MarkFile.

Current mark files begin with an SBE message header, older ones with the block itself; the schema id distinguishes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from everlog.aeron.error_log import DistinctError, read_errors
from everlog.aeron.frames.constants import version_text
from everlog.aeron.layouts import ArchiveMarkHeader, SbeMessageHeader
from everlog.errors import CorruptData
from everlog.layout import Layout
from everlog.sbe.decode import decode_texts

ARCHIVE_SCHEMA_ID = 100
ARCHIVE_TEMPLATE_ID = 200
LIVENESS_TIMEOUT_MS = 10_000
"""A mark file whose last activity is older than this has no live owner."""


Clock = Callable[[], int]
"""Returns milliseconds since 1970, the unit of times in mark files."""


def now_ms() -> int:
    """The system time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


H = TypeVar("H", bound=Layout)


@dataclass(frozen=True, slots=True)
class ArchiveMark:
    """The content of an archive's mark file. ``texts`` has the channels and the driver's folder; it is empty if they
    could not be read, and ``problem`` then says why."""

    header: ArchiveMarkHeader
    header_offset: int
    schema_version: int
    texts: dict[str, str]
    errors: list[DistinctError]
    problem: str | None = None

    @property
    def version(self) -> str:
        """The version as text, for example ``3.1.0``."""
        return version_text(self.header.version)

    def is_live(self, now_ms: int) -> bool:
        """Whether the archive's last heartbeat is within the liveness timeout."""
        return abs(now_ms - self.header.activity_timestamp) <= LIVENESS_TIMEOUT_MS

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        fields = self.header.as_dict()
        if self.schema_version < 2:
            fields["archive_id"] = None
        return {**fields, "version": self.version, "schema_version": self.schema_version, **self.texts}


@dataclass(frozen=True, slots=True)
class MarkBody(Generic[H]):
    """The content of a mark file of any kind: its block and the block's offset, the writer's schema version and block
    length (0 and the layout's size without an SBE header), texts and errors. ``problem`` says what could not be
    read."""

    header: H
    header_offset: int
    schema_version: int
    block_length: int
    texts: dict[str, str]
    errors: list[DistinctError]
    problem: str | None


def read_archive_mark(data: bytes, name: str = "archive-mark.dat") -> ArchiveMark:
    """Decode an archive's mark file. Raises :class:`CorruptData` if not even its block can be read."""
    body = read_mark(data, name, ArchiveMarkHeader, ARCHIVE_SCHEMA_ID, ARCHIVE_TEMPLATE_ID)
    schema_version = body.schema_version
    if body.header_offset == 0:
        schema_version = 1 if body.header.header_length > 0 else 0
    return ArchiveMark(body.header, body.header_offset, schema_version, body.texts, body.errors, body.problem)


def read_mark(
    data: bytes, name: str, layout: type[H], schema_id: int, template_id: int, texts_since: dict[str, int] | None = None
) -> MarkBody[H]:
    """Decode a mark file whose block is a ``layout`` with ``header_length`` and ``error_buffer_length``.
    ``texts_since`` has the schema version that added a text, for texts that were added later. Raises
    :class:`CorruptData` if not even the block can be read."""
    at, schema_version, block_length = 0, 0, layout.size
    if len(data) >= SbeMessageHeader.size:
        sbe = SbeMessageHeader.unpack_from(data)
        if sbe.schema_id == schema_id and sbe.template_id == template_id:
            at, schema_version, block_length = SbeMessageHeader.size, sbe.version, sbe.block_length
    if at + max(block_length, layout.size) > len(data):
        raise CorruptData(name, offset=at, found=f"{len(data)} bytes", expected=f"a header of {block_length} bytes")
    header = layout.unpack_from(data, at)
    fields = header.as_dict()
    header_length, error_length = fields["header_length"], fields["error_buffer_length"]
    problem, texts, errors = None, dict[str, str](), list[DistinctError]()
    log_start, log_end = header_length, header_length + error_length
    if header_length < 0 or error_length < 0 or log_end > len(data):
        problem = f"error log from {log_start} to {log_end} in a file of {len(data)} bytes"
    elif header_length:
        errors = read_errors(data, log_start, log_end)
    text_end = header_length if 0 < header_length <= len(data) else len(data)
    since = texts_since or {}
    parts = [part for part in layout.var_data if since.get(part.name, 0) <= schema_version]
    try:
        texts, _ = decode_texts(parts, data, at + block_length, text_end, where=name)
    except CorruptData as error:
        problem = problem or error.found
    return MarkBody(header, at, schema_version, block_length, texts, errors, problem)
