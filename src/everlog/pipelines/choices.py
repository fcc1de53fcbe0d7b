"""The allowed texts of options that are also options of a command. This module imports nothing else, so that
``--help`` stays fast."""

from __future__ import annotations

from typing import Literal, get_args

ComparedBy = Literal["address", "order", "payload"]
"""How the records of the two sides of a comparison are matched."""
COMPARED_BY: tuple[ComparedBy, ...] = get_args(ComparedBy)
ExportFormat = Literal["parquet", "arrow", "jsonl", "delta"]
"""How an export's files, or its table, are written."""
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
