"""A command whose verbs are modules of its package, each imported when it runs: ``everlog archive DIR VERB ...``."""

from __future__ import annotations

import importlib
from typing import Any

import click


class VerbGroup(click.Group):
    """``verbs``: name to the line that ``--help`` shows; module and command have the same name, with ``_``.
    ``package``: where the modules are; those of ``more_verbs`` are in the packages that name them."""

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
        """The command of a verb, or ``None``."""
        if cmd_name not in self.verbs:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{self._package_of[cmd_name]}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of ``--help``."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(self.verbs.items()))
