"""Trials of an API server that restarts, is restored from a backup, has dead connections, or has another clock."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Final

from qa.cluster_outages.room import Room, container, held, noting, pod
from qa.conformance.namespace import ADDRESS, WITHIN
from tests.runtimes.require import Missing

_UPDATES: Final = 500
_API: Final = "kube-apiserver"
_PORT: Final = "6443"
_FAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def restarts_during_updates(room: Room) -> str:
    """The API server is killed and started again twice while a pod is changed 500 times."""
    shown = {"path": "turn", "fieldRef": {"fieldPath": "metadata.annotations['turn']"}}
    volume = {"name": "shown", "downwardAPI": {"items": [shown]}}
    changed = noting("changed")
    changed["volumeMounts"].append({"name": "shown", "mountPath": "/shown"})
    room.apply(pod(room, "changed", changed, volumes=[volume]))
    room.running("changed")
    before = container(room.pod("changed"), "changed")["containerID"]
    orders = _orders(room)
    done, restarting = 0, [150, 350]
    begun = time.monotonic()
    with room.patching() as patch:
        while done < _UPDATES:
            if patch("/api/v1/namespaces/default/pods/changed", {"metadata": {"annotations": {"turn": str(done + 1)}}}):
                done += 1
            else:
                time.sleep(0.1)
            if restarting and done >= restarting[0]:
                restarting.pop(0)
                room.cluster.stop(_API)
                room.cluster.start_api_server()
    seconds = time.monotonic() - begun

    def shows() -> bool:
        return room.cluster.kubectl("exec", "changed", "--", "cat", "/shown/turn", check=False) == str(_UPDATES)

    late = room.until("the last change in the pod's volume", shows)
    held(room.starts("changed") == 1, "the container was started again")
    held(container(room.pod("changed"), "changed")["containerID"] == before, "the container is another one")
    given = _orders(room) - orders
    held(given < _UPDATES / 2, f"{given} orders for {_UPDATES} changes")
    return (
        f"{_UPDATES} changes in {seconds:.0f} s with two restarts: {given} orders to the pod's workflow; its volume "
        f"had the last one {late:.1f} s later; no container started again"
    )


def an_older_backup(room: Room) -> str:
    """The cluster's database is restored from an older backup: pods vanish, others return."""
    room.apply(*(pod(room, name, noting(name)) for name in ("stays", "returns")))
    room.running("stays", "returns")
    kept = room.cluster.directory / "backup"
    shutil.rmtree(kept, ignore_errors=True)
    _stopped(room)
    shutil.copytree(room.cluster.directory / "etcd", kept)
    room.cluster.revive()
    room.cluster.kubectl("delete", "pod", "returns")
    room.until("the end of the pod that will return", lambda: not room.own("returns"))
    room.apply(*(pod(room, f"vanishes-{each}", noting(f"vanishes-{each}")) for each in range(3)))
    room.running(*(f"vanishes-{each}" for each in range(3)))
    for each in range(60):  # versions that the backup does not have
        room.cluster.kubectl("annotate", "pod", "stays", f"turn={each}", "--overwrite")
    _stopped(room)
    shutil.rmtree(room.cluster.directory / "etcd")
    shutil.move(kept, room.cluster.directory / "etcd")
    room.cluster.revive()
    begun = time.monotonic()
    room.until("the end of the pods that have vanished", lambda: not any(room.own(f"vanishes-{n}") for n in range(3)))
    gone = time.monotonic() - begun
    room.until("the pod that has returned", lambda: room.starts("returns") == 2)
    back = time.monotonic() - begun
    held(room.starts("stays") == 1, "the pod that stays was started again")
    room.apply(pod(room, "later", noting("later")))
    later = room.running("later")
    room.cluster.kubectl("delete", "pod", "stays", "--wait=false")
    room.until("a deletion after the restore", lambda: not room.pod("stays"))
    room.running("returns")
    return (
        f"pods that have vanished ended {gone:.1f} s after the restore, one that returned ran again after {back:.1f} "
        f"s, one that stayed ran on; a new pod was Ready in {later:.1f} s, and a deletion was obeyed"
    )


def a_half_open_connection(room: Room) -> str:
    """All connections of the worker to the API server are silently dropped, while new ones can be made."""
    room.apply(pod(room, "first", noting("first")))
    room.running("first")
    ports = _client_ports(room)
    held(ports, "the worker has no connection to the API server")
    rules = [
        ("INPUT", "-p", "tcp", *way, port, "-j", "DROP")
        for port in ports
        for way in (("--dport", _PORT, "--sport"), ("--sport", _PORT, "--dport"))
    ]
    for rule in rules:
        subprocess.run([*WITHIN, "iptables", "-I", *rule], check=True)
    begun = time.monotonic()
    try:
        room.apply(pod(room, "second", noting("second")))
        room.until("a pod that is bound meanwhile", lambda: room.starts("second") == 1, patience=120)
        started = time.monotonic() - begun
        room.running("second")
        told = time.monotonic() - begun
    finally:
        for rule in rules:
            subprocess.run([*WITHIN, "iptables", "-D", *rule], check=True)
    held(room.starts("first") == 1, "a pod was started again")
    return (
        f"{len(ports)} connections dropped: a pod that was bound then started after {started:.0f} s, and was Ready at "
        f"the API server after {told:.0f} s"
    )


def clocks_apart(room: Room) -> str:
    """The node's clock is a minute behind the API server's, and then a minute ahead of it."""
    if not _FAKETIME.exists():
        raise Missing("a clock that differs needs libfaketime (Debian: libfaketime)")
    found = []
    for name, shift in (("behind", "-60s"), ("ahead", "+60s")):
        room.node.kill_worker()
        room.node.start_worker(environment={"LD_PRELOAD": str(_FAKETIME), "FAKETIME": shift})
        room.cluster.wait_for_node()
        room.apply(pod(room, name, noting(name), has_token=True))
        ready = room.running(name)
        room.cluster.kubectl("delete", "pod", name, "--wait=false")
        ended = room.until(f"the end of the pod {name}", partial(_is_gone, room, name))
        found.append(f"{name}: Ready in {ready:.1f} s, deleted in {ended:.1f} s")
    room.node.kill_worker()
    room.node.start_worker()
    return f"pods with tokens, the node a minute {'; '.join(found)}"


def _is_gone(room: Room, name: str) -> bool:
    return not room.pod(name)


def _orders(room: Room) -> int:
    """Return how many signals and updates the workflow of the pod `changed` has received, by its history."""
    history = json.loads(room.node.syncpod("history", "changed", "-o", "json"))
    return sum(each["kind"] in ("signal", "update") for each in history)


def _stopped(room: Room) -> None:
    for name in ("kube-scheduler", "kube-controller-manager", _API, "etcd"):
        room.cluster.stop(name)


def _client_ports(room: Room) -> list[str]:
    """Return the local ports of the worker's connections to the API server."""
    command = [*WITHIN, "ss", "-Htnp", "state", "established", "dst", f"{ADDRESS}:{_PORT}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    mine = [line.split() for line in text.splitlines() if f"pid={room.node.pid}," in line]
    return [words[2].rpartition(":")[2] for words in mine]
