"""Tests: a folder for each of ``src/everlog``, and what the real systems wrote."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
"""Folders that the real systems wrote, packed, with the truth about each."""
