"""Folders made of what Aeron's tools print about them: the values of nodes whose folders were not kept."""

from __future__ import annotations

import re
from pathlib import Path

from everlog.aeron.cluster.format.layouts import COMPONENTS, ClusterMarkHeader
from everlog.aeron.layouts import (
    ArchiveMarkHeader,
    CatalogHeader,
    DescriptorHeader,
    RecordingDescriptor,
    SbeMessageHeader,
)
from everlog.layout import Layout

LINE = re.compile(r"\[(\w+)\]\(sbeTemplateId=(\d+)\|sbeSchemaId=(\d+)\|sbeSchemaVersion=(\d+)\|sbeBlockLength=(\d+)\):")
PART = re.compile(r"(\w+)=('[^']*'|[^|]*)")
VALID = 1


def message_of(line: str, layout: type[Layout], *, header: bool) -> bytes:
    """The SBE message whose line a generated decoder printed, with or without its message header."""
    found = LINE.search(line)
    assert found is not None, line
    template_id, schema_id, version, block_length = map(int, found.groups()[1:])
    values = {snake(name): text for name, text in PART.findall(line[found.end() :])}
    texts = [values.pop(part.name).strip("'").encode() for part in layout.var_data]
    numbers = {name: number_of(text) for name, text in values.items()}
    body = layout.pack(**numbers) + b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    if not header:
        return body
    head = SbeMessageHeader.pack(
        block_length=block_length, template_id=template_id, schema_id=schema_id, version=version
    )
    return head + body


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def number_of(text: str) -> int:
    names = {name: number for number, name in COMPONENTS.items()}
    return names[text] if text in names else int(text)


def write_archive(folder: Path, lines: list[str]) -> None:
    """Of the lines of ArchiveTool's ``describe``: a mark file and a catalog."""
    recordings = [line for line in lines if line.startswith("[RecordingDescriptor]")]
    (mark,) = [line for line in lines if line.startswith("[MarkFileHeader]")]
    (capacity,) = [int(line.rpartition(" ")[2]) for line in lines if line.startswith("Catalog capacity")]
    catalog = bytearray(
        CatalogHeader.pack(version=3 << 16 | 1 << 8, length=32, next_recording_id=len(recordings), alignment=64)
    )
    for line in recordings:
        body = message_of(line, RecordingDescriptor, header=False)
        entry = DescriptorHeader.pack(length=len(body), state=VALID) + body
        catalog += entry.ljust((len(entry) + 63) // 64 * 64, b"\0")
    (folder / "archive.catalog").write_bytes(bytes(catalog).ljust(capacity, b"\0"))
    (folder / "archive-mark.dat").write_bytes(
        message_of(mark, ArchiveMarkHeader, header=True).ljust(8192 + 1024, b"\0")
    )


def write_marks(folder: Path, lines: list[str]) -> None:
    """Of the lines of ClusterTool's ``describe``: the mark files of a node with one service."""
    marks = [line for line in lines if line.startswith("[MarkFileHeader]")]
    for name, line in zip(["cluster-mark.dat", "cluster-mark-service-0.dat"], marks, strict=True):
        (folder / name).write_bytes(message_of(line, ClusterMarkHeader, header=True).ljust(8192 + 1024, b"\0"))
