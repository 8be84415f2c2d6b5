"""Searches files and command lines for a text, in every form in which it may be encoded."""

from __future__ import annotations

import base64
import os
import threading
import time
from pathlib import Path
from typing import Self

from syncpod.kernel.mounting import is_mount


def forms(text: str) -> frozenset[bytes]:
    """An ASCII text literally, percent-encoded, in hex, and in base64 at each possible offset."""
    plain = text.encode()
    found = {plain, plain.hex().encode(), plain.hex().upper().encode(), b"".join(b"%%%02X" % each for each in plain)}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + plain)
        # The first and the last character also encode bits of the adjacent bytes.
        inside = encoded[4 if shift else 0 : -4]
        found |= {inside, inside.replace(b"+", b"-").replace(b"/", b"_")}
    return frozenset(found)


def found_in(content: bytes, text: str) -> bool:
    """Whether the data has a text in any form."""
    return any(form in content for form in forms(text))


def files_with(text: str, *places: Path) -> list[Path]:
    """The files that have a text in any form, recursively, but not behind symlinks or mounts."""
    found: list[Path] = []
    for place in places:
        if place.is_symlink() or is_mount(place):
            continue
        if place.is_dir():
            found += files_with(text, *sorted(place.iterdir()))
        elif place.is_file() and found_in(place.read_bytes(), text):
            found.append(place)
    return found


class CommandLines:
    """Records the command lines of all processes that begin on the machine during the `with` block.

    Each process is watched for its first second, since it may execute another program.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._begun: dict[str, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def with_text(self, text: str) -> list[bytes]:
        """The command lines that have a text in any form."""
        return sorted(line for line in self._seen if found_in(line, text))

    def _watch(self) -> None:
        while not self._done.is_set():
            now, running = time.monotonic(), [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
            self._begun = {process: self._begun.get(process, now) for process in running}
            for process, begun in self._begun.items():
                if now - begun < 1.0:
                    self._look(process)
            self._done.wait(0.01)

    def _look(self, process: str) -> None:
        try:
            self._seen.add(Path("/proc", process, "cmdline").read_bytes())
        except OSError:
            return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
