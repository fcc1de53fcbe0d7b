"""The options of ``everlog check``, made from those of the families, and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from everlog.cli.param_type import ParamType
from everlog.cli.seconds import Seconds
from everlog.core.family.record import Family
from everlog.core.monitoring.levels import CheckOption, Levels, Status, number_text
from everlog.errors import UsageError
from everlog.stores import FAMILIES

F = TypeVar("F", bound=Callable[..., Any])
STATUSES = (Status.OK, Status.WARNING, Status.CRITICAL)


class LevelPair(ParamType[Levels]):
    """``WARNING,CRITICAL``: two levels, of which one or both may be empty. The critical level must not be milder."""

    name = "warning,critical"

    def __init__(self, is_floor: bool) -> None:
        self._is_floor = is_floor

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Levels:
        """Parse the levels and check their order."""
        parts = str(value).split(",")
        if len(parts) != 2:
            self.fail(f"{value!r} is not WARNING,CRITICAL: two numbers, or nothing, with a comma between", param, ctx)
        warning, critical = (self._level(part.strip(), param, ctx) for part in parts)
        if warning is not None and critical is not None:
            first, second = (critical, warning) if self._is_floor else (warning, critical)
            if first > second:
                self.fail(f"{value!r}: the critical level is milder than the warning level", param, ctx)
        return Levels(warning, critical, self._is_floor)

    def _level(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if not text:
            return None
        try:
            level = float(text)
        except ValueError:
            level = math.nan
        if not (math.isfinite(level) and level >= 0):
            self.fail(f"{text!r} is not a number from 0 on", param, ctx)
        return level


class StatusName(ParamType[Status]):
    """``ok``, ``warning`` or ``critical``."""

    name = "status"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Status:
        """Look the status up."""
        found = {status.name: status for status in STATUSES}.get(str(value).upper())
        if found is None:
            self.fail(f"{value!r} is not ok, warning or critical", param, ctx)
        return found


def all_check_options() -> list[CheckOption]:
    """The check options of all families, each once."""
    return list(dict.fromkeys(option for family in FAMILIES.values() for option in family.check_options))


def limit_options(command: F) -> F:
    """Decorator: adds the check options of all families."""
    for option in reversed(all_check_options()):
        kind, metavar = _type_of(option)
        text = f"{option.help} Default: {default_text(option)}."
        names = (option.flag, option.field)
        command = click.option(*names, type=kind, metavar=metavar, default=None, help=text)(command)
    return command


def limits_of(record: Family, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a family's check options: as given, else their defaults. Raises :class:`UsageError` for an option
    that its check does not have."""
    known = {option.field: option for option in record.check_options}
    for option in all_check_options():
        if given.get(option.field) is not None and option.field not in known:
            message = f"{option.flag} does not apply to {record.title}s"
            raise UsageError(option.flag, found=record.name, expected="another family", message=message)
    return {field: option.default if given.get(field) is None else given[field] for field, option in known.items()}


def default_text(option: CheckOption) -> str:
    """An option's default, as it would be given."""
    default = option.default
    if isinstance(default, Status):
        return default.name.lower()
    if isinstance(default, Levels):
        levels = (default.warning, default.critical)
        return ",".join("" if level is None else number_text(level) for level in levels)
    return number_text(default)


def _type_of(option: CheckOption) -> tuple[ParamType[Any], str]:
    if isinstance(option.default, Status):
        return StatusName(), "STATUS"
    if isinstance(option.default, Levels):
        return LevelPair(option.default.is_floor), "WARNING,CRITICAL"
    return Seconds(), "SECONDS"
