"""Runs critest, the conformance suite of CRI runtimes (kubernetes-sigs/cri-tools), with lists of expected results."""

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
"""The specs that it does not pass, under lines that begin with `#` and have the reason."""

SERVE = "echo {name} serves; exec {busybox} httpd -f -p {port} -h {home}"
PROGRAMS = {
    "nginx": (SERVE, 80),
    "httpd": (SERVE, 80),
    f"hostnet-nginx-{architecture()}": (SERVE, 12003),
    "test-image-tag": ("exec {busybox} sleep 1000", 0),
}
"""The programs of some of critest's images, by the last part of their names: a shell script, and the port it serves."""

REGISTRY = "gcr.io/k8s-staging-cri-tools"
USERS = {
    "test-image-user-uid": "1002",
    "test-image-user-username": "www-data",
    "test-image-user-uid-group": "1003:users",
    "test-image-user-username-group": "www-data:100",
    "test-image-predefined-group": "",
}
"""The users of some of critest's images, by name. In the last image, a user is member of a further group."""
SETUID = "registry.k8s.io/e2e-test-images/nonewprivs:1.3"
"""The image with a setuid program of root."""
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n"
_GROUP = b"root:x:0:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"


@dataclass(frozen=True)
class Outcome:
    """The result of one spec: Ginkgo's state, such as `passed`, `failed` or `skipped`, and its message."""

    state: str
    message: str
    seconds: float


def expected() -> tuple[str, ...]:
    """The names of the specs that pass."""
    return tuple(line for line in PASS.read_text().splitlines() if line and not line.startswith("#"))


def excused() -> Mapping[str, str]:
    """The reasons why specs do not pass, by their names."""
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
    """Run all specs, or those in `only`, with the report in `directory`; return the outcomes by name.

    Raises AssertionError with the end of the output if there is no report.
    """
    report = directory / "report.json"
    command = [str(program), f"--ginkgo.json-report={report}", "--ginkgo.no-color", "--ginkgo.seed=1", *options]
    command += [f"--runtime-endpoint={endpoint}", f"--image-endpoint={endpoint}"] if endpoint else []
    # Go's \Q...\E quotes all characters. The pattern is matched with the suite's name and the spec's.
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
    """A directory with a program for each of critest's images: in this runtime, an image's name selects one on PATH.

    It has busybox under the names of all its applets, as in `busybox:1.29`, and web servers of one page. It is below
    /var/tmp, since containers have their own /tmp.
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
    """Load those of critest's images that need more than a program: busybox with users and groups, a setuid program.

    Raises `Missing` if they cannot be made.
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
    """The program that prints its effective user. Raises `Missing` if there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Missing("there is no C compiler to make critest's setuid program with")
    program = directory / "effective_uid"
    subprocess.run([compiler, "-static", "-Os", "-s", "-o", program, HERE / "effective_uid.c"], check=True)
    return program.read_bytes()


def _outcome(spec: dict[str, Any]) -> Outcome:
    failure = spec.get("Failure") or {}
    return Outcome(spec["State"], failure.get("Message", ""), spec["RunTime"] / 1e9)
