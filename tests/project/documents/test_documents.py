"""The documents tell what there is: every option, every command, every file that they link to."""

from __future__ import annotations

import getpass
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tests
from everlog import stores
from everlog.aeron.transport.client.options import default_folder
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.cli.app import COMMANDS
from everlog.cli.monitoring.metrics import DEFAULT_LISTEN
from everlog.core.options import option_names
from everlog.testing.toy.family import TOY

ROOT = tests.ROOT
TOYS = {option.flag for option in TOY.options}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def verbs(command: click.Command) -> Iterator[click.Command]:
    """A command, and those below it."""
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        below = [command.get_command(context, name) for name in command.list_commands(context)]
        yield from (verb for one in below if one is not None for verb in verbs(one))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_and_says_what_it_does(name: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    common = text.split("## How a store is opened")[1].split("\n## ")[0]
    own = text.split(f"## everlog {name}")[1].split("\n## ")[0]
    for verb in verbs(getattr(importlib.import_module(COMMANDS[name][0]), name)):
        for option in verb.params:
            if not isinstance(option, click.Option) or set(option.opts) & TOYS:
                continue
            assert option.help, f"{name} {verb.name}: {option.opts}"
            flags = [rf"(?<![\w-]){flag}(?![\w-])" for flag in (*option.opts, *option.secondary_opts)]
            told = [flag for flag in flags if re.search(rf"`[^`\n]*{flag}", common + own)]
            assert len(told) >= len(option.opts), f"docs/cli.md does not tell of {name} {verb.name}: {option.opts}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_security_page_tells_what_every_command_writes_and_opens(name: str) -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("\n## ")[2]
    assert re.search(rf"`(everlog )?{name}\b", text)


def test_the_security_page_names_the_addresses_and_folders_that_are_opened_by_default() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"`{DEFAULT_LISTEN}`" in text
    assert "`/dev/shm/aeron-USER`" in text
    assert default_folder().name == f"aeron-{getpass.getuser()}"
    assert Configuration().resolver_interface is None
    assert "`aeron.driver.resolver.interface`" in text
    assert Configuration().termination_validator == "deny"
    assert "`aeron.driver.termination.validator`" in text


@pytest.mark.parametrize("family", [family for family in stores.FAMILIES if family != TOY.name])
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
