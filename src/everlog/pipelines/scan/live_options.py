"""Options of live queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everlog.core.json_text import parse_json
from everlog.errors import UsageError

EARLIEST, LATEST = "earliest", "latest"
DEFAULT_PREFETCH_BYTES = 1 << 20
DEFAULT_DISCOVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """``max_bytes`` and ``max_records`` limit a batch; ``None`` for no limit. ``starting``: where a query without a
    checkpoint begins. New stores are searched for every ``discovery_s`` seconds. A batch of up to ``prefetch_bytes`` is
    read where it is planned, which saves the time to start tasks; 0 disables this."""

    max_bytes: int | None = None
    max_records: int | None = None
    starting: str | dict[str, Any] = EARLIEST
    discovery_s: float = DEFAULT_DISCOVERY_S
    prefetch_bytes: int = DEFAULT_PREFETCH_BYTES


def parse_starting(name: str, value: str) -> str | dict[str, Any]:
    """Parse ``earliest``, ``latest``, or a JSON object of stores, each an object of streams, each with an address,
    ``earliest`` or ``latest``."""
    text = value.strip()
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    expected = 'earliest, latest, or JSON such as {"/data/archive": {"3": "4096"}}'
    try:
        stores = parse_json(text)
    except ValueError:
        raise UsageError(name, found=repr(value), expected=expected) from None
    if isinstance(stores, dict) and stores.get("version") == 1:  # an offset in the form of query progress
        stores = _of_offset(stores.get("stores"))
    is_fit = isinstance(stores, dict) and all(
        isinstance(streams, dict) and all(isinstance(address, str) for address in streams.values())
        for streams in stores.values()
    )
    if not is_fit:
        raise UsageError(name, found=repr(value), expected=expected)
    found: dict[str, Any] = stores
    return found


def _of_offset(stores: Any) -> Any:
    """An offset's marks reduced to their end addresses; values of another shape are kept."""
    if not isinstance(stores, dict) or not all(isinstance(streams, dict) for streams in stores.values()):
        return None
    return {
        store: {name: at[1] if isinstance(at, list) and len(at) in (2, 3) else at for name, at in streams.items()}
        for store, streams in stores.items()
    }
