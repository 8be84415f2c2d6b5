"""`python -m qa.cluster_outages.kubeadm`: kubeadm's own `join` with syncpod-kubelet in the kubelet's place.

kubeadm writes to /etc/kubernetes and /var/lib/kubelet: it has a mount namespace in which these are directories of the
run, so that nothing of the machine's is touched. `syncpod-kubelet` gets what kubeadm has written, as its unit would.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import ADDRESS, WITHIN, network_namespace
from qa.conformance.nodes import own_environment, runtime
from qa.conformance.programs import VERSION, program
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import unmount_below
from tests.runtimes.require import Missing

_NODE: Final = "n2"
_TOKEN: Final = "abcdef.0123456789abcdef"  # of this run's cluster alone
_API: Final = "kubeadm.k8s.io/v1beta4"
_PATIENCE: Final = 300.0
_IMAGE: Final = "registry.k8s.io/pause:3.10"


class Joining:
    """One machine that kubeadm has join a cluster."""

    def __init__(self, cluster: ControlPlane, containerd: Containerd, directory: Path) -> None:
        """Have kubeadm's files below `directory`."""
        self._cluster, self._containerd, self._directory = cluster, containerd, directory
        self.etc, self.var = directory / "etc", directory / "var"
        for each in (self.etc, self.var):
            each.mkdir(parents=True)

    def prepare(self) -> None:
        """Have the cluster be one of kubeadm's: its configuration, and the rights of its bootstrap tokens."""
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._containerd.cgroup_parent,
            "failSwapOn": False,
        }
        runtime_socket = {"criSocket": self._containerd.endpoint}
        documents = (
            {
                "apiVersion": _API,
                "kind": "InitConfiguration",
                "bootstrapTokens": [{"token": _TOKEN, "groups": ["system:bootstrappers:kubeadm:default-node-token"]}],
                "localAPIEndpoint": {"advertiseAddress": ADDRESS},
                "nodeRegistration": runtime_socket,
            },
            {"apiVersion": _API, "kind": "ClusterConfiguration", "kubernetesVersion": f"v{VERSION}"},
            kubelet,
        )
        config = self._directory / "init.yaml"
        config.write_text(yaml.safe_dump_all(documents))
        for phase in (("upload-config", "all"), ("bootstrap-token",)):
            self._kubeadm("init", "phase", *phase, f"--config={config}", f"--kubeconfig={self._cluster.admin}").wait(
                120
            )

    def join(self) -> subprocess.Popen[bytes]:
        """Begin `kubeadm join`, and return once it has written the kubelet's files. Raises RuntimeError."""
        discovery = self._directory / "discovery.conf"
        cluster = yaml.safe_load(self._cluster.admin.read_text())["clusters"][0]["cluster"]
        known = [{"name": "", "cluster": cluster}]
        discovery.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": known}))
        registration = {"name": _NODE, "criSocket": self._containerd.endpoint, "ignorePreflightErrors": ["all"]}
        found = {"file": {"kubeConfigPath": str(discovery)}, "tlsBootstrapToken": _TOKEN}
        config = self._directory / "join.yaml"
        config.write_text(
            yaml.safe_dump(
                {"apiVersion": _API, "kind": "JoinConfiguration", "nodeRegistration": registration, "discovery": found}
            )
        )
        joining = self._kubeadm("join", f"--config={config}")
        deadline = time.monotonic() + _PATIENCE
        while not (self.var / "kubeadm-flags.env").exists():
            if joining.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"kubeadm join wrote no configuration: {self.log()}")
            time.sleep(0.2)
        return joining

    @contextlib.contextmanager
    def kubelet(self) -> Iterator[None]:
        """Run `syncpod-kubelet` as kubeadm's unit would; its paths are the run's."""
        written = (self.var / "config.yaml").read_text()
        config = self._directory / "config.yaml"
        config.write_text(written.replace("/etc/kubernetes", str(self.etc)).replace("/var/lib/kubelet", str(self.var)))
        flags = re.search(r'"(.*)"', (self.var / "kubeadm-flags.env").read_text())
        command = [*WITHIN, sys.executable, "-m", "syncpod.cli.kubelet.program", f"--config={config}"]
        command += [
            f"--bootstrap-kubeconfig={self.etc}/bootstrap-kubelet.conf",
            f"--kubeconfig={self.etc}/kubelet.conf",
        ]
        command += [f"--root-dir={self._directory / 'root'}", *(flags[1].split() if flags else ())]
        with (self._directory / "kubelet.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=own_environment(self._directory),
                start_new_session=True,
            )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            unmount_below(self._directory)

    def log(self) -> str:
        """The end of what kubeadm has said."""
        return "\n".join((self._directory / "kubeadm.log").read_text(errors="replace").splitlines()[-10:])

    def _kubeadm(self, *arguments: str) -> subprocess.Popen[bytes]:
        script = (
            "mkdir -p /etc/kubernetes /var/lib/kubelet; "
            f'mount --bind {self.etc} /etc/kubernetes; mount --bind {self.var} /var/lib/kubelet; exec "$@"'
        )
        command = [*WITHIN, "unshare", "-m", "sh", "-ec", script, "sh", str(program("kubeadm")), *arguments]
        environment = os.environ | {"PATH": f"{program('kubectl').parent}:{os.environ['PATH']}"}
        with (self._directory / "kubeadm.log").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)


def main() -> int:
    """Print whether the node has joined and runs a pod; return 0 if so, 1 if not, 2 if the machine lacks a part."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = Path(tempfile.mkdtemp(prefix="syncpod-kubeadm-"))
    try:
        with network_namespace(), ControlPlane(out / "cluster") as cluster, runtime("2.4") as containerd:
            machine = Joining(cluster, containerd, out)
            machine.prepare()
            joining = machine.join()
            with machine.kubelet():
                if joining.wait(_PATIENCE):
                    raise RuntimeError(f"kubeadm join failed: {machine.log()}")
                cluster.kubectl("create", "deployment", "web", f"--image={_IMAGE}")
                cluster.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=180s", timeout=200)
                sys.stdout.write(cluster.kubectl("get", "nodes,pods,csr", "-o", "wide"))
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"kubeadm: {error}\n")
        return 2
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"kubeadm: {error}; logs in {out}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
