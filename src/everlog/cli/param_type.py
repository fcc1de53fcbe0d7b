"""Kinds of values on the command line: what they are derived from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """click's, which before 8.4 takes no kind in brackets."""

        def __class_getitem__(cls, kind: Any) -> type[Self]:
            return cls
