"""Collects rows into columns: compiled, or its twin :mod:`everlog.kernel.columns_twin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.kernel.columns_twin import RowSink as RowSink
else:
    RowSink = load("everlog.kernel._columns", "everlog.kernel.columns_twin").RowSink
