"""Each command in a guide is run, in order, and prints the lines that the guide shows; all on one node.

So are those of the README, of the page for Temporal's clients and of the page about nodes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, machine

ROOT = Path(__file__).parents[2]
READS = ("get", "tree", "--trace", "logs", "history", "events", "plan")
"""What may have to be looked at again. `explain` need not: the journal has what the worker has heard."""
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
MANIFESTS = ("/etc/kubernetes/manifests", "/etc/syncpod/pods")
"""Directories of the machine, for which a test takes another."""
PAGES = {
    "README.md": (("Ten commands",), 10),
    "docs/temporal.md": (("Connect", "Lists of pods"), 8),
    "docs/nodes.md": (("Nodes",), 4),
    "examples/pods/README.md": (("Examples",), 1),
}
"""Pages with commands for a node that is up: the headings below which these are, and how many there are."""
AFTERWARDS = {
    "docs/nodes.md": ("uncordon guide", "down --keep-pods", "up --no-manifests"),
    "examples/pods/README.md": ("delete -f examples/pods/projected.yaml --ignore-not-found",),
}
"""What a page does not show: how its node becomes again what it was."""


def commands_of(guide: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a guide's console blocks, and the lines that are shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = each.replace("\\\n", "").rstrip("\n").split("\n")
            yield command, shown


def below(page: str, headings: Iterable[str]) -> str:
    """Return the parts of a page below these headings, up to the next ones."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    return "\n".join(said[each] for each in headings)


def alike(line: str) -> str:
    """Return a line without what differs from run to run: numbers, times, and the width of columns."""
    return " ".join(re.sub(r"\d+(\.\d+)?(ms|[smhd])?", "#", line).split())


def not_printed(shown: list[str], done: Result) -> list[str]:
    """Return the shown lines that a command has not printed."""
    printed = {alike(line) for line in (done.out + done.err).splitlines()}
    return [line for line in shown if alike(line) not in printed]


class Shell:
    """A person's shell on the node: it keeps what `eval` sets."""

    def __init__(self, environ: dict[str, str], programs: Sequence[Path] = ()) -> None:
        """Run commands with this environment; `programs` are more directories of programs."""
        self._environ = environ
        self._programs = [str(each) for each in programs]
        self._kept = ""

    def run(self, command: str) -> Result:
        """Run one line; `syncpod` itself without a shell, which costs less."""
        words = shlex.split(command, comments=True)
        own = dict(word.split("=", 1) for word in words if re.match(r"OTEL_\w+=", word))
        if words[:2] == ["syncpod", "logs"] and "-f" in words:
            return self._follow(words)
        if (words := words[len(own) :])[0] == "syncpod" and "&&" not in words:
            return program(*words[1:], environ={**self._environ, **own})
        if words[0] == "eval":
            self._kept = f"{command}\n"
            return Result(0, "", "")
        path = ":".join((str(Path(sys.executable).parent), *self._programs, os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-ec", self._kept + command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **self._environ, "PATH": path},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def _follow(self, words: Sequence[str]) -> Result:
        """Run a command that goes on until it is interrupted; interrupt it once it has printed something."""
        command = [sys.executable, "-m", "syncpod.cli.main", *words[1:]]
        environ = {**os.environ, **self._environ}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as following:
            assert following.stdout is not None
            first = following.stdout.readline()
            following.send_signal(signal.SIGINT)
            out, _ = following.communicate(timeout=60)
        return Result(following.returncode - 130 if first else 1, first + out, "")


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
    run_all(guide.read_text(), Shell(environ), tmp_path, least=6)
    delete_pods(environ)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(
    page: str,
    environ: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    headings, commands = PAGES[page]
    text = below((ROOT / page).read_text(), headings)
    programs = [request.getfixturevalue("tctl").parent] if "$ tctl" in text else []
    run_all(text, Shell(environ, programs), tmp_path, least=commands)
    delete_pods(environ)
    for line in AFTERWARDS.get(page, ()):
        assert program(*line.split(), environ=environ).code == 0


def delete_pods(environ: dict[str, str]) -> None:
    """Leave no pod on the node."""
    if left := program("get", "pods", "-o", "name", environ=environ).out.split():
        assert program("delete", *left, "--grace-period", "1", environ=environ).code == 0


def run_all(text: str, shell: Shell, manifests: Path, *, least: int) -> None:
    """Run the commands of a text, which are so many at least, and compare what they print with what it shows."""
    for directory in MANIFESTS:
        text = text.replace(directory, str(manifests))
    told = list(commands_of(text.replace("$(hostname)", "guide")))
    assert len(told) >= least
    for command, shown in told:
        code = 2 if any(line.startswith("syncpod: ") for line in shown) else 0
        deadline = time.monotonic() + 60
        while (missing := not_printed(shown, done := shell.run(command))) or done.code != code:
            # A person would look again: what a pod tells reaches the journal within a second, and a log within five.
            reads = any(word in READS for word in command.split())
            assert reads and time.monotonic() < deadline, (command, done.code, missing, done.out, done.err)
            time.sleep(0.5)


def test_a_shown_line_that_is_not_printed_would_be_found() -> None:
    ((command, shown),) = commands_of(f"```console\n$ syncpod get pods -l 'a=b'{os.linesep}x   12s\n```\n")
    assert (command, shown) == ("syncpod get pods -l 'a=b'", ["x   12s"])
    assert alike("x   12s") == alike("x 1.5m") != alike("y 12s")
