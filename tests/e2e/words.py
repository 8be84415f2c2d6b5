"""Containers that wait for a word from the test by one blocking read of a FIFO, which uses no CPU."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.agent.waiting import until


def waits_for(word: str) -> str:
    """A shell command that waits for a word at this path of its container. A trap may end it.

    The shell itself reads, so it leaves no child behind. containerd 2.4 takes two seconds for the end of each container
    that does, one after the other.
    """
    return f"mkfifo {word} 2>/dev/null; read _ <>{word}"


def says(word: str) -> str:
    """A shell command that writes the word at this path of its container, as soon as a reader waits."""
    return f"until [ -p {word} ]; do sleep 0.05; done; echo >{word}"


async def say(word: Path) -> None:
    """Write the word at this path of the machine, as soon as a reader waits. Raises TimeoutError."""
    await until(lambda: _is_said(word))


def _is_said(word: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        try:
            fifo = os.open(word, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO: nobody reads yet
            return False
        try:
            return os.write(fifo, b"\n") == 1
        finally:
            os.close(fifo)
    return False


@dataclass
class Word:
    """A word that can be written before a reader waits, and is kept until then."""

    fifo: int

    @classmethod
    def make(cls, place: Path) -> Self:
        """Make the FIFO, for any user."""
        os.mkfifo(place)
        place.chmod(0o666)
        return cls(os.open(place, os.O_RDWR | os.O_NONBLOCK))  # read and write, so that its content stays

    def say(self) -> None:
        os.write(self.fifo, b"\n")

    def forget(self) -> None:
        os.close(self.fifo)
