"""Sizes, durations and numbers as they are typed on the command line. Each raises :class:`click.BadParameter`."""

from __future__ import annotations

import re
from decimal import Decimal

import click

_SIZE_UNITS = {"": 1, "b": 1} | {
    letter + suffix: base**power
    for power, letter in enumerate("kmgt", 1)
    for suffix, base in (("", 1000), ("b", 1024), ("ib", 1024))
}
_DURATION_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}


def size(text: str) -> int:
    """Bytes: ``1000``, ``10K`` (1000-based), ``64MB`` (1024-based), as the NATS Streaming server reads them."""
    match = re.fullmatch(r"(\d{1,15})([a-z]*)", text.strip().lower(), re.ASCII)
    if not match or match[2] not in _SIZE_UNITS:
        raise click.BadParameter(f"{text!r} is no size (such as 1000, 10K or 64MB)")
    unit: int = _SIZE_UNITS[match[2]]
    return int(match[1]) * unit


def duration(text: str) -> int:
    """Nanoseconds: ``90s``, ``1h30m``, ``250ms``, ``7d``; a plain number is seconds."""
    text = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text, re.ASCII):
        text += "s"
    if not re.fullmatch(r"(\d{1,12}(\.\d+)?(ns|us|ms|s|m|h|d))+", text, re.ASCII):
        raise click.BadParameter(f"{text!r} is no duration (such as 90s, 1h30m or 7d)")
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)", text)
    return int(sum(Decimal(number) * _DURATION_UNITS[unit] for number, unit in parts))


def number(text: str) -> int:
    """An integer, decimal or ``0x`` hexadecimal."""
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number") from None
