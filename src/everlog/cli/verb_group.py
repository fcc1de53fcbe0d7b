"""A command whose verbs are modules of its package, each imported when it runs, as ``everlog archive DIR VERB``."""

from __future__ import annotations

import importlib
from typing import Any

import click


class VerbGroup(click.Group):
    """A group of verbs. ``verbs`` maps a verb to its line in ``--help``; its module in ``package`` and its command have
    the same name, with ``_``. ``more_verbs`` maps further packages to their verbs."""

    def __init__(
        self,
        *arguments: Any,
        verbs: dict[str, str],
        package: str,
        more_verbs: dict[str, dict[str, str]] | None = None,
        **more: Any,
    ) -> None:
        more.setdefault("subcommand_metavar", "VERB [OPTIONS]...")
        super().__init__(*arguments, **more)
        of_package = {package: verbs, **(more_verbs or {})}
        self.verbs = {verb: line for group in of_package.values() for verb, line in group.items()}
        self._package_of = {verb: name for name, group in of_package.items() for verb in group}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, sorted."""
        return sorted(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb's command; ``None`` for an unknown name."""
        if cmd_name not in self.verbs:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{self._package_of[cmd_name]}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs in ``--help``, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(self.verbs.items()))
