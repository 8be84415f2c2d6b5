"""ARCHITECTURE.md names what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(
    r"`((?:syncpod|workflows|activities|protos|bench|tests)/[\w./]*|worker\.py)`",
    (ROOT / "ARCHITECTURE.md").read_text(),
)


@pytest.mark.parametrize("path", sorted(set(NAMED)))
def test_every_path_named_in_architecture_md_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_room_is_described_in_architecture_md() -> None:
    rooms = {f"syncpod/{entry.name}" for entry in (ROOT / "syncpod").iterdir() if not entry.name.startswith("__")}
    assert {room for room in rooms if not any(path.rstrip("/") == room for path in NAMED)} == set()


def test_modules_named_in_a_room_belong_to_it() -> None:
    """A module named without its folder lies in a room of the section that names it."""
    sections = re.split(r"^### ", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        text = section.split("\n\n**")[0].split("\n## ")[0]
        rooms = [ROOT / room for room in re.findall(r"`((?:syncpod/)?\w+)/`", text.splitlines()[0])]
        modules = {path.name for room in rooms for path in room.rglob("*.py")}
        for name in re.findall(r"`(\w+\.py)`", text):
            assert not rooms or name in modules, f"{section.splitlines()[0]}: {name}"
