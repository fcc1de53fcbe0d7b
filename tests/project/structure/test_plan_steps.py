"""Every step of every plan says what a crash leaves."""

from __future__ import annotations

import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from importlib import import_module

import everlog
from everlog.core.plan.step import RepairStep


def step_classes(base: type[RepairStep] = RepairStep) -> Iterator[type[RepairStep]]:
    for cls in base.__subclasses__():
        if cls.__module__.startswith("everlog."):
            yield cls
        yield from step_classes(cls)


def all_steps() -> list[type[RepairStep]]:
    """The steps of all families: everything that is named in a module of a ``repair`` or ``tool`` folder."""
    for module in pkgutil.walk_packages(everlog.__path__, "everlog."):
        if {"repair", "tool"} & set(module.name.split(".")) and not module.name.startswith("everlog.cli"):
            import_module(module.name)
    return list(dict.fromkeys(step_classes()))


def test_every_step_states_what_a_crash_after_it_leaves() -> None:
    applied = [cls for cls in all_steps() if not inspect.isabstract(cls)]
    assert len(applied) >= 20, "steps of all families were found"
    assert {cls.__module__.split(".")[1] for cls in applied} == {"aeron", "jlog"}
    silent = [cls.__name__ for cls in applied if len(vars(cls).get("after_crash", "").split()) < 3]
    assert not silent, "each has its own statement, not one that it inherits"


def test_no_two_steps_have_one_name() -> None:
    names = Counter(cls.__name__ for cls in all_steps())
    assert [name for name, count in names.items() if count > 1] == []


def test_a_step_that_changes_a_folder_shares_its_checks() -> None:
    for name in ("changed", "expect_size", "expect_none"):
        again = [
            cls.__name__ for cls in all_steps() if name in vars(cls) and cls.__module__ != "everlog.core.plan.step"
        ]
        assert again == [], f"{name} is there once"
