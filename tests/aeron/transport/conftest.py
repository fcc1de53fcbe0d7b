"""Modules that several tests of the transport share are found beside them."""

from __future__ import annotations
