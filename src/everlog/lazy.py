"""Packages that import their public names on first use, so that importing a package is almost free (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``; ``homes`` maps each public name to its module.

    Call it where type checkers don't look: with a ``__getattr__`` they accept every misspelt name.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        return getattr(importlib.import_module(homes[name]), name)

    def names() -> list[str]:
        hidden = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*homes, *hidden})

    return get, names, sorted(homes)
