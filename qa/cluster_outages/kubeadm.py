"""`python -m qa.cluster_outages.kubeadm init|join`: runs kubeadm, with syncpod-kubelet in place of the kubelet.

`init` makes a cluster of one machine, whose etcd, API server, controllers and scheduler are static pods of the node.
Then the worker is killed and started again, which must not restart any of them. `join` has a machine join a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from qa.cluster_outages.kubeadms_machine import API, PATIENCE, KubeadmsMachine
from qa.conformance.control_plane import SERVICES, ControlPlane
from qa.conformance.images import kubeadms_images
from qa.conformance.namespace import ADDRESS, network_namespace
from qa.conformance.nodes import runtime
from qa.conformance.programs import VERSION, program
from syncpod.yaml_text import yaml_text
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import write_archive
from tests.runtimes.require import Missing

_NODE: Final = "n2"
_TOKEN: Final = "abcdef.0123456789abcdef"  # of this run's cluster alone
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_ADMIN: Final = "/etc/kubernetes/admin.conf"


def _documents(machine: KubeadmsMachine, containerd: Containerd) -> list[dict[str, Any]]:
    """Return kubeadm's configuration of a cluster, with the configurations of kubelets and kube-proxies."""
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": containerd.cgroup_parent,
        "podLogsDir": str(machine.directory / "logs"),
        "failSwapOn": False,
    }
    first = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": _TOKEN, "groups": ["system:bootstrappers:kubeadm:default-node-token"]}],
        "localAPIEndpoint": {"advertiseAddress": ADDRESS},
        # A machine of two cores that does other work takes longer than a minute.
        "timeouts": {"kubernetesAPICall": "5m", "controlPlaneComponentHealthCheck": "5m"},
        "nodeRegistration": {
            "name": _NODE,
            "criSocket": containerd.endpoint,
            "ignorePreflightErrors": ["all"],
            "taints": [],
        },
    }
    cluster = {
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": f"v{VERSION}",
        "networking": {"serviceSubnet": SERVICES},
    }
    # kube-proxy may not change these settings of the whole machine.
    conntrack = {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    proxy = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "conntrack": conntrack,
    }
    return [first, cluster, kubelet, proxy]


def _written(machine: KubeadmsMachine, name: str, documents: list[dict[str, Any]]) -> Path:
    path = machine.directory / name
    path.write_text("---\n".join(map(yaml_text, documents)))
    return path


# --- init -------------------------------------------------------------------------------------------------------------


def init(out: Path) -> None:
    """Make a cluster of one machine, run a Deployment, and restart the worker. Raises RuntimeError."""
    machine = KubeadmsMachine(out)
    try:
        with runtime("2.4", within=machine.within) as containerd:
            archive = containerd.directory / "kubeadms.tar"
            write_archive(archive, kubeadms_images())
            containerd.ctr("images", "import", archive)
            archive.unlink()
            config = _written(machine, "init.yaml", _documents(machine, containerd))
            running = machine.kubeadm("init", f"--config={config}")
            machine.until_kubelet_is_wanted(running)
            with machine.kubelet():
                if running.wait(PATIENCE):
                    raise RuntimeError(f"kubeadm init failed: {machine.log()}")
                _deploy(lambda *arguments: _kubectl(machine, *arguments))
                before = _instances(machine)
            _say(f"the worker is killed; the cluster has {len(before)} containers\n")
            with machine.kubelet():
                _until(lambda: "True" in _kubectl(machine, "get", "node", _NODE, "-o", _READY))
                _kubectl(machine, "scale", "deployment/web", "--replicas=2")
                _kubectl(machine, "rollout", "status", "deployment/web", "--timeout=180s")
                after = _instances(machine)
                if changed := sorted(name for name in before if after.get(name) != before[name]):
                    raise RuntimeError(f"restarted with the worker: {', '.join(changed)}")
                _say(_kubectl(machine, "get", "nodes,pods", "-A", "-o", "wide"))
                _say("no container was restarted with the worker\n")
    finally:
        machine.close()


_READY: Final = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'


def _instances(machine: KubeadmsMachine) -> dict[str, str]:
    """Return the id of each container's running instance, by pod and container."""
    listed = json.loads(_kubectl(machine, "get", "pods", "-A", "-o", "json"))
    return {
        f"{pod['metadata']['name']}/{status['name']}": status["containerID"]
        for pod in listed["items"]
        for status in pod["status"].get("containerStatuses", ())
    }


def _kubectl(machine: KubeadmsMachine, *arguments: str) -> str:
    command = [*machine.within, str(program("kubectl")), "--kubeconfig", _ADMIN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        if time.monotonic() > deadline:
            raise RuntimeError("the node did not come back")
        time.sleep(1)


# --- join -------------------------------------------------------------------------------------------------------------


def join(out: Path) -> None:
    """Have a machine join a cluster that was not made by kubeadm, and run a Deployment there. Raises RuntimeError."""
    machine = KubeadmsMachine(out)
    try:
        with ControlPlane(out / "cluster") as cluster, runtime("2.4") as containerd:
            _make_it_kubeadms(machine, cluster, containerd)
            known = yaml.safe_load(cluster.admin.read_text())["clusters"][0]["cluster"]
            found = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": known}]}
            discovery = _written(machine, "discovery.conf", [found])
            registration = {"name": _NODE, "criSocket": containerd.endpoint, "ignorePreflightErrors": ["all"]}
            joining: dict[str, Any] = {"apiVersion": API, "kind": "JoinConfiguration", "nodeRegistration": registration}
            joining["discovery"] = {"file": {"kubeConfigPath": str(discovery)}, "tlsBootstrapToken": _TOKEN}
            running = machine.kubeadm("join", f"--config={_written(machine, 'join.yaml', [joining])}")
            machine.until_kubelet_is_wanted(running)
            with machine.kubelet():
                if running.wait(PATIENCE):
                    raise RuntimeError(f"kubeadm join failed: {machine.log()}")
                _deploy(lambda *arguments: cluster.kubectl(*arguments, timeout=200))
                _say(cluster.kubectl("get", "nodes,pods,csr", "-o", "wide"))
    finally:
        machine.close()


def _make_it_kubeadms(machine: KubeadmsMachine, cluster: ControlPlane, containerd: Containerd) -> None:
    """Add the needs of `kubeadm join` to the cluster: kubeadm's configuration, and the rights of bootstrap tokens."""
    config = _written(machine, "init.yaml", _documents(machine, containerd))
    for phase in (("upload-config", "all"), ("bootstrap-token",)):
        machine.kubeadm("init", "phase", *phase, f"--config={config}", f"--kubeconfig={cluster.admin}").wait(120)


# --- both -------------------------------------------------------------------------------------------------------------


def _deploy(kubectl: Callable[..., str]) -> None:
    kubectl("create", "deployment", "web", f"--image={_IMAGE}")
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=180s")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> int:
    """Run and print the cluster's objects; return 0, 1 on failure, 2 for bad usage or if the machine lacks a part."""
    commands = {"init": init, "join": join}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.stderr.write("usage: python -m qa.cluster_outages.kubeadm init|join\n")
        return 2
    out = Path(tempfile.mkdtemp(prefix="syncpod-kubeadm-"))
    try:
        with network_namespace():
            commands[sys.argv[1]](out)
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"kubeadm: {error}\n")
        return 2
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"kubeadm: {error}; logs in {out}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
