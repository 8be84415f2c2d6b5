"""Each command in a guide is run, in order, and prints the lines that the guide shows; all on one node."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, machine

ROOT = Path(__file__).parents[2]
READS = ("get", "tree", "--trace", "logs", "history", "events", "plan")
"""What may have to be looked at again. `explain` need not: the journal has what the worker has heard."""
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
MANIFESTS = "/etc/kubernetes/manifests"
"""The directory of a kubelet, for which a test takes another."""


def commands_of(guide: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a guide's console blocks, and the lines that are shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = each.rstrip("\n").split("\n")
            yield command, shown


def alike(line: str) -> str:
    """Return a line without what differs from run to run: numbers, times, and the width of columns."""
    return " ".join(re.sub(r"\d+(\.\d+)?(ms|[smhd])?", "#", line).split())


def not_printed(shown: list[str], done: Result) -> list[str]:
    """Return the shown lines that a command has not printed."""
    printed = {alike(line) for line in (done.out + done.err).splitlines()}
    return [line for line in shown if alike(line) not in printed]


class Shell:
    """A person's shell on the node: it keeps what `eval` sets."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._environ = environ
        self._kept = ""

    def run(self, command: str) -> Result:
        """Run one line; `syncpod` itself without a shell, which costs less."""
        words = shlex.split(command)
        own = dict(word.split("=", 1) for word in words if re.match(r"OTEL_\w+=", word))
        if (words := words[len(own) :])[0] == "syncpod":
            return program(*words[1:], environ={**self._environ, **own})
        if words[0] == "eval":
            self._kept = f"{command}\n"
            return Result(0, "", "")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", self._kept + command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **self._environ, "PATH": path},
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine that is up, whose node is called as in the guides."""
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("guides")) as environ:
        environ["SYNCPOD_NODE"] = "guide"
        upped = program("up", "--embedded", environ=environ)
        assert upped.code == 0, upped.err
        yield environ


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_commands_of_a_guide_work_and_print_what_it_shows(
    guide: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    (tmp_path / "web.yaml").write_text((ROOT / "examples" / "from-podman" / "mended.yaml").read_text())
    told = list(commands_of(guide.read_text().replace(MANIFESTS, str(tmp_path))))
    assert len(told) > 5
    shell = Shell(environ)
    for command, shown in told:
        code = 2 if any(line.startswith("syncpod: ") for line in shown) else 0
        deadline = time.monotonic() + 60
        while (missing := not_printed(shown, done := shell.run(command))) or done.code != code:
            # A person would look again: what a pod tells reaches the journal within a second, and a log within five.
            reads = any(word in READS for word in command.split())
            assert reads and time.monotonic() < deadline, (command, done.code, missing, done.out, done.err)
            time.sleep(0.5)
    if left := program("get", "pods", "-o", "name", environ=environ).out.split():
        assert program("delete", *left, "--grace-period", "1", environ=environ).code == 0


def test_a_shown_line_that_is_not_printed_would_be_found() -> None:
    ((command, shown),) = commands_of(f"```console\n$ syncpod get pods -l 'a=b'{os.linesep}x   12s\n```\n")
    assert (command, shown) == ("syncpod get pods -l 'a=b'", ["x   12s"])
    assert alike("x   12s") == alike("x 1.5m") != alike("y 12s")
