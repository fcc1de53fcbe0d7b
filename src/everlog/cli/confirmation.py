"""Questions before something is changed: asked on a terminal, or answered by a line of what stdin brings, so that
``echo y | everlog archive DIR compact`` does what it does with the original. Source: ArchiveTool.readContinueAnswer."""

from __future__ import annotations

import sys

import click

from everlog.cli.text import is_terminal, say

MAX_ANSWER_LETTERS = 1024
"""Of a line that is longer, the rest answers the next question."""


def confirmed(question: str) -> bool | None:
    """Whether the answer is yes; ``None`` when there is none: stdin has ended, or has an empty line. The original takes
    that for yes; here it may as well come from a list that some loop reads."""
    if is_terminal(sys.stdin):
        return click.confirm(question, err=True)
    try:
        answer = sys.stdin.readline(MAX_ANSWER_LETTERS).strip()
    except (OSError, ValueError):  # closed; bytes that are no text
        answer = ""
    if not answer:
        return None
    say(f"{question} [y/N]: {answer}")
    return answer.lower() in ("y", "yes")
