"""The base class of everlog's own value types on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """click's class, made subscriptable: before click 8.4 it is not generic."""

        def __class_getitem__(cls, kind: Any) -> type[Self]:
            return cls
