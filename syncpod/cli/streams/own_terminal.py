"""Tells whether a container can have the terminal of the command."""

from __future__ import annotations

import sys

from syncpod.cli.console import remark


def has_terminal(*, stdin: bool) -> bool:
    """Return whether our input is a terminal; if not, print a note about that, as kubectl does."""
    if stdin and sys.stdin is not None and sys.stdin.isatty():
        return True
    remark("Note: no terminal to give it (--tty needs --stdin and a terminal); continuing without one")
    return False
