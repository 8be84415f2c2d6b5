"""A mount namespace in which kubeadm can write to /etc/kubernetes, /var/lib/kubelet and /var/lib/etcd.

In the namespace, these places are directories of the run, so that this machine's own files are not touched. All
processes of the run share it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from qa.conformance.namespace import WITHIN
from qa.conformance.nodes import own_environment
from qa.conformance.programs import program
from tests.runtimes.leftovers import unmount_below

API: Final = "kubeadm.k8s.io/v1beta4"
PATIENCE: Final = 300.0
"""Seconds that kubeadm may take."""
_PLACES: Final = ("/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd")


class KubeadmsMachine:
    """The mount namespace, and the processes in it. `close` ends the process that holds it."""

    def __init__(self, directory: Path) -> None:
        """Keep the three places, and all logs, below `directory`. Raises RuntimeError without a mount namespace."""
        self.directory = directory
        self.made = [place for place in map(Path, _PLACES) if not place.exists()]
        mounts = [
            f"mkdir -p {place} {self.place(place)}; mount --bind {self.place(place)} {place}" for place in _PLACES
        ]
        script = "; ".join((*mounts, "echo ready", "exec sleep infinity"))
        command = [*WITHIN, "unshare", "--mount", "sh", "-ec", script]
        self._holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self._holder.stdout is None or self._holder.stdout.readline() != b"ready\n":
            raise RuntimeError("there is no mount namespace for kubeadm")
        self.within: Sequence[str] = (*WITHIN, f"--mount=/proc/{self._holder.pid}/ns/mnt")

    def place(self, path: str) -> Path:
        """Return the path outside of the namespace for a path in one of the three places."""
        return self.directory / "machine" / path.lstrip("/")

    def kubeadm(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of kubeadm, which logs to `kubeadm.log`, without waiting for it."""
        environment = os.environ | {"PATH": f"{program('kubectl').parent}:{os.environ['PATH']}"}
        command = [*self.within, str(program("kubeadm")), *arguments]
        with (self.directory / "kubeadm.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def until_kubelet_is_wanted(self, running: subprocess.Popen[bytes]) -> None:
        """Wait until kubeadm has written the kubelet's files. Raises RuntimeError if it ends, or takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not self.place("/var/lib/kubelet/kubeadm-flags.env").exists():
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"kubeadm wrote no configuration: {self.log()}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def kubelet(self) -> Iterator[None]:
        """Run `syncpod-kubelet` during the block, with the files and flags that kubeadm's systemd unit uses."""
        flags = re.search(r'"(.*)"', self.place("/var/lib/kubelet/kubeadm-flags.env").read_text())
        command = [*self.within, sys.executable, "-m", "syncpod.cli.kubelet.program"]
        command += ["--config=/var/lib/kubelet/config.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf"]
        command += ["--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"]
        command += [f"--root-dir={self.directory / 'root'}", *(flags[1].split() if flags else ())]
        with (self.directory / "kubelet.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=own_environment(self.directory),
                start_new_session=True,
            )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            unmount_below(self.directory)

    def log(self) -> str:
        """Return the last lines of kubeadm's log."""
        return "\n".join((self.directory / "kubeadm.log").read_text(errors="replace").splitlines()[-10:])

    def close(self) -> None:
        """End the namespace, and remove those of the three places that did not exist before."""
        self._holder.kill()
        self._holder.wait()
        for place in self.made:
            with contextlib.suppress(OSError):
                place.rmdir()
