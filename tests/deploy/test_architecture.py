"""ARCHITECTURE.md and the pages for developers name files, rooms and definitions that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("ARCHITECTURE.md", "docs/code-map.md", "docs/engineering/internals.md", "docs/testing.md", "docs/upgrading.md")
PATH = r"`((?:syncpod|workflows|activities|protos|bench|qa|tests|docs)/[\w./-]*|worker\.py)`"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
NAMED_ANYWHERE = {path for page in PAGES for path in re.findall(PATH, (ROOT / page).read_text())}
DEFINITIONS = {
    (path, name)
    for page in PAGES
    for path, names in re.findall(rf"{PATH} \(((?:`[\w.]+`(?:, )?)+)\)", (ROOT / page).read_text())
    for name in re.findall(r"\w+", names)
}
"""What follows a file in parentheses."""


@pytest.mark.parametrize("path", sorted(NAMED_ANYWHERE))
def test_every_path_named_on_the_pages_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "name"), sorted(DEFINITIONS))
def test_every_definition_named_on_a_page_is_in_its_file(path: str, name: str) -> None:
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text())


def test_every_room_is_described_in_architecture_md_and_every_module_without_one_on_the_code_map() -> None:
    code_map = (ROOT / "docs/code-map.md").read_text()
    for entry in (ROOT / "syncpod").iterdir():
        if entry.is_dir() and not entry.name.startswith("__"):
            assert f"**`syncpod/{entry.name}/`**" in ARCHITECTURE
        elif not entry.name.startswith("__"):
            assert f"`syncpod/{entry.name}`" in code_map


def test_modules_named_in_a_room_belong_to_it() -> None:
    """A module named without its folder lies in the room whose name, in bold, is the last one before it."""
    for room, text in re.findall(r"\*\*`([\w/]+)/`\*\*(.*?)(?=\*\*`|\n\n)", ARCHITECTURE, re.DOTALL):
        modules = {path.name for path in (ROOT / room).rglob("*.py")}
        assert set(re.findall(r"`(\w+\.py)`", text)) - modules - {"worker.py"} == set(), room
