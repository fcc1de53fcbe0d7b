"""Counts in messages: ``1 fault``, ``2 faults``."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """``count`` and ``noun``, with an ``s`` unless ``count`` is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
