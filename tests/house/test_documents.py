"""The documents tell what there is: every option, every command, every file that they link to."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from everlog import stores
from everlog.cli.app import COMMANDS
from everlog.core.options import option_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def options() -> list[tuple[str, str]]:
    found = []
    for name, (module, _) in COMMANDS.items():
        command = getattr(importlib.import_module(module), name)
        flags = [flag for item in command.params if isinstance(item, click.Option) for flag in item.opts]
        found += [(name, flag) for flag in flags]
    return found


@pytest.mark.parametrize(("command", "flag"), options())
def test_every_option_is_documented(command: str, flag: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    common = text.split("## How a store is opened")[1].split("\n## ")[0]
    own = text.split(f"## everlog {command}")[1].split("\n## ")[0]
    assert re.search(rf"`{flag}[ `]", common + own), f"docs/cli.md does not tell of {command} {flag}"


@pytest.mark.parametrize(("command", "flag"), options())
def test_every_option_says_what_it_does(command: str, flag: str) -> None:
    parameters = getattr(importlib.import_module(COMMANDS[command][0]), command).params
    assert all(item.help for item in parameters if isinstance(item, click.Option) and flag in item.opts)


@pytest.mark.parametrize("family", stores.FAMILIES)
def test_every_option_of_a_family_is_told_to_python_users(family: str) -> None:
    kind = stores.store_class(family).options_class
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert [name for name in option_names(kind) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_tests_that_the_documents_name_are_there() -> None:
    for page in PAGES:
        for name in re.findall(r"`(tests/[\w/.-]+)`", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_functions_that_the_documents_name_are_there() -> None:
    """A name such as ``test_something`` is that of a test in one of the files that the same page names."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        files = [ROOT / name for name in re.findall(r"`(tests/[\w/.-]+\.py)`", text)]
        there = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}
        assert [name for name in re.findall(r"`(test_\w+)`", text) if name not in there] == [], page.name


def test_the_architecture_fits_on_two_pages() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 110
