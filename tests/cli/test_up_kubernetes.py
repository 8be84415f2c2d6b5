"""`up --kubeconfig`: a machine joins a Kubernetes cluster as a node, runs its pods, and leaves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.kubernetes.certificate_requests import REQUESTS
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, machine
from tests.kubernetes.api_server import ApiServer, pod, pod_path, served, write_kubeconfig
from tests.kubernetes.certificate_authority import issued
from tests.kubernetes.test_certificates import answer

SLEEPS = {
    "hostNetwork": True,
    "terminationGracePeriodSeconds": 1,
    "containers": [
        {"name": "app", "image": "busybox:1", "command": ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]},
    ],
}


class Cluster:
    """The scripted API server in a thread, since the commands of these tests block."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.server: ApiServer
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self) -> None:
        async with served() as self.server:
            self._ready.set()
            await self._over.wait()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a function in the server's event loop."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def close(self) -> None:
        """End the server."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)

    def until(self, condition: Callable[[dict[str, dict[str, Any]]], Any]) -> None:
        """Wait until the condition is true of the server's objects."""
        deadline = time.monotonic() + 60
        while not condition(dict(self.server.objects)):
            assert time.monotonic() < deadline, self.server.objects
            time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster."""
    made = Cluster()
    yield made
    made.close()


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine with the embedded runtime, whose node is n1."""
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("kubernetes")) as environ:
        yield {**environ, "SYNCPOD_NODE": "n1"}


def test_a_machine_joins_runs_its_pods_and_leaves(cluster: Cluster, environ: dict[str, str], tmp_path: Path) -> None:
    def syncpod(*arguments: str) -> Result:
        return program(*arguments, environ=environ)

    config = write_kubeconfig(tmp_path / "node.conf", cluster.server)
    upped = syncpod("up", "--embedded", "--kubeconfig", str(config))
    assert upped.code == 0, upped.err
    assert f"cluster    {config}\n" in upped.out
    cluster.until(lambda objects: "/api/v1/nodes/n1" in objects)
    for name, kind in (("web", "ReplicaSet"), ("app", "DaemonSet")):
        document = pod(name, spec=SLEEPS)
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "1", "controller": True}
        document["metadata"]["ownerReferences"] = [owner]
        cluster.do(cluster.server.put(pod_path(name), document))
    cluster.until(lambda objects: _phase(objects, "web") == _phase(objects, "app") == "Running")
    statuses = cluster.server.objects[pod_path("web")]["status"]["containerStatuses"]
    assert statuses[0]["state"]["running"]

    kept = syncpod("drain", "n1", "--force", "--ignore-daemonsets")
    assert (kept.code, kept.out) == (1, "node/n1 cordoned\n")
    assert "Note: its Kubernetes cluster still sends pods to node n1: `kubectl cordon n1` ends that\n" in kept.err
    assert "which brings them back (use `kubectl drain n1`): default/web\n" in kept.err, kept.err
    assert syncpod("uncordon", "n1").code == 0
    deleted = syncpod("delete", "pod", "app", "--wait=false")
    assert 'pod "app" comes from its node\'s Kubernetes cluster' in deleted.err
    cluster.do(cluster.server.delete_pod("web", 1))
    cluster.until(lambda objects: pod_path("web") not in objects)
    drained = syncpod("drain", "n1", "--ignore-daemonsets")
    assert (drained.code, drained.out.splitlines()[-1]) == (0, "node/n1 drained"), drained.err
    assert "ignoring DaemonSet-managed Pods: default/app" in drained.err
    assert syncpod("uncordon", "n1").code == 0
    assert json.loads(syncpod("get", "pods", "-o", "json").out)["items"][0]["metadata"]["name"] == "app"

    refused = syncpod("up", "--no-kubeconfig")
    assert refused.code == 1
    assert f"was started with --kubeconfig {config}, not without --kubeconfig" in refused.err
    joined = syncpod("join", str(config))
    assert joined.code == 2
    assert "so it cannot be part of a fleet" in joined.err

    ended = syncpod("down")
    assert ended.code == 0, ended.err
    assert f"The worker followed the Kubernetes cluster of {config}" in ended.err


def test_a_machine_joins_by_a_certificate_that_the_cluster_gives_it(
    cluster: Cluster, environ: dict[str, str], tmp_path: Path
) -> None:
    """Nothing is started before the machine has a certificate; later, none is requested."""
    bootstrap = write_kubeconfig(tmp_path / "bootstrap.conf", cluster.server)
    state = Path(environ["SYNCPOD_STATE_DIR"])
    approving = threading.Thread(target=_approve, args=(cluster,))
    approving.start()
    upped = program("up", "--embedded", "--bootstrap-kubeconfig", str(bootstrap), environ=environ)
    approving.join()
    assert upped.code == 0, upped.err
    assert "waiting for the certificate request to be approved: `kubectl certificate approve node-csr-" in upped.out
    assert f"node/n1 has joined the cluster at {cluster.server.url}" in upped.out
    assert f"cluster    {state}/kubernetes/kubelet.conf\n" in upped.out
    again = program("up", "--embedded", "--bootstrap-kubeconfig", str(bootstrap), environ=environ)
    assert again.code == 0, again.err
    assert "waiting for the certificate" not in again.out
    bootstrap.unlink()  # it has had its use
    again = program("up", "--embedded", "--bootstrap-kubeconfig", str(bootstrap), environ=environ)
    assert again.code == 0, again.err
    assert program("down", environ=environ).code == 0


def _approve(cluster: Cluster) -> None:
    """Approve a node's request, and issue the certificate."""
    cluster.until(lambda objects: any(path.startswith(REQUESTS) for path in objects))
    path = next(path for path in dict(cluster.server.objects) if path.startswith(REQUESTS))
    cluster.do(answer(cluster.server, path, issued(cluster.server.objects[path]["spec"]["request"])))


def test_what_is_no_kubeconfig_is_refused_before_anything_is_started(environ: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "node.conf"
    path.write_text("kind: Config\n")
    refused = program("up", "--embedded", "--kubeconfig", str(path), environ=environ)
    assert (refused.code, refused.out) == (2, "")
    assert f"--kubeconfig: {path}: current-context: required" in refused.err


def _phase(objects: dict[str, dict[str, Any]], name: str) -> str:
    found: str = objects.get(pod_path(name), {}).get("status", {}).get("phase", "")
    return found
