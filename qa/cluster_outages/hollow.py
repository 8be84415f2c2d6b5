"""The trial of a hollow node: a node of ours with a simulated runtime, which can have a thousand pods."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Final

from qa.cluster_outages.room import IMAGE, Fell, Room
from qa.conformance.namespace import WITHIN
from qa.conformance.nodes import SYNCPOD, own_environment

PODS: Final = int(os.environ.get("SYNCPOD_HOLLOW_PODS") or 1000)
NODE: Final = "hollow"
_PATIENCE: Final = 5400.0


def a_thousand_pods(room: Room) -> str:
    """A hollow node (`syncpod up --simulate --kubeconfig`) has a thousand pods of a Deployment Ready, and ends them."""
    directory = room.notes.parent / NODE
    directory.mkdir(exist_ok=True)
    state, config = directory / "state", room.cluster.node_kubeconfig(NODE)
    start = ["up", "--simulate", "--state-dir", str(state), "--node", NODE, "--kubeconfig", str(config)]
    start += ["--port", "17333", "--ui-port", "18333"]
    try:
        _syncpod(directory, *start)
        room.until("the hollow node Ready", lambda: NODE in room.cluster.ready_nodes())
        room.apply(_deployment())
        begun = time.monotonic()
        while (ready := _ready(room)) < PODS:
            if time.monotonic() - begun > _PATIENCE:
                raise Fell(f"{ready} of {PODS} pods Ready after {_PATIENCE:.0f} s")
            time.sleep(1)
        began = time.monotonic() - begun
        memory = _memory(state)
        room.cluster.kubectl("delete", "deployment", "crowd", "--wait=false")
        begun = time.monotonic()
        room.until("the end of all pods", lambda: not _pods(room), patience=_PATIENCE)
        ended, load = time.monotonic() - begun, os.getloadavg()[0]
        return f"{PODS} pods Ready in {began:.0f} s and gone in {ended:.0f} s; worker {memory} MiB, load {load:.0f}"
    finally:
        _syncpod(directory, "down", "--state-dir", str(state), "--purge")
        room.cluster.kubectl("delete", "node", NODE, "--ignore-not-found")


def _deployment() -> dict[str, object]:
    labels = {"app": "crowd"}
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "crowd", "namespace": "default"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _ready(room: Room) -> int:
    text = room.cluster.kubectl("get", "deployment", "crowd", "-o", "jsonpath={.status.readyReplicas}", check=False)
    return int(text or 0)


def _pods(room: Room) -> str:
    return room.cluster.kubectl("get", "pods", "-l", "app=crowd", "-o", "name", check=False)


def _memory(state: Path) -> int:
    """Return the worker's resident memory in MiB."""
    pid = json.loads((state / "worker.json").read_text())["pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") >> 20


def _syncpod(directory: Path, *arguments: str) -> None:
    environment = own_environment(directory) | {
        "SYNCPOD_KUBELET_PORT": "0",
        "SYNCPOD_CAPACITY": f"cpu=1000,memory=1000Gi,pods={PODS + 10}",
    }
    with (directory / "commands.log").open("ab") as log:
        done = subprocess.run(
            [*WITHIN, str(SYNCPOD), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            timeout=600,
            check=False,
        )
    if done.returncode:
        raise Fell(f"`syncpod {arguments[0]}` failed: {(directory / 'commands.log').read_text()[-300:]}")
