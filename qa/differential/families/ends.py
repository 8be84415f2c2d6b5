"""Scenarios about images, admission, refused manifests, deadlines, termination messages, and the end of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from qa.differential.scenario import (
    Manifest,
    Moment,
    Scenario,
    Status,
    containers,
    finished,
    ready,
    shell,
    sleeper,
    waiting,
)
from tests.runtimes.images import BUSYBOX


def _images() -> Iterator[Scenario]:
    def image(name: str, reference: str, moment: Moment, **fields: Any) -> Scenario:
        container = {"name": "main", "image": reference, "command": ["sleep", "1000"], **fields}
        return Scenario("image", name, {"containers": [container]}, moment)

    none = "127.0.0.1:1/none:1"
    yield image("present", BUSYBOX, ready)
    yield image("never", BUSYBOX, ready, imagePullPolicy="Never")
    yield image("short-name", "busybox:1", ready)
    yield image("library-name", "docker.io/busybox:1", ready)
    yield image("never-absent", none, waiting("ErrImageNeverPull"), imagePullPolicy="Never")
    yield image("absent", none, waiting("ImagePullBackOff"))
    yield image("absent-always", none, waiting("ImagePullBackOff"), imagePullPolicy="Always")
    yield image("invalid", "UPPER/Case:1", waiting("InvalidImageName"))
    yield image("invalid-tag", "busybox:???", waiting("InvalidImageName"))
    yield image("no-program", BUSYBOX, waiting("CrashLoopBackOff", restarts=2), command=["/absent"])
    yield image("not-executable", BUSYBOX, waiting("CrashLoopBackOff", restarts=2), command=["/etc/passwd"])
    yield image("no-directory", BUSYBOX, waiting("CrashLoopBackOff", restarts=2), command=["/etc"])
    spec: Manifest = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": BUSYBOX, "command": ["/absent"]}],
    }
    yield Scenario("image", "no-program-never", spec, finished)
    spec = {"initContainers": [{"name": "first", "image": none}], "containers": [sleeper()]}
    yield Scenario("image", "absent-init", spec, waiting("ImagePullBackOff", "first"))
    spec = {"containers": [{"name": "main", "image": none}, sleeper("other")]}
    yield Scenario("image", "absent-one-of-two", spec, waiting("ImagePullBackOff"))


def _node_affinity(operator: str, *values: str) -> Manifest:
    expression = {"key": "kubernetes.io/os", "operator": operator, **({"values": list(values)} if values else {})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _admission() -> Iterator[Scenario]:
    main = {"containers": [sleeper()]}
    huge = {"containers": [sleeper(resources={"requests": {"cpu": "1000"}})]}
    memory = {"containers": [sleeper(resources={"requests": {"memory": "100Ti"}})]}
    storage = {"containers": [sleeper(resources={"requests": {"ephemeral-storage": "100Pi"}})]}
    unknown = {"containers": [sleeper(resources={"limits": {"example.test/thing": "1"}})]}
    pages = {"containers": [sleeper(resources={"limits": {"hugepages-2Mi": "2Mi", "memory": "16Mi"}})]}
    armoured = {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "none"}}}
    for name, spec, moment in (
        ("cpu", huge, finished),
        ("memory", memory, finished),
        ("storage", storage, finished),
        ("unknown-resource", unknown, ready),
        ("huge-pages", pages, finished),
        ("selector-other", main | {"nodeSelector": {"disk": "none"}}, finished),
        ("selector-os", main | {"nodeSelector": {"kubernetes.io/os": "linux"}}, ready),
        ("selector-hostname", main | {"nodeSelector": {"kubernetes.io/hostname": "differ"}}, ready),
        ("affinity-hit", main | _node_affinity("In", "linux"), ready),
        ("affinity-miss", main | _node_affinity("In", "windows"), finished),
        ("affinity-exists", main | _node_affinity("Exists"), ready),
        ("affinity-absent", main | _node_affinity("DoesNotExist"), finished),
        ("os-linux", main | {"os": {"name": "linux"}}, ready),
        ("os-windows", {"containers": [sleeper()], "os": {"name": "windows"}}, finished),
        ("sysctl-unsafe", main | {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, finished),
        ("apparmor-absent", main | armoured, finished),
        ("apparmor-unconfined", main | {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, ready),
        ("tolerations", main | {"tolerations": [{"operator": "Exists"}]}, ready),
        ("scheduling-gate-none", main | {"schedulerName": "other"}, ready),
        ("host-users", main | {"hostUsers": True}, ready),
    ):
        yield Scenario("admission", name, spec, moment)


def _refusals() -> Iterator[Scenario]:
    def refused(name: str, spec: Manifest, metadata: Manifest | None = None) -> Scenario:
        return Scenario("refused", name, spec, finished, metadata or {}, refused=True)

    yield refused("no-containers", {"containers": []})
    yield refused("two-names", {"containers": [sleeper("a"), sleeper("a")]})
    yield refused("no-image", {"containers": [{"name": "main", "image": ""}]})
    yield refused("bad-name", {"containers": [sleeper("Not_Fine")]})
    yield refused("bad-policy", {"restartPolicy": "Sometimes", "containers": [sleeper()]})
    yield refused("bad-pull-policy", {"containers": [sleeper(imagePullPolicy="Maybe")]})
    yield refused("negative-grace", {"terminationGracePeriodSeconds": -1, "containers": [sleeper()]})
    yield refused("unknown-volume", {"containers": [sleeper(volumeMounts=[{"name": "v", "mountPath": "/v"}])]})
    yield refused(
        "relative-host-path", {"containers": [sleeper()], "volumes": [{"name": "v", "hostPath": {"path": "../x"}}]}
    )
    yield refused(
        "two-handlers",
        {"containers": [sleeper(livenessProbe={"exec": {"command": ["true"]}, "tcpSocket": {"port": 1}})]},
    )
    yield refused(
        "liveness-success",
        {"containers": [sleeper(livenessProbe={"exec": {"command": ["true"]}, "successThreshold": 2})]},
    )
    yield refused(
        "requests-over-limits", {"containers": [sleeper(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}})]}
    )
    yield refused("bad-label", {"containers": [sleeper()]}, {"labels": {"a b": "c"}})
    yield refused("bad-env-name", {"containers": [sleeper(env=[{"name": "=", "value": "1"}])]})
    yield refused("bad-hostname", {"hostname": "Not_Fine", "containers": [sleeper()]})
    yield refused("dns-none-empty", {"dnsPolicy": "None", "containers": [sleeper()]})
    yield refused("ephemeral", {"containers": [sleeper()], "ephemeralContainers": [sleeper("debug")]})
    yield refused("zero-deadline", {"activeDeadlineSeconds": 0, "containers": [sleeper()]})
    yield refused("bad-quantity", {"containers": [sleeper(resources={"limits": {"cpu": "much"}})]})
    reference = {"configMapKeyRef": {"name": "c", "key": "k"}}
    yield refused("config-map-env", {"containers": [sleeper(env=[{"name": "X", "valueFrom": reference}])]})
    yield refused(
        "secret-volume", {"containers": [sleeper()], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}
    )
    yield refused("proc-unmasked", {"containers": [sleeper(securityContext={"procMount": "Unmasked"})]})
    yield refused("service-account", {"serviceAccountName": "robot", "containers": [sleeper()]})


def _stopped(status: Status) -> bool:
    """Whether the pod has finished and each container is terminated.

    A container that never ran becomes terminated only after everything else.
    """
    return finished(status) and all("terminated" in each["state"] for each in containers(status))


def _deadlines() -> Iterator[Scenario]:
    yield Scenario("deadline", "running", {"activeDeadlineSeconds": 20, "containers": [sleeper()]}, _stopped)
    never = {"activeDeadlineSeconds": 20, "restartPolicy": "Never", "containers": [sleeper()]}
    yield Scenario("deadline", "never", never, _stopped)
    init = {"activeDeadlineSeconds": 40, "initContainers": [sleeper("first")], "containers": [sleeper()]}
    yield Scenario("deadline", "in-init", init, finished)
    crashing = {"activeDeadlineSeconds": 25, "containers": [shell("main", "exit 1")]}
    yield Scenario("deadline", "crashing", crashing, _stopped)
    pulling = {"activeDeadlineSeconds": 25, "containers": [{"name": "main", "image": "127.0.0.1:1/none:1"}]}
    yield Scenario("deadline", "pulling", pulling, _stopped)
    late = {"activeDeadlineSeconds": 100, "restartPolicy": "Never", "containers": [shell("main", "exit 0")]}
    yield Scenario("deadline", "in-time", late, finished)


def _messages() -> Iterator[Scenario]:
    for name, script, fields in (
        ("file", "echo said > /dev/termination-log; exit 1", {}),
        ("file-success", "echo said > /dev/termination-log", {}),
        ("own-path", "echo said > /tmp/why; exit 1", {"terminationMessagePath": "/tmp/why"}),
        ("log", "echo logged; exit 1", {"terminationMessagePolicy": "FallbackToLogsOnError"}),
        ("log-success", "echo logged", {"terminationMessagePolicy": "FallbackToLogsOnError"}),
        (
            "file-over-log",
            "echo f > /dev/termination-log; echo l; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
        ),
        ("long", "i=0; while [ $i -lt 600 ]; do echo line$i; i=$((i+1)); done > /dev/termination-log; exit 1", {}),
        (
            "long-log",
            "i=0; while [ $i -lt 300 ]; do echo line$i; i=$((i+1)); done; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
        ),
        ("empty", ": > /dev/termination-log; exit 1", {}),
        ("no-newline", "printf said > /dev/termination-log; exit 1", {}),
    ):
        yield Scenario(
            "message", name, {"restartPolicy": "Never", "containers": [shell("main", script, **fields)]}, finished
        )


def _ends() -> Iterator[Scenario]:
    mounts = {"volumeMounts": [{"name": "out", "mountPath": "/out"}]}
    volumes = {"volumes": [{"name": "out", "hostPath": {"path": "@dir@"}}]}

    def noting(name: str = "main", *, code: int = 0, **fields: Any) -> Manifest:
        script = f"trap 'echo {name} term >> /out/trace; exit {code}' TERM; sleep 1000 & wait"
        return shell(name, script, **mounts, **fields)

    deaf = shell("main", "trap 'echo deaf >> /out/trace' TERM; while :; do sleep 1; done", **mounts)

    def end(name: str, *containers: Manifest, **spec: Any) -> Scenario:
        return Scenario("end", name, {"containers": list(containers), **volumes, **spec}, ready, ends=True)

    for grace in (1, 2, 7, 30):
        yield end(f"grace-{grace}", noting(), terminationGracePeriodSeconds=grace)
    yield end("grace-0", noting(), terminationGracePeriodSeconds=0)
    yield end("deaf", deaf, terminationGracePeriodSeconds=3)
    yield end("code", noting(code=9))
    yield end("two", noting("main"), noting("other"))
    side = noting("side", restartPolicy="Always")
    yield end("sidecar", noting(), initContainers=[side], terminationGracePeriodSeconds=10)
    two = [noting(name, restartPolicy="Always") for name in ("a", "b")]
    yield end("sidecars-reversed", noting(), initContainers=two, terminationGracePeriodSeconds=10)
    yield end("deaf-with-sidecar", deaf, initContainers=[side], terminationGracePeriodSeconds=4)
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo side hook >> /out/trace"]}}}}
    yield end("sidecar-hook", noting(), initContainers=[side | hook], terminationGracePeriodSeconds=10)
    for signal in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGKILL", "SIGQUIT"):
        short = signal.removeprefix("SIG")
        trap = "" if short == "KILL" else f"trap 'echo {short} >> /out/trace; exit 0' {short}; "
        container = shell("main", f"{trap}sleep 1000 & wait", lifecycle={"stopSignal": signal}, **mounts)
        yield end(f"signal-{signal}", container, os={"name": "linux"})
    unready = noting(readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1})
    yield end("readiness", unready)
    yield end("host-network", noting(), hostNetwork=True)
    yield end("shared-pid", noting(), shareProcessNamespace=True)


SCENARIOS: Final = (*_images(), *_admission(), *_refusals(), *_deadlines(), *_messages(), *_ends())
