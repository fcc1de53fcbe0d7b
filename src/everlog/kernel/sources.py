"""Sources of a :class:`RowSink` column's values. Each store family declares one source per column."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.layout import Field

MAX_VALUES = 8
MAX_SPANS = 4
"""Most computed numbers and byte spans that a walker may produce for a row."""


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A fixed field of the frame's header, at its declared offset."""

    field: Field


@dataclass(frozen=True, slots=True)
class Value:
    """The walker's computed number ``index``; the walker documents its meaning."""

    index: int


@dataclass(frozen=True, slots=True)
class Bytes:
    """The walker's byte span ``index``; it may come in several pieces."""

    index: int


@dataclass(frozen=True, slots=True)
class Null:
    """Always null."""


Source = FieldOf | Value | Bytes | Null
