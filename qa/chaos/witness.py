"""The program that containers run. It is compiled once for a run, and mounted into containers by a hostPath volume."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.runtimes.images import BUSYBOX
from tests.runtimes.require import Missing

PLACE = "/witness"
"""The program's path in containers."""


def build(program: Path) -> None:
    """Compile it. Raises `Missing` if there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Missing("there is no C compiler (gcc) to build the containers' program with")
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-static", "-Os", "-s", "-o", program, source], check=True)


def container(pod: str, name: str, *options: str, pre_stop: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a container that writes notes of its life. `pre_stop` gives it a hook of this many milliseconds."""
    found: dict[str, Any] = {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": [f"{PLACE}/witness", "run", pod, name, *options],
        "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}, {"name": "witness", "mountPath": PLACE}],
        **more,
    }
    if pre_stop is not None:
        hook = [f"{PLACE}/witness", "prestop", pod, name, f"for={pre_stop}"]
        found["lifecycle"] = {"preStop": {"exec": {"command": hook}}}
    return found


def volumes(directory: Path) -> list[dict[str, Any]]:
    """Return the volumes of such containers: the directory for their notes, and the program's."""
    places = {"out": directory / "out", "witness": directory / "bin"}
    return [{"name": name, "hostPath": {"path": str(place), "type": "Directory"}} for name, place in places.items()]
