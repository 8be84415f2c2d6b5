"""Each command in a guide is run, in order, and prints the lines that the guide shows."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, machine

ROOT = Path(__file__).parents[2]
READS = ("get", "explain", "logs", "history", "events", "plan")
"""Commands that change nothing."""
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def commands_of(guide: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each command of a guide's console blocks, and the lines that are shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = each.rstrip("\n").split("\n")
            yield shlex.split(command), shown


def alike(line: str) -> str:
    """Return a line without what differs from run to run: numbers, times, and the width of columns."""
    return " ".join(re.sub(r"\d+(\.\d+)?(ms|[smhd])?", "#", line).split())


def not_printed(shown: list[str], done: Result) -> list[str]:
    """Return the shown lines that a command has not printed."""
    printed = {alike(line) for line in (done.out + done.err).splitlines()}
    return [line for line in shown if alike(line) not in printed]


@pytest.fixture
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine that is up, whose node is called as in the guides."""
    with machine(EMBEDDED, request, tmp_path) as environ:
        environ["SYNCPOD_NODE"] = "guide"
        upped = program("up", "--embedded", environ=environ)
        assert upped.code == 0, upped.err
        yield environ


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_commands_of_a_guide_work_and_print_what_it_shows(
    guide: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    told = list(commands_of(guide.read_text()))
    assert len(told) > 5
    for (name, *arguments), shown in told:
        assert name == "syncpod"
        deadline = time.monotonic() + 60
        while (missing := not_printed(shown, done := program(*arguments, environ=environ))) and done.code == 0:
            # A person would look again: what a pod tells reaches the journal within a second.
            assert arguments[0] in READS and time.monotonic() < deadline, (arguments, missing, done.out, done.err)
        assert done.code == 0, (arguments, done.err)


def test_a_shown_line_that_is_not_printed_would_be_found() -> None:
    ((command, shown),) = commands_of(f"```console\n$ syncpod get pods -l 'a=b'{os.linesep}x   12s\n```\n")
    assert (command, shown) == (["syncpod", "get", "pods", "-l", "a=b"], ["x   12s"])
    assert alike("x   12s") == alike("x 1.5m") != alike("y 12s")
