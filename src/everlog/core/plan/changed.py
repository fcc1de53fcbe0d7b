"""The error for a file that changed between planning and applying."""

from __future__ import annotations

from everlog.errors import FileChanged

PLAN_AGAIN = "run the command again to plan it for the file's present state"


def changed(name: str, found: str, expected: str) -> FileChanged:
    """Return the error for a file that is no longer as it was when its change was planned."""
    return FileChanged(
        name,
        found=found,
        expected=expected,
        hint=PLAN_AGAIN,
        message=f"{name} changed since this was planned: found {found}, planned for {expected}",
    )
