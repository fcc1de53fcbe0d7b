"""What everlog knows of a family of stores. Each family has one record, in ``family.py`` of its folder.

Classes and functions are named by text, ``"module.name"``, and imported by :func:`load` when they are needed: a record
costs no import of what reads or writes stores.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlog.core.monitoring.levels import CheckOption
from everlog.core.option_kinds import OptionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOption:
    """An option with which a store is opened. ``field`` is its name in the store's options class, ``flag`` its name on
    the command line, ``spark`` its name in Spark; ``None``: it does not exist there. ``help`` is the command line's,
    ``warning`` what it prints when the option is given."""

    field: str
    kind: OptionKind
    flag: str | None = None
    spark: str | None = None
    help: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of stores.

    ``name`` is its name in commands, options and tables, ``title`` what a store of it is called in a sentence.
    ``usual_file`` is a file that most of its stores have; detection tries the family of a usual file first. ``colour``
    is that of its bars and lines in charts.

    Named by text, ``None`` if the family has none:

    * ``store``: the :class:`~everlog.core.store.Store`.
    * ``follower``: the :class:`~everlog.core.following.Follower` that live queries use. Without one, live queries list
      all streams at each poll. ``not_followed``: why live queries leave the family out.
    * ``collector``: the Prometheus collector of ``everlog metrics``.
    * ``checking``: the :data:`~everlog.core.monitoring.checking.CheckFunction` of ``everlog check``.
    * ``overview``: a function from a store to its :class:`~everlog.core.family.overview.StoreOverview`.
    * ``appending``: the :class:`~everlog.core.appending.family.Appending` by which Spark writes to its stores.
    * ``purging``: the :class:`~everlog.core.family.purging.Purging` that frees what was exported.
    * ``migrating``: the :class:`~everlog.core.family.migrating.Migrating` that moves records into its stores.

    ``check_options`` are the options of its check.

    ``address_parts``: 2 if an address is a pair of 32-bit numbers, else 1. ``missing_between`` says how many records
    are missing between two consecutive addresses; ``None`` if addresses need not follow each other.
    ``compare_command``: the command that compares two stores in more detail than their records, with ``{a}`` and
    ``{b}`` for the stores."""

    name: str
    title: str
    store: str
    usual_file: str = ""
    options: tuple[StoreOption, ...] = ()
    colour: str = "#8a9199"
    follower: str | None = None
    not_followed: str | None = None
    collector: str | None = None
    checking: str | None = None
    check_options: tuple[CheckOption, ...] = ()
    overview: str | None = None
    appending: str | None = None
    purging: str | None = None
    migrating: str | None = None
    address_parts: int = 1
    missing_between: Callable[[int, int], int] | None = None
    compare_command: str | None = None


def load(name: str) -> Any:
    """The object that a record names by text."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)
