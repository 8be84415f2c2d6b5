"""Blocks of commands in documentation pages, and the output lines that are shown below each command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$|^#+ ([^\n]+)$", re.MULTILINE | re.DOTALL)
GENERATED = ("docs/cli.md",)
"""Pages whose commands other tests run: `test_reference.py`."""


@dataclass(frozen=True)
class Block:
    """A block of commands: the page, the heading above it, its language (`console` or `sh`), and its text."""

    page: str
    heading: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first command, without a comment, by which tables refer to the block."""
        return re.sub(r"^\$ ", "", self.text.split("\n", 1)[0]).split(" #")[0].strip().removesuffix("\\").strip()


def pages() -> list[str]:
    """Return the documentation pages."""
    rooms = (path for room in ("docs", "examples", "deploy") for path in (ROOT / room).rglob("*.md"))
    found = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *rooms)}
    return sorted(found.difference(GENERATED))


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of commands of a page."""
    heading = ""
    for language, text, title in FENCED.findall((ROOT / page).read_text()):
        heading = title or heading
        if language in ("console", "sh"):
            yield Block(page, heading, language, text)


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the lines that are shown below it."""
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = each.replace("\\\n", "").rstrip("\n").split("\n")
        yield command, shown


def alike(line: str) -> str:
    """Return a line without the parts that vary: ids, addresses, numbers, times, and the width of columns."""
    line = re.sub(r"\b(?=[a-f-]*\d)[0-9a-f][0-9a-f-]{7,}\b|\d+(\.\d+){3}", "#", line)
    return " ".join(re.sub(r"(\d+(\.\d+)?(ms|[smhd])?)+", "#", line).split())


def not_printed(shown: list[str], printed: str) -> list[str]:
    """Return the lines shown in the page that were not printed."""
    lines = {alike(line) for line in printed.splitlines()}
    return [line for line in shown if alike(line) not in lines]
