"""Draws pods and their containers' lives from a seed: all policies, init containers, sidecars, restart rules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251  # seeded, and of nobody else's
from typing import Any

from tests.simulator.runtime import FOREVER, Life

Manifest = dict[str, Any]

IMAGES = ("busybox:1", "busybox:2", "busybox:3")


def draw_pod(random: Random) -> tuple[str, Manifest]:
    """Draw a kind of pod and a pod of that kind."""
    kind = random.choice((*_KINDS, *_BY_RECORD))
    spec = _KINDS[kind](random)
    spec["terminationGracePeriodSeconds"] = random.choice((1, 5, 30, 30))
    if random.random() < 0.05:
        spec["activeDeadlineSeconds"] = random.randint(5, 200)
    return kind, pod(spec, _draw_annotations(random) if kind == "governed" else None)


def pod(spec: Manifest, annotations: dict[str, str] | None = None) -> Manifest:
    """Return the pod that is simulated, with this spec, and annotations if any."""
    metadata: Manifest = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _draw_annotations(random: Random) -> dict[str, str]:
    annotations = {
        "syncpod.dev/backoff-initial": random.choice(("1s", "5s")),
        "syncpod.dev/backoff-factor": random.choice(("1", "3")),
        "syncpod.dev/backoff-max": random.choice(("30s", "120s")),
        "syncpod.dev/backoff-reset-after": random.choice(("60s", "900s")),
    }
    if random.random() < 0.5:
        annotations["syncpod.dev/restart-limit"] = random.choice(("1", "4"))
        annotations["syncpod.dev/restart-limit-action"] = random.choice(("hold", "fail"))
    return annotations


def draw_lives(random: Random, manifest: Manifest) -> dict[str, tuple[Life, ...]]:
    """Draw the lives of each container's instances, in order; the last life is repeated."""
    spec = manifest["spec"]
    init = {container["name"] for container in spec.get("initContainers", ()) if "restartPolicy" not in container}
    names = [container["name"] for kind in ("initContainers", "containers") for container in spec.get(kind, ())]
    return {name: tuple(_life(random, init=name in init) for _ in range(random.randint(1, 5))) for name in names}


def settled_life(manifest: Manifest, name: str) -> Life:
    """Return an instance's life after the last fault: it succeeds, or keeps running."""
    spec = manifest["spec"]
    for container in spec.get("initContainers", ()):
        if container["name"] == name:
            return FOREVER if container.get("restartPolicy") == "Always" else Life(0.5)
    return Life(3.0) if spec["restartPolicy"] != "Always" and name == "b" else FOREVER


def _life(random: Random, *, init: bool) -> Life:
    seconds: float | None = random.choice((0.03, 0.5, 4.0, 15.0, 650.0, None, None))
    code = random.choice((0, 1, 1, 42))
    if init:
        seconds, code = random.choice((0.01, 0.1, 3.0)), random.choice((0, 0, 0, 1, 42))
    stop = random.choice((0.0, 0.1, 0.1, 3.0, None))
    kill = random.choice((0.0,) * 9 + (60.0,))
    return Life(None if seconds is None else round(seconds * random.uniform(0.8, 1.2), 3), code, stop, kill)


def _container(random: Random, name: str, **more: Any) -> dict[str, Any]:
    policy = {"imagePullPolicy": random.choice(("IfNotPresent",) * 4 + ("Always",))}
    return {"name": name, "image": "busybox:1", **policy, **more}


def _mains(random: Random, **more: Any) -> list[dict[str, Any]]:
    return [_container(random, name, **more) for name in ("a", "b")[: random.randint(1, 2)]]


def _plain(policy: str) -> Callable[[Random], dict[str, Any]]:
    def spec(random: Random) -> dict[str, Any]:
        return {"restartPolicy": policy, "containers": _mains(random)}

    return spec


def _with_init(random: Random) -> dict[str, Any]:
    inits = [_container(random, name) for name in ("i", "j", "k")[: random.randint(1, 3)]]
    policy = random.choice(("Always", "OnFailure", "OnFailure", "Never"))
    return {"restartPolicy": policy, "initContainers": inits, "containers": _mains(random)}


def _with_sidecar(random: Random) -> dict[str, Any]:
    sidecar = _container(random, "s", restartPolicy="Always")
    inits = [_container(random, name) for name in ("i", "j")[: random.randint(0, 2)]]
    inits.insert(random.randint(0, len(inits)), sidecar)
    policy = random.choice(("Always", "OnFailure", "Never"))
    return {"restartPolicy": policy, "initContainers": inits, "containers": _mains(random)[:1]}


def _with_rules(random: Random) -> dict[str, Any]:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    ruled = _container(random, "a", restartPolicy="Never", restartPolicyRules=rules)
    return {"restartPolicy": random.choice(("Always", "Never")), "containers": [ruled, *_mains(random)[1:]]}


def _restart_all(random: Random) -> dict[str, Any]:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    ruled = _container(random, "a", restartPolicy="Never", restartPolicyRules=rules)
    inits = [_container(random, "i")] if random.random() < 0.5 else []
    mains = [ruled, *_mains(random)[1:]]
    return {"restartPolicy": random.choice(("Always", "Never")), "initContainers": inits, "containers": mains}


def _probed(random: Random) -> dict[str, Any]:
    probe = {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 3}
    policy = random.choice(("Always", "OnFailure", "Never"))
    return {"restartPolicy": policy, "containers": _mains(random, livenessProbe=probe)}


def _hooked(random: Random) -> dict[str, Any]:
    hook = {"exec": {"command": ["true"]}}
    lifecycle = random.choice(({"postStart": hook}, {"preStop": hook}, {"postStart": hook, "preStop": hook}))
    policy = random.choice(("Always", "OnFailure", "Never"))
    return {"restartPolicy": policy, "containers": _mains(random, lifecycle=lifecycle)}


def _resizable(random: Random) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    policy = [{"resourceName": "memory", "restartPolicy": random.choice(("NotRequired", "RestartContainer"))}]
    mains = _mains(random, resources=resources, resizePolicy=policy)
    return {"restartPolicy": random.choice(("Always", "OnFailure")), "containers": mains}


_KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "always": _plain("Always"),
    "on failure": _plain("OnFailure"),
    "never": _plain("Never"),
    "init containers": _with_init,
    "sidecar": _with_sidecar,
    "restart rules": _with_rules,
    "restart all": _restart_all,
    "probed": _probed,
    "resizable": _resizable,
    "governed": _plain("Always"),
    "hooked": _hooked,
}
_BY_RECORD = ("on failure", "on failure", "init containers", "sidecar")
"""Kinds that are drawn more often: without records, containers that the runtime lost would run again."""
