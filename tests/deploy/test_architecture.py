"""ARCHITECTURE.md, the pages for developers, docstrings and comments name files, rooms and definitions that exist."""

import io
import re
import tokenize
from collections.abc import Iterator
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
"""The names in parentheses after a file."""
ROOMS = ("syncpod", "workflows", "activities", "bench", "qa", "tests", "protos")
MODULES = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))]
FILES = {f"/{path.relative_to(ROOT)}" for path in MODULES}
NAMES_A_FILE = re.compile(r"`([\w./-]+\.py)`")
NAMES_A_MODULE = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)(?:\(\))?`")
PROSE = re.compile(r'[rb]*"""|#')
SUFFIXES = {"_pb2.py", "_pb2_grpc.py"}
"""Endings of the names of generated modules, which their generator's docstring names."""


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) and PROSE.match(token.string):
            yield token.start[0], token.string


def is_there(name: str) -> bool:
    """Return whether a dotted name is that of a package or module of the tree, or of a definition in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:count])
        module = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if module.exists():
            text = module.read_text()
            return all(re.search(rf"\b{part}\b", text) for part in parts[count:])
    return False


def stale_names(text: str) -> list[str]:
    """The names in a text that are those of modules, or of definitions in them, and name none."""
    files = [name for name in NAMES_A_FILE.findall(text) if name not in SUFFIXES]
    dotted = [name for name in NAMES_A_MODULE.findall(text) if not name.endswith(".py")]
    return [
        *(name for name in files if not any(each.endswith(f"/{name}") for each in FILES)),
        *(name for name in dotted if not is_there(name)),
    ]


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


@pytest.mark.parametrize("room", [*ROOMS, ""])
def test_every_module_named_in_a_docstring_or_comment_exists(room: str) -> None:
    """As a file, such as `containers/noted_starts.py`, or dotted, such as `syncpod.cli.kubelet.reading`."""
    stale = []
    for path in MODULES:
        if path.parent != ROOT / room and (not room or ROOT / room not in path.parents):
            continue
        # To find docstrings and comments takes a hundred times as long as to find names.
        if stale_names(path.read_text()):
            for line, text in prose_of(path):
                stale += [f"{path.relative_to(ROOT)}:{line}: {name}" for name in stale_names(text)]
    assert stale == []
