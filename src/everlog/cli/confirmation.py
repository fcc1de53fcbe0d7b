"""Questions before a change: asked on a terminal, or answered by a line of stdin, so that
``echo y | everlog archive DIR compact`` works as with the original. Source: ArchiveTool.readContinueAnswer."""

from __future__ import annotations

import sys

import click

from everlog.cli.text import is_terminal, say

MAX_ANSWER_CHARACTERS = 1024
"""The rest of a longer line answers the next question."""


def confirmed(question: str) -> bool | None:
    """Ask, and return whether the answer is yes; ``None`` without an answer: stdin has ended, or its line is empty.
    The original takes an empty line as yes; here it may be a stray line of the input that a shell loop reads."""
    if is_terminal(sys.stdin):
        return click.confirm(question, err=True)
    try:
        answer = sys.stdin.readline(MAX_ANSWER_CHARACTERS).strip()
    except (OSError, ValueError):  # stdin is closed, or not text
        answer = ""
    if not answer:
        return None
    say(f"{question} [y/N]: {answer}")
    return answer.lower() in ("y", "yes")
