"""Trials without an API server: pods, resizes, deletions, and a reboot of the node."""

from __future__ import annotations

import time
from typing import Final

from qa.cluster_outages.room import RUNS, Room, container, held, noting, pod, restarts

_AWAY_SECONDS: Final = 30
_API: Final = "kube-apiserver"
_LIMITS: Final = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}


def pods_go_on(room: Room) -> str:
    """Crash loops, probes and hooks continue while the API server is away, and are reported when it is back."""
    fails = {"exec": {"command": ["sh", "-c", "test ! -e /notes/sick"]}, "periodSeconds": 1, "failureThreshold": 1}
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo hook >> /notes/starts"]}}}
    well = f"rm -f /notes/sick; {RUNS}"
    room.apply(
        pod(room, "loops", noting("loops", "exit 3")),
        pod(room, "probed", noting("probed", well, livenessProbe=fails, lifecycle=hook)),
    )
    room.running("probed")
    room.until("the second start of the loop", lambda: room.starts("loops") >= 2)
    room.cluster.stop(_API)
    before, begun = room.all_starts(), time.monotonic()
    (room.notes / "sick").touch()
    room.until("the restart of the pod whose probe fails", lambda: room.starts("probed") > before["probed"])
    room.until("its hook", lambda: room.starts("hook") > before["hook"])
    room.until("two more starts of the loop", lambda: room.starts("loops") >= before["loops"] + 2)
    time.sleep(max(0.0, _AWAY_SECONDS - (time.monotonic() - begun)))
    away = time.monotonic() - begun
    room.cluster.start_api_server()
    told = room.until(
        "both counts at the API server",
        lambda: all(restarts(room.pod(name), name) == room.starts(name) - 1 for name in ("loops", "probed")),
    )
    counts = room.all_starts()
    return (
        f"away for {away:.0f} s: {counts['loops'] - before['loops']} more starts of a crash loop, a restart by a probe "
        f"with its hook; the cluster had all counts {told:.1f} s after it was back"
    )


def a_resize_goes_on(room: Room) -> str:
    """A resize that was requested just before the API server went away is done, and reported when it is back."""
    room.apply(pod(room, "grows", noting("grows", resources=_LIMITS)))
    room.running("grows")
    uid = container(room.pod("grows"), "grows")["containerID"]
    new = {"limits": {"cpu": "400m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
    patch = '{"spec":{"containers":[{"name":"grows","resources":{"limits":{"cpu":"400m"}}}]}}'
    room.cluster.kubectl("patch", "pod", "grows", "--subresource=resize", "-p", patch)
    time.sleep(0.05)
    room.cluster.stop(_API)
    done = room.until("the resize on the node", lambda: container(room.own("grows"), "grows").get("resources") == new)
    room.cluster.start_api_server()
    told = room.until(
        "the resize at the API server", lambda: container(room.pod("grows"), "grows").get("resources") == new
    )
    held(container(room.pod("grows"), "grows")["containerID"] == uid, "the container was started anew")
    return f"done on the node {done:.1f} s after the server went, told {told:.1f} s after it was back"


def a_reboot_without_it(room: Room) -> str:
    """The machine reboots while the API server is away: the pods of the last list run again and keep their counts."""
    room.cluster.kubectl("create", "secret", "generic", "word", "--from-literal=word=open")
    word = {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "word", "key": "word"}}}
    room.apply(
        pod(room, "serves", noting("serves")),
        pod(room, "loops", noting("loops", "exit 3")),
        pod(room, "job", noting("job", "exit 0"), restartPolicy="Never"),
        pod(room, "knows", noting("knows", f'[ "$WORD" = open ] && {RUNS}', env=[word]), has_token=True),
    )
    room.running("serves", "knows")
    room.until("the third start of the loop", lambda: room.starts("loops") >= 3)
    room.until("the end of the job", lambda: room.pod("job").get("status", {}).get("phase") == "Succeeded")
    room.node.kill_worker()
    room.node.start_worker("--keep-secrets")
    time.sleep(5)
    room.cluster.stop(_API)
    room.node.kill_all()
    before = room.all_starts()
    begun = time.monotonic()
    room.node.boot("--keep-secrets")
    booted = time.monotonic() - begun
    serves = room.until("the pod that serves", lambda: room.starts("serves") == before["serves"] + 1)
    room.until("the pod with a Secret and a token", lambda: room.starts("knows") == before["knows"] + 1)
    room.until("the next start of the loop", lambda: room.starts("loops") == before["loops"] + 1)
    count = restarts(room.own("loops"), "loops")
    held(count >= before["loops"] - 1, f"the loop's count was {before['loops'] - 1}, and is {count}")
    held(room.starts("job") == 1, "a finished pod ran again")
    room.cluster.start_api_server()
    told = room.until(
        "the counts at the API server",
        lambda: all(restarts(room.pod(name), name) == 1 for name in ("serves", "knows")),
    )
    room.until(
        "the loop's count there", lambda: restarts(room.pod("loops"), "loops") == room.starts("loops") - 1, patience=180
    )
    return (
        f"booted in {booted:.1f} s, the first pod ran {serves:.1f} s later, one with a Secret and a token too; a crash "
        f"loop went on from count {before['loops'] - 1}; a finished pod stayed so; told {told:.1f} s after the server "
        "was back"
    )


def a_missed_deletion(room: Room) -> str:
    """Pods that are deleted while the node is down end before anything new starts there."""
    slow = "trap 'echo ended >> /notes/starts; exit 0' TERM; while :; do sleep 0.1; done"
    room.apply(*(pod(room, f"old-{each}", noting(f"old-{each}", slow)) for each in range(5)))
    room.running(*(f"old-{each}" for each in range(5)))
    room.node.kill_worker()
    room.cluster.kubectl("delete", "pod", *(f"old-{each}" for each in range(5)), "--wait=false")
    room.apply(*(pod(room, f"new-{each}", noting(f"new-{each}")) for each in range(5)))
    room.cluster.stop(_API)
    room.node.start_worker()
    time.sleep(5)
    held(room.starts("new-0") == 0, "a pod started that the node has not been told of")
    room.cluster.start_api_server()
    begun = time.monotonic()
    room.running(*(f"new-{each}" for each in range(5)))
    room.until("the end of the deleted pods", lambda: not any(room.pod(f"old-{each}") for each in range(5)))
    lines = (room.notes / "starts").read_text().split()
    first_new = next(at for at, line in enumerate(lines) if line.startswith("new-"))
    late = lines[first_new:].count("ended")
    held(late == 0, f"{late} of 5 deleted pods were told to end only after a new one had started")
    return f"5 pods ended, and then 5 new ones started, all within {time.monotonic() - begun:.1f} s"
