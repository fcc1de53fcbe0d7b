"""Where a :class:`RowSink` takes a column's values from. A family names one source for each of its columns."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.layout import Field

MAX_VALUES = 8
MAX_SPANS = 4
"""Bounds on the computed numbers and byte spans that a walker may give for a row."""


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A fixed field of the frame's header, at its declared offset."""

    field: Field


@dataclass(frozen=True, slots=True)
class Value:
    """The walker's computed number ``index`` (its meaning is the walker's to document)."""

    index: int


@dataclass(frozen=True, slots=True)
class Bytes:
    """The walker's byte span ``index``; a row may get it in several pieces."""

    index: int


@dataclass(frozen=True, slots=True)
class Null:
    """Always null."""


Source = FieldOf | Value | Bytes | Null
