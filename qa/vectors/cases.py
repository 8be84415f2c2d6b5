"""Draws cases for the recorder; the same seed gives the same cases.

Situations on which decisions depend are made far more frequent than they would be by chance: several instances of a
container, instances of an earlier sandbox, failed probes, resources that differ from those last applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random  # noqa: TID251  # seeded, and shared with nobody
from typing import Any, Final

from qa.vectors.recorder import Kind

Case = dict[str, Any]

_POLICIES: Final = ("Always", "OnFailure", "Never")
_FRACTION: Final = "0.5Gi"
"""A quantity that Go stores behind a pointer."""
_OTHER_UNIT: Final = "65536Ki"
"""The same amount as `64Mi`."""
_QUANTITIES: Final = {
    "cpu": ("0", "1m", "100m", "0.1", "250m", "0.5", "1", "1500m", "2"),
    "memory": ("0", "1", "64Mi", _OTHER_UNIT, "128Mi", "129M", "129e6", "1Gi", _FRACTION),
}
_EXITS: Final = (0, 0, 0, 1, 2, 42, 137, 143, 255)
_MILLISECOND: Final = 1_000_000
_BEGINNING: Final = 1_790_000_000_000
"""A time in 2026, in milliseconds since 1970."""
_FURTHEST_BACK_OFF: Final = 1_300_000


def cases(kind: Kind, count: int, version: str, *, seed: int) -> str:
    """Return `count` cases of a kind, a line of JSON each. The kubelet's version only sets a field."""
    draw, random = _KINDS[kind], Random(f"{kind} {seed}")
    followed = version.rpartition(".")[0]
    made = ({"name": f"{seed}/{number}", "kubelet": followed, **draw(random)} for number in range(count))
    return "".join(json.dumps(case) + "\n" for case in made)


# --- pods -------------------------------------------------------------------------------------------------------------


def _resources(random: Random) -> Case:
    made: Case = {}
    for part in ("requests", "limits"):
        amounts = {name: random.choice(listed) for name, listed in _QUANTITIES.items() if random.random() < 0.5}
        if amounts:
            made[part] = amounts
    return made


def _rules(random: Random) -> list[Case]:
    return [
        {
            "action": random.choice(("Restart", "Restart", "RestartAllContainers")),
            "exitCodes": {
                "operator": random.choice(("In", "NotIn")),
                "values": random.sample(range(5), random.randrange(4))
                + random.sample((42, 137, 255), random.randrange(2)),
            },
        }
        for _ in range(random.randrange(1, 3))
    ]


def _container(random: Random, name: str) -> Case:
    made: Case = {"name": name, "image": random.choice(("web", "db:2", "busybox"))}
    if random.random() < 0.3:
        made["restartPolicy"] = random.choice(_POLICIES)
        if random.random() < 0.7:
            made["restartPolicyRules"] = _rules(random)
    if random.random() < 0.5:
        made["resources"] = _resources(random)
    if random.random() < 0.3:
        made["resizePolicy"] = [
            {"resourceName": name, "restartPolicy": random.choice(("NotRequired", "RestartContainer"))}
            for name in random.sample(("cpu", "memory"), random.randrange(1, 3))
        ]
    for probe in ("livenessProbe", "startupProbe"):
        if random.random() < 0.3:
            made[probe] = {}
    return made


def _init_container(random: Random, name: str) -> Case:
    made = _container(random, name)
    if random.random() < 0.5:
        made.pop("restartPolicyRules", None)
        return made | {"restartPolicy": "Always"}
    if made.get("restartPolicy") == "Always":
        made["restartPolicy"] = "OnFailure"
    return {key: value for key, value in made.items() if not key.endswith("Probe")}


def _pod(random: Random) -> Case:
    spec: Case = {"restartPolicy": random.choice(_POLICIES)}
    init, main, ephemeral = random.choice((0, 0, 1, 2, 3)), random.randrange(1, 4), random.choice((0, 0, 0, 1, 2))
    if init:
        spec["initContainers"] = [_init_container(random, f"init{number}") for number in range(init)]
    spec["containers"] = [_container(random, f"main{number}") for number in range(main)]
    if ephemeral:
        spec["ephemeralContainers"] = [{"name": f"debug{number}", "image": "tools"} for number in range(ephemeral)]
    if random.random() < 0.15:
        spec["hostNetwork"] = True
    if random.random() < 0.3:
        spec["resources"] = _resources(random)
    metadata: Case = {"name": "web", "namespace": "default", "uid": f"uid-{random.randrange(1000)}"}
    if random.random() < 0.1:
        metadata["deletionTimestamp"] = "2026-11-29T12:00:00Z"
    return {"metadata": metadata, "spec": spec}


def _all_containers(pod: Case) -> Iterator[Case]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(kind, ())


# --- computePodActions ------------------------------------------------------------------------------------------------


def _sandboxes(random: Random, pod: Case) -> list[Case]:
    """Mostly one good sandbox and a few earlier ones; sometimes one of the reasons to make a new sandbox."""
    newest = random.choice((0, 0, 1, 2, 7))
    host = "NODE" if pod["spec"].get("hostNetwork") else "POD"
    good: Case = {
        "id": f"s{newest}",
        "attempt": newest,
        "state": "SANDBOX_READY",
        "network_mode": host,
        "ip": "10.0.0.9",
    }
    match random.choices(("good", "none", "not ready", "other network", "no address", "unread"), (70, 5, 10, 5, 5, 5))[
        0
    ]:
        case "none":
            return []
        case "not ready":
            good["state"] = "SANDBOX_NOTREADY"
        case "other network":
            good["network_mode"] = "POD" if host == "NODE" else "NODE"
        case "no address":
            good["ip"] = ""
        case "unread":
            good["ip"] = None
    listed = [good]
    for attempt in range(newest - 1, max(-1, newest - 3), -1):
        state = "SANDBOX_READY" if random.random() < 0.08 else "SANDBOX_NOTREADY"
        listed.append({**good, "id": f"s{attempt}", "attempt": attempt, "state": state, "ip": ""})
    for age, sandbox in enumerate(listed):
        sandbox["created_at"] = (_BEGINNING - age * 60_000) * _MILLISECOND
    return listed


def _instances(random: Random, name: str, sandboxes: Sequence[Case]) -> list[Case]:
    """The instances of one container, newest first; most of the older ones have exited."""
    made: list[Case] = []
    for age in range(random.choices((0, 1, 2, 3), (25, 50, 15, 10))[0]):
        weights = (6, 48, 40, 6) if age == 0 else (1, 1, 96, 2)
        state = random.choices(("created", "running", "exited", "unknown"), weights)[0]
        code = random.choice(_EXITS) if state == "exited" else 0
        reason = "Completed" if state == "exited" and code == 0 else "Error" if state == "exited" else ""
        if random.random() < 0.08:
            reason = "OOMKilled"
        begun = (_BEGINNING - age * 30_000 - random.randrange(20_000)) * _MILLISECOND
        made.append(
            {
                "id": f"{name}-{age}",
                "name": name,
                "state": state,
                "exit_code": code,
                "reason": reason,
                "hash_matches": random.random() < 0.9,
                "created_at": begun,
                "started_at": 0 if state == "created" else begun,
                "finished_at": begun + 5_000 * _MILLISECOND if state == "exited" else 0,
                "restart_count": 3 - age,
                "sandbox": _sandbox_of(random, sandboxes),
            }
        )
    return made


def _sandbox_of(random: Random, sandboxes: Sequence[Case]) -> str:
    """The id of an instance's sandbox: mostly the newest one; else a random one, or one that is gone."""
    if sandboxes and random.random() < 0.75:
        return str(sandboxes[0]["id"])
    return str(random.choice(sandboxes)["id"]) if sandboxes and random.random() < 0.7 else "gone"


def _probe_results(random: Random, pod: Case) -> Case:
    return {
        each["name"]: random.choice(("success", "success", "failure", "unknown"))
        for each in _all_containers(pod)
        if random.random() < 0.35
    }


def _actuated(random: Random, pod: Case) -> Case:
    """The resources last applied: mostly those of the spec, as without a resize."""

    def record(own: Case | None) -> Case:
        return dict(own or {}) if random.random() < 0.75 else _resources(random)

    containers = {each["name"]: record(each.get("resources")) for each in _all_containers(pod) if random.random() < 0.9}
    level = pod["spec"].get("resources")
    return {"containers": containers, "pod": record(level) if level is not None or random.random() < 0.1 else None}


def _actions_case(random: Random) -> Case:
    pod = _pod(random)
    sandboxes = _sandboxes(random, pod)
    containers = [one for each in _all_containers(pod) for one in _instances(random, each["name"], sandboxes)]
    if random.random() < 0.05:
        containers += _instances(random, "stranger", sandboxes)
    random.shuffle(containers)
    containers.sort(key=lambda each: int(each["id"].rpartition("-")[2]))
    return {
        "pod": pod,
        "status": {"sandboxes": sandboxes, "containers": containers},
        "liveness": _probe_results(random, pod),
        "startup": _probe_results(random, pod),
        "actuated": _actuated(random, pod),
        "restart_all": random.random() < 0.06,
    }


# --- phase and conditions ---------------------------------------------------------------------------------------------


def _state(random: Random) -> Case:
    match random.choice(("waiting", "running", "running", "terminated", "terminated", "none")):
        case "waiting":
            return {"waiting": {"reason": random.choice(("ContainerCreating", "CrashLoopBackOff", "PodInitializing"))}}
        case "running":
            return {"running": {"startedAt": "2026-11-29T12:00:00Z"}}
        case "terminated":
            code = random.choice(_EXITS)
            reason = "Completed" if code == 0 else "Error"
            return {
                "terminated": {
                    "exitCode": code,
                    "reason": "RestartingAllContainers" if random.random() < 0.1 else reason,
                }
            }
    return {}


def _status(random: Random, name: str) -> Case:
    state = _state(random)
    made: Case = {
        "name": name,
        "image": "web",
        "imageID": "",
        "ready": "running" in state and random.random() < 0.7,
        "restartCount": random.randrange(4),
        "state": state,
        "lastState": _state(random) if random.random() < 0.4 else {},
    }
    if random.random() < 0.8:
        made["started"] = random.random() < 0.7
    return made


def _statuses(random: Random, listed: Sequence[Case]) -> list[Case] | None:
    made = [_status(random, each["name"]) for each in listed if random.random() < 0.93]
    if random.random() < 0.2:
        random.shuffle(made)
    return made


def _phase_case(random: Random) -> Case:
    pod = _pod(random)
    gates = [f"example.com/gate{number}" for number in range(random.choice((0, 0, 0, 1, 2)))]
    if gates:
        pod["spec"]["readinessGates"] = [{"conditionType": gate} for gate in gates]
    if random.random() < 0.2:
        pod["metadata"]["annotations"] = {"kubernetes.io/config.source": random.choice(("api", "file", "http"))}
    known = random.random() < 0.95
    conditions = [
        {"type": gate, "status": random.choice(("True", "False", "Unknown"))} for gate in gates if random.random() < 0.7
    ]
    old = [{"type": "Initialized", "status": random.choice(("True", "False"))}] if random.random() < 0.3 else []
    return {
        "pod": pod,
        "init_container_statuses": _statuses(random, pod["spec"].get("initContainers", ())) if known else None,
        "container_statuses": _statuses(random, pod["spec"]["containers"]) if known else None,
        "conditions": conditions,
        "old_conditions": old,
        "pod_is_terminal": random.random() < 0.15,
        "pod_has_initialized": random.random() < 0.5,
    }


# --- back-off ---------------------------------------------------------------------------------------------------------


def _backoff_case(random: Random) -> Case:
    pod = {"name": f"web{random.randrange(9)}", "namespace": "default", "uid": f"uid-{random.randrange(1000)}"}
    now, events = _BEGINNING + random.randrange(10**6), []
    # The kubelet's key of a back-off contains Go's internal form of each quantity. For a fraction of a binary unit, it
    # contains the address of a pointer, so the back-off would begin again each time a pod is read. Some equal amounts
    # have the same form.
    drawn = (_resources(random) for _ in range(100))
    resources = [each for each in drawn if not any(text in json.dumps(each) for text in (_FRACTION, _OTHER_UNIT))][:2]
    for _ in range(random.randrange(1, 14)):
        now += random.choice(
            (0, 1, 999, 5_000, 9_999, 10_000, 10_001, 20_000, 60_000, 300_000, 600_001, _FURTHEST_BACK_OFF)
        )
        if random.random() < 0.12:
            events.append({"op": "gc", "at_ms": now})
            continue
        start = {
            "op": "start",
            "at_ms": now,
            "container": random.choice(("app", "app", "app", "side")),
            "image": random.choice(("web", "web", "web:2")),
            "instances": [_instance(random, now) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))],
        }
        if random.random() < 0.3:
            start["resources"] = random.choice(resources)
        events.append(start)
    return {"pod": pod, "events": events}


def _instance(random: Random, now: int) -> Case:
    state = random.choices(("exited", "running", "created", "unknown"), (85, 5, 5, 5))[0]
    ago = random.choice(
        (0, 1, 5_000, 9_999, 10_000, 10_001, 40_000, 299_999, 300_000, 600_000, 600_001, _FURTHEST_BACK_OFF)
    )
    return {"state": state, "finished_at_ms": now - ago if state == "exited" else None}


_KINDS: Final[Mapping[Kind, Callable[[Random], Case]]] = {
    "actions": _actions_case,
    "phase": _phase_case,
    "backoff": _backoff_case,
}
