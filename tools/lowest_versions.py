"""Prints the lowest versions of what everlog needs that pyproject.toml allows, for pip: ``name==version``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = ("arrow", "spark", "lz4", "crypto", "remote", "metrics", "delta", "nats")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)>=(?P<version>[0-9.]+)")


def lowest(requirements: Sequence[str]) -> Iterator[str]:
    """Of each requirement that has a lowest version.

    >>> list(lowest(["click>=8.2", "everlog[arrow]", "pandas>=2.2,<3"]))
    ['click==8.2', 'pandas==2.2']
    """
    for text in requirements:
        match = _REQUIREMENT.match(text)
        if match is not None:
            yield f"{match['name']}=={match['version']}"


def main() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    for requirements in (project["dependencies"], *(project["optional-dependencies"][extra] for extra in EXTRAS)):
        print(*lowest(requirements), sep="\n")


if __name__ == "__main__":
    main()
