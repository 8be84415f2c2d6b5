"""The conformance suite of CRI runtimes (kubernetes-sigs/cri-tools), and what is known of its specs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.runtime.image_files import Layout, entry, layer, write_tar
from tests.runtimes.embedded import ROOT
from tests.runtimes.images import architecture, images
from tests.runtimes.require import Missing

HERE = Path(__file__).resolve().parent
PASS = HERE / "pass.txt"
"""The specs that the embedded runtime passes, by their full names, one on each line."""
FAIL = HERE / "not.txt"
"""Those that it does not, under lines that begin with `#` and say why."""

SERVE = "echo {name} serves; exec {busybox} httpd -f -p {port} -h {home}"
PROGRAMS = {
    "nginx": (SERVE, 80),
    "httpd": (SERVE, 80),
    f"hostnet-nginx-{architecture()}": (SERVE, 12003),
    "test-image-tag": ("exec {busybox} sleep 1000", 0),
}
"""What some of critest's images run, by the last part of their names: a shell script, and the port where it listens."""

REGISTRY = "gcr.io/k8s-staging-cri-tools"
USERS = {
    "test-image-user-uid": "1002",
    "test-image-user-username": "www-data",
    "test-image-user-uid-group": "1003:users",
    "test-image-user-username-group": "www-data:100",
    "test-image-predefined-group": "",
}
"""Who some of critest's images run as. The last one has a user that is in a group besides."""
SETUID = "registry.k8s.io/e2e-test-images/nonewprivs:1.3"
"""The one whose program is root's, and sets its user."""
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n"
_GROUP = b"root:x:0:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `passed`, `failed`, `skipped` and the rest of ginkgo's words, and what it said."""

    state: str
    message: str
    seconds: float


def expected() -> tuple[str, ...]:
    """The names of the specs that pass."""
    return tuple(line for line in PASS.read_text().splitlines() if line and not line.startswith("#"))


def excused() -> Mapping[str, str]:
    """By name, why a spec does not pass."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in FAIL.read_text().splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            assert reason and line not in reasons, line
            reasons[line] = reason
    return reasons


async def run(
    program: Path, directory: Path, *, endpoint: str = "", only: Sequence[str] = (), options: Sequence[str] = ()
) -> Mapping[str, Outcome]:
    """Run it with its report in `directory`, all specs or those named; by name, what became of each.

    Raises AssertionError with the end of its output where it wrote no report.
    """
    report = directory / "report.json"
    command = [str(program), f"--ginkgo.json-report={report}", "--ginkgo.no-color", "--ginkgo.seed=1", *options]
    command += [f"--runtime-endpoint={endpoint}", f"--image-endpoint={endpoint}"] if endpoint else []
    # Go's \Q...\E: every character means itself. What is matched is the suite's name and the spec's.
    command += [f"--ginkgo.focus=\\Q{name}\\E$" for name in only]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "HOME": str(directory)},
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    (directory / "output").write_bytes(output)
    assert report.exists(), output.decode(errors="replace")[-4000:]
    (suite,) = json.loads(report.read_text())
    return {
        " ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]]): _outcome(spec)
        for spec in suite["SpecReports"]
        if spec["LeafNodeType"] == "It"
    }


@contextlib.contextmanager
def programs() -> Iterator[Path]:
    """A directory of programs for the names of critest's images: on this runtime an image stands for what is on PATH.

    Busybox under the names of all its applets, as in `busybox:1.29`, and web servers of one page. It is below /var/tmp:
    containers have a /tmp of their own.
    """
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Missing("busybox is not installed")
    with tempfile.TemporaryDirectory(prefix="critest-", dir="/var/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        (home / "index.html").write_text("It works\n")
        for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            (home / applet).symlink_to(busybox)
        for name, (script, port) in PROGRAMS.items():
            program = home / name
            program.unlink(missing_ok=True)
            program.write_text(f"#!{busybox} sh\n{script.format(name=name, busybox=busybox, port=port, home=home)}\n")
            program.chmod(0o755)
        yield home


def load_images(state_dir: Path, directory: Path) -> None:
    """Have a server know those of critest's images in which more counts than the name of a program.

    These are busybox with users and groups, and a setuid program. Raises `Missing` where they cannot be made.
    """
    busybox = images()[1]
    people = layer(entry("etc/passwd", _PASSWD), entry("etc/group", _GROUP))
    layouts = [
        Layout((busybox.layer, people), {**busybox.config, "User": user}, f"{REGISTRY}/{name}:latest")
        for name, user in USERS.items()
    ]
    setuid = layer(entry("nnp", _compiled(directory), mode=0o4755))
    for layout in (*layouts, Layout((setuid,), {"Entrypoint": ["/nnp"]}, SETUID)):
        file = write_tar(directory / "image.tar", layout.files())
        command = [sys.executable, "-m", "syncpod.runtime.load", "--state-dir", str(state_dir), str(file)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        file.unlink()


def _compiled(directory: Path) -> bytes:
    """The program that says who it is. Raises `Missing` where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Missing("there is no C compiler to make critest's setuid program with")
    program = directory / "effective_uid"
    subprocess.run([compiler, "-static", "-Os", "-s", "-o", program, HERE / "effective_uid.c"], check=True)
    return program.read_bytes()


def _outcome(spec: dict[str, Any]) -> Outcome:
    failure = spec.get("Failure") or {}
    return Outcome(spec["State"], failure.get("Message", ""), spec["RunTime"] / 1e9)
