"""Each link in a page leads to an existing file and heading, and each path in a page exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("syncpod", "workflows", "activities", "protos", "bench", "qa", "tests", "docs", "deploy", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))])
PROGRAMS = sorted(
    [
        *(path for name in ("*.py", "Makefile", "Dockerfile", "*.toml", "*.yml") for path in ROOT.glob(name)),
        *(path for room in ROOMS if room != "docs" for path in (ROOT / room).rglob("*.py")),
    ]
)
FENCED = re.compile(r"^ *(```+)[^\n]*\n.*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?:(?!`).)+?\1", re.DOTALL)
LINK = re.compile(r"\]\(((?:[^()\s]|\([^()\s]*\))+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
IN_BACKTICKS = re.compile(rf"`((?:{'|'.join(ROOMS)})/[\w./-]+)(?:::(\w+))?`")
NAMED_IN_CODE = re.compile(r"(?<![\w/.-])((?:docs|examples)/[\w./-]+\.md)\b")
ELSEWHERE = {"docs/metrics/workload/pod-metrics.md": "of kube-state-metrics"}


def anchors(page: Path) -> set[str]:
    """The names that a forge gives the headings of a page."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = next(n for n in range(len(found) + 1) if (f"{name}-{n}" if n else name) not in found)
        found.add(f"{name}-{number}" if number else name)
    return found


def dead_links(page: Path) -> Iterator[str]:
    """The links of a page to files and headings of this repository that do not exist."""
    for target in LINK.findall(CODE.sub("", FENCED.sub("", page.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert list(dead_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_path_in_backticks_is_there_and_has_the_test_that_is_named(page: Path) -> None:
    """Tables of tests leave out the first folder, since it is the same for all."""
    for name, test in IN_BACKTICKS.findall(FENCED.sub("", page.read_text())):
        path = ROOT / name if (ROOT / name).exists() else ROOT / "tests" / name
        assert path.exists(), name
        assert not test or f"def {test}(" in path.read_text(), f"{name}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_two_headings_of_one_name(page: Path) -> None:
    """Their links would depend on their order."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    assert page.name == "CHANGELOG.md" or len(headings) == len(set(headings))


def test_each_page_that_a_program_names_is_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PROGRAMS
        for name in NAMED_IN_CODE.findall(path.read_text())
        if name not in ELSEWHERE and not (ROOT / name).exists()
    }
    assert missing == set()


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(index.read_text())}
    assert set((ROOT / "docs").rglob("*.md")) - linked - {index} == set()


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n## A `b`, c\n\n[1](#one) [2](#a-b-c) [3](page.md#two) [4](gone.md) `[5](x.md)` [6](http://x)\n"
    )
    assert list(dead_links(page)) == ["page.md#two", "gone.md"]
