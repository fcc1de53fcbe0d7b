"""The checked settings of a media driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from everlog.aeron.transport.driver.settings.checks import check
from everlog.aeron.transport.driver.settings.settings import Settings, property_of, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration(Settings):
    """All settings of a driver, checked when they are created. The fields are those of
    :class:`~everlog.aeron.transport.driver.settings.settings.Settings`. Raises :class:`UsageError`, which names the
    property, and :class:`WrongType` for a value of a wrong type."""

    def __post_init__(self) -> None:
        check(self)

    def lines(self) -> Iterator[str]:
        """Yield ``property=value`` for each setting that has a value, sorted by property."""
        for found in sorted(fields(self), key=property_of):
            value = getattr(self, found.name)
            if value is not None:
                yield f"{property_of(found)}={text_of(value)}"
