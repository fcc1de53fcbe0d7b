"""Rows into columns: the compiled sink, or its twin. See :mod:`everlog.kernel.columns_twin` for what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.kernel.columns_twin import RowSink as RowSink
else:
    RowSink = load("everlog.kernel._columns", "everlog.kernel.columns_twin").RowSink
