"""Failures of a command: a sentence on standard error and a documented exit code, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

FAILED: Final = 1
"""Exit code: the command failed, or an object does not exist."""
BAD_INPUT: Final = 2
"""Exit code: a flag, a manifest or the environment is wrong, or there is no server or no runtime."""
INTERRUPTED: Final = 130
"""Exit code: Ctrl-C ended the command."""


class Failure(Exception):
    """The command failed; the text is one sentence for the user, or a line for each of several failures."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class BadInput(Failure):
    """The input is wrong, or the environment lacks something; nothing has been done."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, BAD_INPUT)


class AlreadyExists(Failure):
    """There is an object of the name that one was to be created with; it is left as it is."""

    def __init__(self, kinds: str, name: str, namespace: str) -> None:
        """`kinds` is the kind's plural, as in kubectl's sentence."""
        super().__init__(f'{kinds} "{name}" already exists in namespace {namespace}')


def together(failures: Sequence[Failure], *, done: bool) -> Failure:
    """Return one Failure with the lines of all. Its code is BAD_INPUT if each has it and nothing was `done`."""
    is_bad_input = not done and all(failure.code == BAD_INPUT for failure in failures)
    return Failure("\n".join(map(str, failures)), BAD_INPUT if is_bad_input else FAILED)


def why_of(error: OSError) -> str:
    """Return the system's text for a failed system call, without the file's name."""
    return os.strerror(error.errno) if error.errno else str(error)
