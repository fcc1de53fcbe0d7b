"""Stores for these tests: golden ones, and toy ones whose rows a test chooses."""

from __future__ import annotations

from tests.toy_stores import golden, toy, toy_family

__all__ = ["golden", "toy", "toy_family"]
