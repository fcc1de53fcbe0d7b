"""Tests: a folder for each of ``src/everlog``, and what the real systems wrote."""

import os
from pathlib import Path

# Before everlog is imported: processes that tests start, Spark's workers too, know the toy family as this one does.
os.environ["EVERLOG_FAMILIES"] = "everlog.testing.toy.family.TOY"

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
"""Folders that the real systems wrote, packed, with the truth about each."""
