"""Scenarios about probes of each kind, with their thresholds and grace periods, and about hooks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from qa.differential.scenario import (
    Manifest,
    Moment,
    Scenario,
    Status,
    ready,
    restarted,
    running,
    shell,
    sleeper,
    waiting,
)
from tests.runtimes.images import HTTPD

_QUICK: Final[Manifest] = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10}
_LATE: Final[Manifest] = _QUICK | {"initialDelaySeconds": 5}
"""A delay that lets a container be seen running between two restarts by the probe."""
_WEB: Final[Manifest] = {"name": "main", "image": HTTPD, "ports": [{"name": "web", "containerPort": 80}]}
"""A web server, which answers HTTP and TCP at once, but not gRPC."""

_ACTIONS: Final[dict[str, tuple[Manifest, Manifest]]] = {
    "exec": ({"exec": {"command": ["true"]}}, {"exec": {"command": ["sh", "-c", "echo broken; exit 3"]}}),
    "http": (
        {"httpGet": {"path": "/index.html", "port": 80}},
        {"httpGet": {"path": "/absent", "port": "web"}},
    ),
    "tcp": ({"tcpSocket": {"port": "web"}}, {"tcpSocket": {"port": 81}}),
    "grpc": ({}, {"grpc": {"port": 81}}),
}
"""For each kind of probe, one that succeeds on the web server and one that fails; `{}` if there is none."""


def _kinds() -> Iterator[Scenario]:
    for (kind, (good, bad)), probe in product(_ACTIONS.items(), ("startup", "liveness", "readiness")):
        if good:
            container = _WEB | {f"{probe}Probe": good | _QUICK | {"failureThreshold": 5}}
            yield Scenario("probe", f"{probe}-{kind}-succeeds", {"containers": [container]}, ready)
        slow = {} if probe == "readiness" else {"initialDelaySeconds": 8}
        container = _WEB | {f"{probe}Probe": bad | _QUICK | slow}
        moment: Moment = running if probe == "readiness" else restarted()
        yield Scenario("probe", f"{probe}-{kind}-fails", {"containers": [container]}, moment, after="Unhealthy")


def _settings() -> Iterator[Scenario]:
    bad, good = _ACTIONS["exec"][1], _ACTIONS["exec"][0]

    def probed(name: str, moment: Moment, *, after: str = "", **probes: Manifest) -> Scenario:
        probing = {f"{kind}Probe": probe for kind, probe in probes.items()}
        return Scenario("probe", name, {"containers": [sleeper() | probing]}, moment, after=after)

    own_grace = _LATE | {"terminationGracePeriodSeconds": 1}
    yield probed("threshold-3", restarted(), liveness=bad | _LATE | {"failureThreshold": 3})
    yield probed("delay", restarted(), liveness=bad | _QUICK | {"initialDelaySeconds": 4})
    yield probed("own-grace", restarted(), liveness=bad | own_grace)
    yield probed("startup-own-grace", restarted(), startup=bad | own_grace)
    yield probed("success-threshold", ready, readiness=good | {"periodSeconds": 1, "successThreshold": 3})
    yield probed("delayed-readiness", ready, readiness=good | {"initialDelaySeconds": 5, "periodSeconds": 1})
    yield probed("startup-then-readiness", ready, startup=good | _QUICK, readiness=good | _QUICK)
    yield probed(
        "startup-holds-readiness",
        running,
        startup=bad | {"failureThreshold": 90, "timeoutSeconds": 10},
        readiness=good | _QUICK,
        after="Unhealthy",
    )
    slow = {"exec": {"command": ["sleep", "30"]}}
    yield probed("exec-timeout", restarted(), liveness=slow | _LATE | {"timeoutSeconds": 1})
    slow_readiness = slow | _QUICK | {"timeoutSeconds": 1}
    yield probed("readiness-timeout", running, readiness=slow_readiness, after="Unhealthy")
    absent = {"exec": {"command": ["/no/such/program"]}}
    yield probed("exec-absent", running, liveness=absent | _QUICK, after="Unhealthy")  # without a restart
    yield probed("all-three", ready, startup=good | _QUICK, liveness=good | _QUICK, readiness=good | _QUICK)
    deaf = shell("main", "trap '' TERM; while :; do sleep 1; done")
    bad_probe = bad | _LATE | {"terminationGracePeriodSeconds": 2}
    spec: Manifest = {"terminationGracePeriodSeconds": 60, "containers": [deaf | {"livenessProbe": bad_probe}]}
    yield Scenario("probe", "own-grace-deaf", spec, restarted())
    in_directory = "mkdir /var/www/dir && cp /var/www/index.html /var/www/dir && exec httpd -f -p 80 -h /var/www"
    for name, path in (("redirect", "/dir"), ("query", "/index.html?a=b"), ("root", "/")):
        command: Manifest = {"command": ["sh", "-c", in_directory]} if name == "redirect" else {}
        container = _WEB | command | {"readinessProbe": {"httpGet": {"path": path, "port": 80}} | _QUICK}
        yield Scenario("probe", f"http-{name}", {"containers": [container]}, ready)
    headers = [{"name": "Host", "value": "example.test"}, {"name": "X-One", "value": "1"}]
    container = _WEB | {"readinessProbe": {"httpGet": {"port": 80, "httpHeaders": headers}} | _QUICK}
    yield Scenario("probe", "http-headers", {"containers": [container]}, ready)
    container = _WEB | {"readinessProbe": {"httpGet": {"port": 80, "scheme": "HTTPS"}} | _QUICK}
    yield Scenario("probe", "https-to-http", {"containers": [container]}, running, after="Unhealthy")
    gates = {"readinessGates": [{"conditionType": "example.test/open"}], "containers": [sleeper()]}
    yield Scenario("probe", "readiness-gate", gates, running)


def _under_way() -> Iterator[Scenario]:
    """Pods in which a postStart hook is running: after a first start, after a restart, in a sidecar."""
    hooked = sleeper() | {"lifecycle": {"postStart": {"sleep": {"seconds": 20}}}}
    once = "[ -e /once/ran ] || { sleep 3; touch /once/ran; exit 1; }; trap 'exit 0' TERM; sleep 1000 & wait"
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "[ ! -e /once/ran ] || sleep 20"]}}}
    again = shell("main", once, volumeMounts=[{"name": "once", "mountPath": "/once"}], lifecycle=hook)
    sidecar = hooked | {"name": "side", "restartPolicy": "Always"}
    for name, spec, starts in (
        ("", {"containers": [hooked]}, 1),
        ("-of-two", {"containers": [hooked, sleeper("other")]}, 1),
        ("-after-init", {"initContainers": [shell("first", "exit 0")], "containers": [hooked]}, 2),
        ("-of-a-restart", {"containers": [again], "volumes": [{"name": "once", "emptyDir": {}}]}, 2),
        ("-of-a-sidecar", {"initContainers": [sidecar], "containers": [sleeper()]}, 1),
    ):
        slow: Manifest = {"terminationGracePeriodSeconds": 30, **spec}
        yield Scenario("hook", f"poststart-under-way{name}", slow, _is_there, created=starts, still_seconds=6)


def _is_there(status: Status) -> bool:
    """Whether the pod has a status."""
    return bool(status)


def _hooks() -> Iterator[Scenario]:
    good, bad = {"exec": {"command": ["true"]}}, {"exec": {"command": ["sh", "-c", "echo broken; exit 3"]}}

    def hooked(name: str, moment: Moment, container: Manifest, *, ends: bool = False, **hooks: Manifest) -> Scenario:
        return Scenario("hook", name, {"containers": [container | {"lifecycle": hooks}]}, moment, ends=ends)

    again = waiting("CrashLoopBackOff", restarts=2)
    yield hooked("poststart", ready, sleeper(), postStart=good)
    yield hooked("poststart-fails", again, sleeper(), postStart=bad)
    yield hooked("poststart-absent", again, sleeper(), postStart={"exec": {"command": ["/absent"]}})
    yield hooked("poststart-sleep", ready, sleeper(), postStart={"sleep": {"seconds": 1}})
    yield from _under_way()
    late = {"postStart": {"exec": {"command": ["sh", "-c", "sleep 8; touch /tmp/done"]}}}
    probe: Manifest = {"exec": {"command": ["test", "-e", "/tmp/done"]}} | _QUICK
    probed = sleeper() | {"lifecycle": late, "livenessProbe": probe}
    slow: Manifest = {"terminationGracePeriodSeconds": 30, "containers": [probed]}
    yield Scenario("hook", "poststart-holds-probes", slow, ready)
    yield hooked("poststart-sleep-0", ready, sleeper(), postStart={"sleep": {"seconds": 0}})
    yield hooked("poststart-http-404", ready, _WEB, postStart={"httpGet": {"path": "/absent", "port": "web"}})
    yield hooked("poststart-http-refused", again, _WEB, postStart={"httpGet": {"port": 81}})
    trace = {"exec": {"command": ["sh", "-c", "echo hook >> /out/trace"]}}
    mounts = {"volumeMounts": [{"name": "out", "mountPath": "/out"}]}
    noting = shell("main", "trap 'echo term >> /out/trace; exit 0' TERM; sleep 1000 & wait") | mounts
    volumes = {"volumes": [{"name": "out", "hostPath": {"path": "@dir@"}}]}
    for name, hook in (
        ("prestop", trace),
        ("prestop-fails", bad),
        ("prestop-absent", {"exec": {"command": ["/absent"]}}),
        ("prestop-sleep", {"sleep": {"seconds": 1}}),
        ("prestop-too-long", {"exec": {"command": ["sleep", "60"]}}),
        ("prestop-http-refused", {"httpGet": {"port": 81}}),
    ):
        spec: Manifest = {"terminationGracePeriodSeconds": 5, "containers": [noting | {"lifecycle": {"preStop": hook}}]}
        yield Scenario("hook", name, spec | volumes, ready, ends=True)


SCENARIOS: Final = (*_kinds(), *_settings(), *_hooks())
