"""The fixture of a trial: a cluster, a node, kubectl, and the notes that containers write about their starts."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from qa.cluster_outages.node import Node
from qa.conformance.control_plane import NODE, ControlPlane
from qa.conformance.namespace import WITHIN
from qa.conformance.programs import program

IMAGE: Final = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
RUNS: Final = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
NOTES: Final = "/notes"
_LOOK_SECONDS: Final = 0.2

Document = dict[str, Any]
Ask = Callable[[str, str, Any], tuple[int, Any]]
"""Sends a request, given method, path and body; returns the HTTP status and the parsed answer."""


class Fell(Exception):
    """A trial did not hold. The text is a clause with the reason."""


@dataclass
class Room:
    """A cluster with one node of ours."""

    cluster: ControlPlane
    node: Node
    notes: Path
    """The directory in which each container notes its starts, one line each."""
    _objects: list[str] = field(default_factory=list)

    # --- actions of a trial -------------------------------------------------------------------------------------------

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Create objects. Raises CalledProcessError."""
        text = "\n---\n".join(json.dumps(each) for each in documents)
        command = [*WITHIN, str(program("kubectl")), "--kubeconfig", str(self.cluster.admin), "apply", "-f", "-"]
        subprocess.run(command, input=text, text=True, capture_output=True, check=True, timeout=60)

    def pod(self, name: str) -> Document:
        """Return a pod from the API server; {} if there is none."""
        text = self.cluster.kubectl("get", "pod", name, "-o", "json", check=False)
        found: Document = json.loads(text) if text else {}
        return found

    def own(self, name: str) -> Document:
        """Return a pod from the node's own `syncpod get`; {} if there is none."""
        try:
            found: Document = json.loads(self.node.syncpod("get", "pod", name, "-o", "json"))
        except subprocess.CalledProcessError:
            return {}
        return found

    def starts(self, name: str) -> int:
        """Return how often the container that notes this name has started."""
        return self.all_starts()[name]

    def all_starts(self) -> Counter[str]:
        """Return how often each container has started."""
        file = self.notes / "starts"
        return Counter(file.read_text().split() if file.exists() else ())

    def clear(self) -> None:
        """Delete all objects that trials have made, wait until they are gone, and remove the notes."""
        kinds = "deployments,replicasets,pods,secrets,configmaps"
        self.cluster.kubectl("delete", kinds, "--all", "--ignore-not-found", "--grace-period=1", timeout=240)
        for each in self.notes.iterdir():
            each.unlink()

    def restore(self) -> None:
        """Restart everything that a trial may have stopped, and remove everything that it has made."""
        self.cluster.revive()
        if not self.node.is_up:
            self.node.start_worker()
        self.clear()

    @contextlib.contextmanager
    def patching(self) -> Iterator[Callable[[str, Document], bool]]:
        """Yield a function that merges a patch into the object at a path, and returns whether the server accepted."""
        with proxied(self.cluster) as ask:
            yield lambda path, patch: ask("PATCH", path, patch)[0] == 200

    # --- waits --------------------------------------------------------------------------------------------------------

    def until(self, what: str, condition: Callable[[], Any], patience: float = 90.0) -> float:
        """Wait until a condition is true; return the seconds. Raises Fell."""
        begun = time.monotonic()
        while not condition():
            if time.monotonic() - begun > patience:
                raise Fell(f"not in {patience:.0f} s: {what}")
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - begun

    def running(self, *names: str, patience: float = 90.0) -> float:
        """Wait until these pods are Ready at the API server; return the seconds. Raises Fell."""
        return self.until(
            f"{', '.join(names)} Ready", lambda: all(is_ready(self.pod(each)) for each in names), patience
        )


class _Unix(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@contextlib.contextmanager
def proxied(cluster: ControlPlane, identity: Path | None = None) -> Iterator[Ask]:
    """Yield a function that sends a request to the API server, with the kubeconfig `identity` or as administrator.

    It returns status and answer; the status is 0 if there was no answer.
    """
    socket_path = cluster.directory / "proxy.sock"
    command = [*WITHIN, str(program("kubectl")), "--kubeconfig", str(identity or cluster.admin), "proxy"]
    proxy = subprocess.Popen(
        [*command, f"--unix-socket={socket_path}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        while not socket_path.exists():
            if proxy.poll() is not None:
                raise RuntimeError("kubectl proxy did not start")
            time.sleep(0.05)
        yield lambda method, path, body: _asked(socket_path, method, path, body)
    finally:
        proxy.kill()
        proxy.wait()
        socket_path.unlink(missing_ok=True)


def _asked(socket_path: Path, method: str, path: str, body: Any) -> tuple[int, Any]:
    connection = _Unix(socket_path)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


def held(is_so: object, otherwise: str) -> None:
    """Raise Fell with the text `otherwise` if `is_so` is false."""
    if not is_so:
        raise Fell(otherwise)


def noting(name: str, script: str = RUNS, **more: Any) -> Document:
    """Return a container that notes its start, and then runs the script."""
    return {
        "name": name,
        "image": IMAGE,
        "command": ["sh", "-c", f"echo {name} >> {NOTES}/starts; {script}"],
        "volumeMounts": [{"name": "notes", "mountPath": NOTES}],
        **more,
    }


def pod(room: Room, name: str, *containers: Mapping[str, Any], has_token: bool = False, **spec: Any) -> Document:
    """Return a pod that is bound to the node and mounts the directory for notes. With `has_token`, it has a token."""
    volumes: Sequence[Any] = spec.pop("volumes", ())
    notes = {"name": "notes", "hostPath": {"path": str(room.notes), "type": "Directory"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": has_token,
            "terminationGracePeriodSeconds": 2,
            "containers": [dict(each) for each in containers],
            "volumes": [notes, *volumes],
            **spec,
        },
    }


def is_ready(document: Mapping[str, Any]) -> bool:
    """Say whether a pod is Ready."""
    conditions = document.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def container(document: Mapping[str, Any], name: str) -> Document:
    """Return a container's status; {} if there is none yet."""
    found = document.get("status", {}).get("containerStatuses", ())
    return next((dict(each) for each in found if each["name"] == name), {})


def restarts(document: Mapping[str, Any], name: str) -> int:
    """Return a container's restart count."""
    return int(container(document, name).get("restartCount", 0))
