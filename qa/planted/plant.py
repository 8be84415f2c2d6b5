"""The record of a planted bug."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class StalePlant(Exception):
    """A bug can no longer be planted, because its file has changed. The text names the bug and the reason."""


@dataclass(frozen=True)
class Plant:
    """One bug: the text to replace, and the tests that should fail then."""

    name: str
    room: str
    """The room that has the bug: a package, or a module outside of all packages."""
    file: str
    """Path from the repository's root."""
    before: str
    """Text that occurs exactly once in the file."""
    after: str
    harm: str
    """The effect of the bug on a user, in one sentence."""
    tests: tuple[str, ...]
    """Arguments for pytest: the directories or files of the suite that should find it."""

    def planted(self, root: Path) -> str:
        """Return the text of the file below `root` with the bug in it. Raises StalePlant."""
        path = root / self.file
        if not path.is_file():
            raise StalePlant(f"{self.name}: there is no {self.file}")
        text = path.read_text()
        if (count := text.count(self.before)) != 1:
            raise StalePlant(f"{self.name}: {self.file} has {count} times, not once: {self.before!r}")
        return text.replace(self.before, self.after)
