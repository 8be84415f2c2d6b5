"""Failures of a command: a sentence on standard error and a documented exit code, never a traceback."""

from __future__ import annotations

import os
from typing import Final

FAILED: Final = 1
"""The command failed, or something does not exist."""
BAD_INPUT: Final = 2
"""The input or the environment is wrong: a flag, a manifest, no server, no runtime."""
INTERRUPTED: Final = 130
"""Ctrl-C."""


class Failure(Exception):
    """The command failed; the text is one sentence for the user, or a line for each of several failures."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class BadInput(Failure):
    """The input is wrong, or the environment lacks something; nothing has been done."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, BAD_INPUT)


def why_of(error: OSError) -> str:
    """Return why a call to the system failed, in the system's words, without the file."""
    return os.strerror(error.errno) if error.errno else str(error)
