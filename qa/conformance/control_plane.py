"""etcd, API server, controller manager, scheduler and kube-proxy from upstream, in the run's network namespace."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from qa.conformance.identities import Authority
from qa.conformance.namespace import ADDRESS, FIRST, WITHIN, Host
from qa.conformance.programs import program

NODE: Final = FIRST.node
_BETA: Final = "certificates.k8s.io/v1beta1"
SERVICES: Final = "10.96.0.0/16"
CLUSTER_DNS: Final = "10.96.0.10"
DOMAIN: Final = "cluster.local"
_PORT: Final = 6443
_FIRST_SERVICE: Final = "10.96.0.1"
_PATIENCE: Final = 120.0
_PROXY: Final = "front-proxy-client"


class ControlPlane:
    """One control plane without a node. `close` ends its processes; so does `with`."""

    def __init__(self, directory: Path) -> None:
        """Start it, with everything below `directory`. Raises `Missing`, RuntimeError with the end of a log."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._authority = Authority(directory / "identities", f"https://{ADDRESS}:{_PORT}")
        self._proxies = Authority(directory / "proxies", f"https://{ADDRESS}:{_PORT}")
        """The authority of the API server's front-proxy certificate, for its calls to aggregated API servers."""
        self.authority = self._authority.own.certificate
        self.admin = self._authority.kubeconfig("admin", "admin")
        self.node = self._authority.kubeconfig("node", f"system:node:{NODE}", ("system:nodes",))
        try:
            self.start_etcd()
            self.start_api_server()
            self.start_controllers()
            self.start_proxy(FIRST)
        except BaseException:
            self.close()
            raise

    def kubectl(self, *arguments: str, check: bool = True, timeout: float = 60.0) -> str:
        """Run kubectl as an administrator and return its output. Raises CalledProcessError, TimeoutExpired."""
        command = [*WITHIN, str(program("kubectl")), "--kubeconfig", str(self.admin), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout).stdout

    def node_kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of another node, with a certificate of its own."""
        return self._authority.kubeconfig(name, f"system:node:{name}", ("system:nodes",))

    def ready_nodes(self) -> list[str]:
        """The names of the nodes whose condition Ready is True."""
        listed: dict[str, Any] = json.loads(self.kubectl("get", "nodes", "-o", "json"))
        return [each["metadata"]["name"] for each in listed["items"] if _is_ready(each)]

    def wait_for_node(self, name: str = NODE, *, patience: float = _PATIENCE) -> None:
        """Wait until a node is Ready and has no taint that keeps pods away. Raises RuntimeError."""
        deadline = time.monotonic() + patience
        while name not in self.ready_nodes() or "not-ready" in self.kubectl("get", "node", name, "-o", "yaml"):
            if time.monotonic() > deadline:
                described = self.kubectl("describe", "node", name, check=False)
                raise RuntimeError(f"node {name} did not become Ready:\n{described}")
            time.sleep(0.3)

    def stop(self, name: str) -> None:
        """SIGKILL one process, such as `kube-apiserver`."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def revive(self) -> None:
        """Restart the processes that were stopped."""
        if "etcd" not in self._processes:
            self.start_etcd()
        if "kube-apiserver" not in self._processes:
            self.start_api_server()
        if "kube-controller-manager" not in self._processes:
            self.start_controllers()

    def close(self) -> None:
        """End all its processes."""
        for name in reversed(list(self._processes)):
            self.stop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_api_server(self) -> None:
        """Start the API server on the present database, and wait until it is ready."""
        issue, own = self._authority.issue, self._authority.own
        serving = issue(
            "apiserver",
            "kube-apiserver",
            hosts=("localhost", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", ADDRESS, _FIRST_SERVICE),
        )
        client = issue("kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",))
        proxy = self._proxies.issue("proxy", _PROXY)
        options = {
            "etcd-servers": "http://127.0.0.1:2379",
            "secure-port": _PORT,
            "bind-address": "0.0.0.0",
            "advertise-address": ADDRESS,
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "client-ca-file": own.certificate,
            "service-account-key-file": self._authority.service_accounts,
            "service-account-signing-key-file": self._authority.service_accounts,
            "service-account-issuer": "https://kubernetes.default.svc",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "feature-gates": "ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
            "runtime-config": f"{_BETA}/clustertrustbundles=true,{_BETA}/podcertificaterequests=true",
            "enable-bootstrap-token-auth": "true",
            "allow-privileged": "true",
            "service-cluster-ip-range": SERVICES,
            "kubelet-client-certificate": client.certificate,
            "kubelet-client-key": client.key,
            "kubelet-preferred-address-types": "InternalIP",
            "requestheader-client-ca-file": self._proxies.own.certificate,
            "requestheader-allowed-names": _PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": proxy.certificate,
            "proxy-client-key-file": proxy.key,
        }
        self._start("kube-apiserver", options)
        self._wait("kube-apiserver", ("get", "--raw", "/readyz"))

    def start_etcd(self) -> None:
        """Start etcd on the directory `etcd`."""
        options = {
            "data-dir": self.directory / "etcd",
            "unsafe-no-fsync": "true",
            "listen-client-urls": "http://127.0.0.1:2379",
            "advertise-client-urls": "http://127.0.0.1:2379",
            "listen-peer-urls": "http://127.0.0.1:2380",
        }
        self._start("etcd", options)

    def start_controllers(self) -> None:
        """Start controller manager and scheduler, and wait for the default service account, which pods need."""
        own = self._authority.own
        manager = self._authority.kubeconfig("controllers", "system:kube-controller-manager", ())
        scheduler = self._authority.kubeconfig("scheduler", "system:kube-scheduler", ())
        self._start(
            "kube-controller-manager",
            {
                "kubeconfig": manager,
                "authentication-kubeconfig": manager,
                "authorization-kubeconfig": manager,
                "leader-elect": "false",
                "service-account-private-key-file": self._authority.service_accounts,
                "root-ca-file": own.certificate,
                "use-service-account-credentials": "true",
                "cluster-signing-cert-file": own.certificate,
                "cluster-signing-key-file": own.key,
            },
        )
        self._start(
            "kube-scheduler",
            {
                "kubeconfig": scheduler,
                "authentication-kubeconfig": scheduler,
                "authorization-kubeconfig": scheduler,
                "leader-elect": "false",
            },
        )
        self._wait("kube-controller-manager", ("get", "serviceaccount", "default"))

    def start_proxy(self, host: Host) -> None:
        """Start kube-proxy on a machine, for the Services that processes and pods there use."""
        # kube-proxy may not change these settings of the whole machine.
        kept = {
            f"conntrack-{each}": 0 for each in ("max-per-core", "tcp-timeout-established", "tcp-timeout-close-wait")
        }
        options = {"kubeconfig": self.admin, "proxy-mode": "iptables", "hostname-override": host.node, **kept}
        self._start("kube-proxy", options, host)

    def _start(self, name: str, options: dict[str, object], host: Host = FIRST) -> None:
        command: Sequence[str] = [*host.within, str(program(name)), *(f"--{key}={v}" for key, v in options.items())]
        called = name if host == FIRST else f"{name}-{host.node}"
        with self._log(called).open("ab") as log:
            self._processes[called] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ, start_new_session=True
            )

    def _wait(self, name: str, asked: tuple[str, ...]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self.kubectl(*asked, check=False):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                end = "\n".join(self._log(name).read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"{name} did not become ready; the end of {self._log(name)}:\n{end}")
            time.sleep(0.3)

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
