"""Commands as users of kubectl type them from memory: each works, or is refused with an alternative.

These tests have no server: a command that is accepted fails because it reaches none. `python -m
tests.cli.test_kubectl_commands` writes docs/kubectl.md.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from syncpod.cli.main import run
from tests.cli.kubectl_lines import REFUSED, UNDERSTOOD

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kubectl.md"
NO_SERVER = "no Temporal server at 127.0.0.1:1"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "a", "image": "b"}]},
}
HEAD = """\
# For users of kubectl

`syncpod` takes kubectl's words, flags and columns where it has what they are about. Below are {count} commands as
somebody who knows kubectl types them from memory. A test runs each, and this page is generated from its table (`python
-m tests.cli.test_kubectl_commands`). A refused command has done nothing; its exit code is 2. [The command
line](cli.md) has all commands with their options.

## What works
"""
NOTHING_MORE = "as with kubectl"


def rendered() -> str:
    """The page with the commands' current answers."""
    works = [(f"`syncpod {line}`", note or NOTHING_MORE) for line, note in UNDERSTOOD.items()]
    with no_server():
        refused = [(f"`syncpod {line}`", answer_to(line)) for line, _ in REFUSED]
    head = HEAD.format(count=len(works) + len(refused))
    parts = [head, table(("command", "what differs"), works), "\n## What is refused, and the answer\n"]
    return "\n".join([*parts, table(("command", "answer"), refused), ""])


def table(titles: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """The rows as a Markdown table."""
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (titles, ("---", "---"), *rows)]
    return "\n".join(f"| {each} |" for each in cells)


def answer_to(line: str) -> str:
    """The error message of a refused command, without the name of the program."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert run(line.split()) == 2, line
    return " ".join(said.getvalue().removeprefix("syncpod: ").split())


@contextlib.contextmanager
def no_server() -> Iterator[None]:
    """A directory with a manifest, and no server."""
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
        Path("pod.yaml").write_text(json.dumps(POD))
        nowhere = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "SYNCPOD_STATE_DIR": f"{made}/state"}
        with mock.patch.dict(os.environ, nowhere):
            yield


@pytest.fixture
def nowhere() -> Iterator[None]:
    """A directory with a manifest, and no server."""
    with no_server():
        yield


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("line", UNDERSTOOD)
def test_a_command_of_kubectl_is_understood(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    said = [each for each in capsys.readouterr().err.splitlines() if not each.startswith("Note: no terminal")]
    assert said[0].startswith(f"syncpod: {NO_SERVER}"), line


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_what_is_not_here_is_refused_with_the_way_on(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"syncpod: {said}"), line


def test_the_page_has_each_command_with_its_answer() -> None:
    assert DOCUMENT.read_text() == rendered(), "python -m tests.cli.test_kubectl_commands"


@pytest.mark.parametrize("flag", ["--client", "--short"])
def test_the_version_is_the_clients(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", flag]) == 0
    assert capsys.readouterr().out.startswith("syncpod ")


if __name__ == "__main__":
    DOCUMENT.write_text(rendered())
