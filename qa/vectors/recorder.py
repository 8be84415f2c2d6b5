"""The recorder: a program that calls a kubelet's own functions, built inside a copy of that kubelet's module.

Since the functions are not exported, a file of ours is added to each of their packages, and a main package to the
module.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Literal

from qa.conformance.programs import keep, kubernetes_source, run_go
from tests.runtimes.require import cache_directory

Kind = Literal["actions", "phase", "backoff"]
VERSIONS: Final = ("1.36.2", "1.37.2")
"""The kubelets whose decisions can be recorded."""
_FILES: Final = Path(__file__).parent / "go"
_MAIN: Final = "cmd/recorder"


def recorder(version: str) -> Path:
    """Return the recorder for a kubelet of this version. If it is not in the cache, build it, which takes minutes.

    Raises `Missing`, CalledProcessError.
    """
    program = cache_directory() / f"kubernetes-{version}" / f"recorder-{_digest()}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="syncpod-recorder-") as scratch:
            source = kubernetes_source(Path(scratch, "kubernetes"), version)
            _add_files(source, version)
            keep(
                program,
                lambda out: run_go(source, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(out), f"./{_MAIN}"),
            )
    return program


def _digest() -> str:
    """Return a digest of our source files, so that a recorder from older sources in the cache is not used."""
    content = b"".join(each.read_bytes() for each in sorted(_FILES.iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]


def _add_files(source: Path, version: str) -> None:
    minor = "_".join(version.split(".")[:2])
    (source / _MAIN).mkdir()
    for name, place in (
        ("main.go", _MAIN),
        ("kubelet.go", "pkg/kubelet"),
        ("kuberuntime.go", "pkg/kubelet/kuberuntime"),
        (f"kuberuntime_{minor}.go", "pkg/kubelet/kuberuntime"),
    ):
        shutil.copyfile(_FILES / name, source / place / f"recorder_{name}")


def record(version: str, kind: Kind, cases: str) -> str:
    """Return a kubelet's answers to cases; both are a line of JSON for each case.

    Raises `Missing`, CalledProcessError.
    """
    asked = subprocess.run([recorder(version), kind], input=cases, stdout=subprocess.PIPE, text=True, check=True)
    return asked.stdout
