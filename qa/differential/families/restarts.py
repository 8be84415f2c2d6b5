"""Scenarios about restart policies, exit codes, kinds of containers, sidecars, rules and restarts of all containers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from qa.differential.scenario import (
    Manifest,
    Moment,
    Scenario,
    all_of,
    containers,
    ended,
    finished,
    ready,
    restarted,
    running,
    shell,
    sleeper,
    waiting,
)

_CODES: Final = (0, 1, 2, 42, 126, 127, 137, 143, 255)


def _end(policy: str, code: int, container: str = "main") -> Moment:
    """The moment to wait for in a pod whose only container ends with that code.

    It is the back-off after the second restart. A kubelet shows a back-off at its first sync after the sync in which it
    began, so the first back-off, of ten seconds, is hardly ever seen.
    """
    again = policy == "Always" or (policy == "OnFailure" and code != 0)
    return waiting("CrashLoopBackOff", container, restarts=2) if again else finished


def _main_containers() -> Iterator[Scenario]:
    for policy in ("Always", "OnFailure", "Never"):
        for code in _CODES if policy == "Never" else (0, 1, 42):
            spec: Manifest = {"restartPolicy": policy, "containers": [shell("main", f"exit {code}")]}
            yield Scenario("exit", f"{policy}-{code}", spec, _end(policy, code))
    for signal in ("KILL", "TERM", "SEGV", "INT"):
        spec = {"restartPolicy": "Never", "containers": [shell("main", f"sh -c 'kill -{signal} $$'; exit $?")]}
        yield Scenario("exit", f"signal-{signal}", spec, finished)


def _several() -> Iterator[Scenario]:
    for policy, first, second in product(("Always", "OnFailure", "Never"), (0, 1), (0, 1)):
        spec: Manifest = {
            "restartPolicy": policy,
            "containers": [shell("main", f"exit {first}"), shell("other", f"exit {second}")],
        }
        again = [name for name, code in (("main", first), ("other", second)) if _end(policy, code) is not finished]
        moment = waiting("CrashLoopBackOff", again[0], restarts=2) if again else finished
        yield Scenario("several", f"{policy}-{first}-{second}", spec, moment)
    for policy in ("OnFailure", "Never"):
        spec = {"restartPolicy": policy, "containers": [shell("main", "exit 0"), sleeper("other")]}
        yield Scenario("several", f"{policy}-one-stays", spec, _has_ended("main"))


def _has_ended(container: str) -> Moment:
    def has(status: Any) -> bool:
        all_of_them = {each["name"]: each["state"] for each in status.get("containerStatuses", ())}
        others = [state for name, state in all_of_them.items() if name != container]
        return "terminated" in all_of_them.get(container, {}) and all("running" in state for state in others)

    return has


def _init_containers() -> Iterator[Scenario]:
    for policy in ("Always", "OnFailure", "Never"):
        for code in (0, 3):
            spec: Manifest = {
                "restartPolicy": policy,
                "initContainers": [shell("first", f"exit {code}"), shell("second", "exit 0")],
                "containers": [shell("main", "exit 0")],
            }
            failing = code and policy != "Never"
            yield Scenario(
                "init",
                f"{policy}-{code}",
                spec,
                waiting("CrashLoopBackOff", "first", restarts=2) if failing else _end(policy, code),
            )
    for policy, middle in product(("Always", "OnFailure"), (0, 3)):
        spec = {
            "restartPolicy": policy,
            "initContainers": [shell("first", "exit 0"), shell("second", f"exit {middle}"), shell("third", "exit 0")],
            "containers": [sleeper()],
        }
        moment = waiting("CrashLoopBackOff", "second", restarts=2) if middle else ready
        yield Scenario("init", f"{policy}-chain-{middle}", spec, moment)
    once = "test -e /once/x && exit 0; touch /once/x; exit 1"
    mounts = [{"name": "once", "mountPath": "/once"}]
    spec = {
        "initContainers": [shell("first", once, volumeMounts=mounts)],
        "containers": [sleeper()],
        "volumes": [{"name": "once", "emptyDir": {}}],
    }
    yield Scenario("init", "second-try", spec, ready)
    many = [shell(f"init{number}", "exit 0") for number in range(6)]
    yield Scenario("init", "six", {"initContainers": many, "containers": [sleeper()]}, ready)


def _sidecar(name: str, script: str = "", **fields: Any) -> Manifest:
    made = shell(name, script, **fields) if script else sleeper(name, **fields)
    return made | {"restartPolicy": "Always"}


def _sidecars() -> Iterator[Scenario]:
    def one(
        name: str, moment: Moment, inits: list[Manifest], *mains: Manifest, policy: str = "Always", after: str = ""
    ) -> Scenario:
        spec = {"restartPolicy": policy, "initContainers": inits, "containers": list(mains or (sleeper(),))}
        return Scenario("sidecar", name, spec, moment, after=after)

    fail, succeed = ({"exec": {"command": ["false"]}}, {"exec": {"command": ["true"]}})
    job = shell("main", "exit 0")
    yield one("runs", ready, [_sidecar("side")])
    yield one("two", ready, [_sidecar("a"), _sidecar("b")])
    yield one("before-init", ready, [_sidecar("side"), shell("init", "exit 0")])
    yield one("after-init", ready, [shell("init", "exit 0"), _sidecar("side")])
    yield one("job-never", finished, [_sidecar("side")], job, policy="Never")
    yield one("job-onfailure", finished, [_sidecar("side")], job, policy="OnFailure")
    yield one("job-fails", finished, [_sidecar("side")], shell("main", "exit 4"), policy="Never")
    for policy in ("Always", "OnFailure", "Never"):
        crashing = waiting("CrashLoopBackOff", "side", restarts=2)
        yield one(f"crashes-{policy}", crashing, [_sidecar("side", "sleep 3; exit 5")], policy=policy)
        over = ended("side", restarts=2)
        yield one(f"ends-{policy}", over, [_sidecar("side", "sleep 3; exit 0")], policy=policy)
    yield one("poststart", ready, [_sidecar("side", lifecycle={"postStart": {"exec": {"command": ["true"]}}})])
    yield one(
        "poststart-fails",
        ended("side", restarts=2),
        [_sidecar("side", lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 3"]}}})],
    )
    quick = {"periodSeconds": 1, "failureThreshold": 1}
    yield one("startup-passes", ready, [_sidecar("side", startupProbe=succeed | quick)])
    yield one(
        "startup-fails",
        ended("side", restarts=2),
        [_sidecar("side", startupProbe=fail | quick)],
    )
    yield one("unready", running, [_sidecar("side", readinessProbe=fail | quick)], after="Unhealthy")
    yield one(
        "liveness-fails",
        ended("side", restarts=2),
        [_sidecar("side", livenessProbe=fail | quick)],
    )
    yield one("init-fails-never", finished, [_sidecar("side"), shell("init", "exit 7")], policy="Never")
    yield one(
        "init-fails-always",
        waiting("CrashLoopBackOff", "init", restarts=2),
        [_sidecar("side"), shell("init", "exit 7")],
    )


def _rule(action: str, operator: str, *codes: int) -> Manifest:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


def _rules() -> Iterator[Scenario]:
    cases = (
        ("in-hit", "Never", [_rule("Restart", "In", 42)], 42, True),
        ("in-miss", "Never", [_rule("Restart", "In", 42)], 1, False),
        ("notin-hit", "Never", [_rule("Restart", "NotIn", 42)], 1, True),
        ("notin-miss", "Never", [_rule("Restart", "NotIn", 42)], 42, False),
        ("zero", "Never", [_rule("Restart", "In", 0)], 0, True),
        ("second-rule", "Never", [_rule("Restart", "In", 1), _rule("Restart", "In", 9)], 9, True),
        ("many-codes", "Never", [_rule("Restart", "In", 1, 2, 3, 4)], 4, True),
        ("onfailure-zero", "OnFailure", [_rule("Restart", "In", 0)], 0, True),
        ("onfailure-miss", "OnFailure", [_rule("Restart", "In", 7)], 0, False),
    )
    for (name, own, rules, code, again), pod in product(cases, ("Always", "Never")):
        container = shell("main", f"exit {code}", restartPolicy=own, restartPolicyRules=rules)
        spec: Manifest = {"restartPolicy": pod, "containers": [container]}
        moment = waiting("CrashLoopBackOff", restarts=2) if again else finished
        yield Scenario("rules", f"{name}-{pod}", spec, moment)
    for own, pod, code in product(("Always", "OnFailure", "Never"), ("Always", "OnFailure", "Never"), (0, 1)):
        spec = {"restartPolicy": pod, "containers": [shell("main", f"exit {code}", restartPolicy=own)]}
        yield Scenario("own-policy", f"{own}-in-{pod}-{code}", spec, _end(own, code))
    init = shell("first", "exit 3", restartPolicy="Never", restartPolicyRules=[_rule("Restart", "In", 3)])
    spec = {"restartPolicy": "Never", "initContainers": [init], "containers": [sleeper()]}
    yield Scenario("rules", "init", spec, waiting("CrashLoopBackOff", "first", restarts=2))


def _restart_all() -> Iterator[Scenario]:
    rules = [_rule("RestartAllContainers", "In", 88)]
    once = "if test -e /once/x; then sleep 1000; else touch /once/x; sleep 4; exit 88; fi"
    mounts = [{"name": "once", "mountPath": "/once"}]
    again = shell("main", once, restartPolicy="Never", restartPolicyRules=rules, volumeMounts=mounts)
    volumes = [{"name": "once", "emptyDir": {}}]
    for pod in ("Always", "Never"):
        spec: Manifest = {"restartPolicy": pod, "containers": [again, sleeper("other")], "volumes": volumes}
        yield Scenario("restart-all", f"once-{pod}", spec, all_of(restarted(1, "other"), running))
        spec = spec | {"initContainers": [shell("first", "exit 0")]}
        yield Scenario("restart-all", f"with-init-{pod}", spec, all_of(restarted(1, "other"), running))
        spec = spec | {"initContainers": [_sidecar("side")]}
        yield Scenario("restart-all", f"with-sidecar-{pod}", spec, all_of(restarted(1, "side"), ready))
    loop = shell("main", "sleep 1; exit 88", restartPolicy="Never", restartPolicyRules=rules)
    spec = {"restartPolicy": "Never", "containers": [loop, sleeper("other")]}
    yield Scenario(
        "restart-all", "loop", spec, lambda status: any(each["restartCount"] > 1 for each in containers(status))
    )
    missed = shell("main", "exit 1", restartPolicy="Never", restartPolicyRules=rules)
    spec = {"restartPolicy": "Never", "containers": [missed, sleeper("other")]}
    yield Scenario("restart-all", "missed", spec, _has_ended("main"))


SCENARIOS: Final = (
    *_main_containers(),
    *_several(),
    *_init_containers(),
    *_sidecars(),
    *_rules(),
    *_restart_all(),
)
