"""Checks that all files of a journal belong to the folder's owner and group. If not, other processes may be unable to
use them."""

from __future__ import annotations

import os

from everlog.cli.text import printable, say


def check_ownership(path: str) -> bool:
    """Print files with another owner or group to stderr, in the original's words. Returns whether none differ; the
    exit code does not depend on it."""
    try:
        owner = os.stat(path)
        names = [".", *sorted(os.listdir(path))]
    except OSError:
        return True  # gone, or a URL: an error was printed when it was opened
    lines = []
    for name in names:
        file = os.path.join(path, name)
        try:
            found = os.stat(file)
        except OSError as error:
            lines.append(f"failed to stat {printable(file)}: {error.strerror}")
            continue
        if (found.st_uid, found.st_gid) != (owner.st_uid, owner.st_gid):
            lines.append(
                f"{printable(name)} owner/group [{found.st_uid}/{found.st_gid}] doesn't match "
                f"jlog [{owner.st_uid}/{owner.st_gid}]"
            )
    if lines:
        lines += [
            "",
            "A permissions mismatch can cause these to fail later",
            "*IF* the jlog ownership is correct you can run (as root):",
            "",
            f"  chown -R {owner.st_uid}:{owner.st_gid} {printable(os.path.realpath(path))}",
        ]
        say("\n".join(lines))
    return not lines
