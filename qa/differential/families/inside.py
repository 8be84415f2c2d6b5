"""Scenarios about a container's view: its variables, volumes, privileges, limits and names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from qa.differential.scenario import Manifest, Moment, Scenario, finished, shell, waiting
from tests.runtimes.images import BUSYBOX, HTTPD, NOBODY, USER_1000

_SELF: Final = r"""
echo "uid=$(id -u)"; echo "gid=$(id -g)"; echo "groups=$(id -G)"
grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | sed 's/:[[:space:]]*/=/'
echo "oom score adj=$(cat /proc/self/oom_score_adj)"; echo "umask=$(umask)"; echo "cwd=$(pwd)"
echo "hostname=$(hostname)"; echo "tty=$(test -t 0 && echo yes || echo no)"
echo "limit of files=$(ulimit -n)"
"""
_NAMES: Final = r"""
sed 's/^/hosts: /' /etc/hosts; sed 's/^/resolv.conf: /' /etc/resolv.conf; echo "hostname=$(hostname)"
stat -c '%n=%a %u:%g' /etc/hosts /etc/resolv.conf /etc/hostname
"""
_ENV: Final = r"""env | sort | sed 's/^/env /'"""
_MOUNTS: Final = r"""
awk '{ n = split($4, o, ","); keep = ""; for (i = 1; i <= n; i++)
  if (o[i] ~ /^(ro|rw|nosuid|nodev|noexec|size=.*|mode=.*)$/) keep = keep "," o[i]
  print "mount " $2 "=" $3 keep }' /proc/mounts
"""
_DEVICES: Final = r"""ls -ln /dev | awk 'NR > 1 { print "dev " $NF "=" $1 " " $3 ":" $4 }'"""
_CGROUPS: Final = r"""
cd /sys/fs/cgroup; for f in cpu/cpu.shares cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory/memory.limit_in_bytes \
  memory/memory.soft_limit_in_bytes pids/pids.max cpuset/cpuset.cpus; do echo "cgroup $f=$(cat $f 2>&1)"; done
"""
_ALL: Final = _SELF + _NAMES + _ENV + "\n" + _MOUNTS + _DEVICES + "\n" + _CGROUPS


def _files(*directories: str) -> str:
    """A script that lists the mode, owner and beginning of each file below these directories.

    The directory of a volume's payload is left out, since its name is random.
    """
    return "\n".join(
        f"find {each} | sort | grep -v '/[.][.]2' | while read f; do "
        f"""echo "file $f=$(stat -c '%A %u:%g' "$f") $(test -f "$f" && head -c 200 "$f" | tr '\\n' '|')"; done"""
        for each in directories
    )


def _job(
    family: str,
    name: str,
    script: str,
    *,
    moment: Moment = finished,
    metadata: Manifest | None = None,
    container: Manifest | None = None,
    after: str = "",
    **spec: Any,
) -> Scenario:
    """A pod with one container, which runs the script and ends."""
    main = shell("main", script, **(container or {}))
    return Scenario(
        family, name, {"restartPolicy": "Never", "containers": [main], **spec}, moment, metadata or {}, after=after
    )


def _whole() -> Iterator[Scenario]:
    yield _job("inside", "plain", _ALL)
    yield _job("inside", "image-user", _ALL, container={"image": USER_1000})
    yield _job("inside", "image-nobody", _ALL, container={"image": NOBODY})
    yield _job("inside", "tty", _ALL, container={"tty": True, "stdin": True})
    yield _job("inside", "stdin", _SELF, container={"stdin": True})
    yield _job("inside", "stdin-once", _SELF, container={"stdin": True, "stdinOnce": True})
    yield _job("inside", "working-dir", _SELF, container={"workingDir": "/tmp"})
    yield _job("inside", "working-dir-new", _SELF, container={"workingDir": "/made/here"})
    yield _job("inside", "in-init", "exit 0", initContainers=[shell("first", _ALL)])
    spec: Manifest = {"restartPolicy": "Never", "containers": [{"name": "main", "image": BUSYBOX, "args": ["id"]}]}
    yield Scenario("inside", "args-only", spec, finished)
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": BUSYBOX, "command": ["id"]}]}
    yield Scenario("inside", "command-only", spec, finished)
    expanding: Manifest = {"command": ["echo", "$(A)", "$$(A)", "$(NONE)", "$(B)"], "args": ["$(B)$(B)"]}
    expanding |= {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "<$(A)>"}]}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": BUSYBOX, **expanding}]}
    yield Scenario("inside", "expanded-command", spec, finished)


def _field(path: str) -> Manifest:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _resource(resource: str, divisor: str = "0") -> Manifest:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}}


def _variables() -> Iterator[Scenario]:
    about = {"labels": {"app": "a", "odd": ""}, "annotations": {"note": 'with "quotes" and\nlines'}}
    for path in (
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels['app']",
        "metadata.labels['none']",
        "metadata.annotations['note']",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ):
        name = path.replace("['", "-").replace("']", "").replace(".", "-")
        yield _job("env", name, _ENV, metadata=about, container={"env": [_field(path)]})
    limited = {
        "resources": {
            "requests": {"cpu": "25m", "memory": "16Mi", "ephemeral-storage": "1Mi"},
            "limits": {"cpu": "1500m", "memory": "64Mi", "ephemeral-storage": "50Mi"},
        }
    }
    for resource, divisor in (
        ("limits.cpu", "0"),
        ("limits.cpu", "1m"),
        ("limits.memory", "0"),
        ("limits.memory", "1Mi"),
        ("requests.cpu", "0"),
        ("requests.cpu", "1m"),
        ("requests.memory", "1Ki"),
        ("requests.ephemeral-storage", "0"),
        ("limits.ephemeral-storage", "1Mi"),
    ):
        name = f"{resource}-{divisor}".replace(".", "-")
        yield _job("env", name, _ENV, container={"env": [_resource(resource, divisor)], **limited})
    for resource in ("requests.cpu", "requests.memory"):
        yield _job("env", f"unset-{resource}".replace(".", "-"), _ENV, container={"env": [_resource(resource)]})
    for name, env in (
        ("literal", [{"name": "X", "value": "a b  c"}]),
        ("empty", [{"name": "X", "value": ""}, {"name": "Y"}]),
        ("reference", [{"name": "X", "value": "1"}, {"name": "Y", "value": "$(X)$(X)"}]),
        ("forward", [{"name": "Y", "value": "$(X)"}, {"name": "X", "value": "1"}]),
        ("escaped", [{"name": "X", "value": "$$(Y) $$$$ $"}]),
        ("unclosed", [{"name": "X", "value": "$(Y $(Z"}]),
        ("twice", [{"name": "X", "value": "1"}, {"name": "X", "value": "2$(X)"}]),
        ("path", [{"name": "PATH", "value": "/bin:/own"}]),
        ("home", [{"name": "HOME", "value": "/tmp"}]),
        ("hostname", [{"name": "HOSTNAME", "value": "mine"}]),
        ("odd-name", [{"name": "a.b-c", "value": "1"}]),
        ("multiline", [{"name": "X", "value": "a\nb"}]),
        ("unicode", [{"name": "X", "value": "grüße ☃"}]),
        ("service-host", [{"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.1"}]),
    ):
        yield _job("env", name, _ENV, container={"env": env})
    writes = shell("first", "echo \"X='from a file'\" > /f/env", volumeMounts=[{"name": "f", "mountPath": "/f"}])
    reads = {"name": "X", "valueFrom": {"fileKeyRef": {"volumeName": "f", "path": "env", "key": "X"}}}
    volumes = [{"name": "f", "emptyDir": {}}]
    yield _job("env", "file", _ENV, container={"env": [reads]}, initContainers=[writes], volumes=volumes)
    absent = {"name": "X", "valueFrom": {"fileKeyRef": {"volumeName": "f", "path": "env", "key": "Z"}}}
    yield _job(
        "env",
        "file-absent",
        _ENV,
        container={"env": [absent]},
        initContainers=[writes],
        volumes=volumes,
        moment=waiting("CreateContainerConfigError"),
    )


def _mounted(
    family: str,
    name: str,
    volume: Manifest,
    *,
    mount: Manifest | None = None,
    script: str = "",
    metadata: Manifest | None = None,
    moment: Moment = finished,
    container: Manifest | None = None,
    **spec: Any,
) -> Scenario:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v", **(mount or {})}]}
    said = _files("/v") + "\n" + _MOUNTS + "\n" + script
    return _job(
        family,
        name,
        said,
        container=mounts | (container or {}),
        metadata=metadata,
        moment=moment,
        volumes=[{"name": "v", **volume}],
        **spec,
    )


def _volumes() -> Iterator[Scenario]:
    group: dict[str, Any] = {"securityContext": {"fsGroup": 2000}}
    user: dict[str, Any] = {"securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000}}
    for name, empty in (
        ("disk", {}),
        ("memory", {"medium": "Memory"}),
        ("sized", {"sizeLimit": "1Mi"}),
        ("memory-sized", {"medium": "Memory", "sizeLimit": "1Mi"}),
    ):
        yield _mounted("volume", f"emptydir-{name}", {"emptyDir": empty})
        yield _mounted("volume", f"emptydir-{name}-group", {"emptyDir": empty}, **group)
        yield _mounted(
            "volume", f"emptydir-{name}-user", {"emptyDir": empty}, script="touch /v/mine; ls -ln /v", **user
        )
    limited = {"resources": {"limits": {"memory": "32Mi"}}}
    yield _mounted("volume", "emptydir-memory-limited", {"emptyDir": {"medium": "Memory"}}, container=limited)
    yield _mounted("volume", "emptydir-readonly", {"emptyDir": {}}, mount={"readOnly": True}, script="touch /v/x 2>&1")
    yield _mounted("volume", "emptydir-subpath", {"emptyDir": {}}, mount={"subPath": "a/b"})
    expr = {"subPathExpr": "$(X)/end"}
    yield _mounted(
        "volume", "emptydir-subpathexpr", {"emptyDir": {}}, mount=expr, container={"env": [_field("metadata.name")]}
    )
    for policy in ("Always", "OnRootMismatch"):
        spec: dict[str, Any] = {"securityContext": {"fsGroup": 2000, "fsGroupChangePolicy": policy}}
        yield _mounted("volume", f"group-{policy}", {"emptyDir": {}}, **spec)
    for propagation in ("None", "HostToContainer"):
        yield _mounted(
            "volume", f"propagation-{propagation}", {"emptyDir": {}}, mount={"mountPropagation": propagation}
        )
    yield _mounted(
        "volume",
        "propagation-bidirectional",
        {"emptyDir": {}},
        mount={"mountPropagation": "Bidirectional"},
        container={"securityContext": {"privileged": True}},
    )
    for recursive in ("IfPossible", "Disabled"):
        yield _mounted(
            "volume",
            f"recursive-{recursive}",
            {"emptyDir": {}},
            mount={"readOnly": True, "recursiveReadOnly": recursive},
        )
    yield _mounted(
        "volume",
        "recursive-Enabled",
        {"emptyDir": {}},
        mount={"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "None"},
    )
    for kind, path, fine in (
        ("unset", "@dir@", True),
        ("Directory", "@dir@", True),
        ("DirectoryOrCreate", "@dir@/new", True),
        ("FileOrCreate", "@dir@/file", True),
        ("File", "/etc/hostname", True),
        ("CharDevice", "/dev/null", True),
        ("Socket", "@dir@", False),
        ("BlockDevice", "/dev/null", False),
        ("File-absent", "@dir@/none", False),
        ("Directory-absent", "@dir@/none", False),
    ):
        host: Manifest = {"path": path}
        if kind != "unset":
            host["type"] = kind.partition("-")[0]
        moment = finished if fine else waiting("ContainerCreating")
        yield _mounted(
            "volume", f"hostpath-{kind}", {"hostPath": host}, moment=moment, after="" if fine else "FailedMount"
        )
    yield _mounted("volume", "hostpath-group", {"hostPath": {"path": "@dir@"}}, **group)
    yield _mounted(
        "volume",
        "hostpath-readonly",
        {"hostPath": {"path": "@dir@"}},
        mount={"readOnly": True},
        script="touch /v/x 2>&1",
    )
    yield _mounted("volume", "hostpath-subpath", {"hostPath": {"path": "@dir@"}}, mount={"subPath": "sub"})
    about = {"labels": {"app": "a", "tier": "b"}, "annotations": {"note": "n"}}
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "deep/er/name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o400},
    ]
    cpu = [
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}},
        {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "requests.memory"}},
    ]
    limits = {"resources": {"limits": {"cpu": "50m", "memory": "32Mi"}, "requests": {"memory": "16Mi"}}}
    for name, source in (
        ("plain", {"items": items}),
        ("mode", {"items": items, "defaultMode": 0o440}),
        ("resources", {"items": cpu}),
    ):
        for kind in ("downwardAPI", "projected"):
            volume = (
                {kind: source}
                if kind == "downwardAPI"
                else {
                    "projected": {
                        "sources": [{"downwardAPI": {"items": source["items"]}}],
                        **({"defaultMode": source["defaultMode"]} if "defaultMode" in source else {}),
                    }
                }
            )
            yield _mounted("volume", f"{kind}-{name}", volume, metadata=about, container=limits)
            yield _mounted("volume", f"{kind}-{name}-user", volume, metadata=about, container=limits, **user)
            yield _mounted("volume", f"{kind}-{name}-group", volume, metadata=about, container=limits, **group)
    downward = {"downwardAPI": {"items": items}}
    yield _mounted("volume", "downwardapi-subpath", downward, mount={"subPath": "labels"}, metadata=about)
    yield _mounted("volume", "image", {"image": {"reference": HTTPD}}, script="ls /v/var/www")
    yield _mounted("volume", "image-subpath", {"image": {"reference": HTTPD}}, mount={"subPath": "var/www"})
    yield _mounted(
        "volume",
        "image-absent",
        {"image": {"reference": "docker.io/none/none:1", "pullPolicy": "Never"}},
        moment=waiting("ErrImageNeverPull"),
    )
    nested = {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v/inner"}]}
    for name, outer in (("emptydir", {"emptyDir": {}}), ("downward", downward)):
        yield _job(
            "volume",
            f"nested-in-{name}",
            _files("/v"),
            container=nested,
            metadata=about,
            volumes=[{"name": "v", **outer}, {"name": "w", "emptyDir": {}}],
        )
    yield _job("volume", "unused", _MOUNTS, volumes=[{"name": "v", "emptyDir": {}}])
    device = {"volumeMounts": [{"name": "v", "mountPath": "/etc/hosts", "subPath": "hosts"}]}
    yield _job(
        "volume",
        "over-etc-hosts",
        "cat /etc/hosts; " + _MOUNTS,
        container=device,
        volumes=[{"name": "v", "emptyDir": {}}],
    )


def _security() -> Iterator[Scenario]:
    for name, context in (
        ("user", {"runAsUser": 1234}),
        ("user-group", {"runAsUser": 1000, "runAsGroup": 3000}),
        ("privileged", {"privileged": True}),
        ("no-escalation", {"allowPrivilegeEscalation": False}),
        ("read-only-root", {"readOnlyRootFilesystem": True}),
        ("drop-all", {"capabilities": {"drop": ["ALL"]}}),
        ("add", {"capabilities": {"add": ["NET_ADMIN", "SYS_TIME"]}}),
        ("drop-one", {"capabilities": {"drop": ["CHOWN"]}}),
        ("add-all", {"capabilities": {"add": ["ALL"]}}),
        ("drop-all-add", {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        ("cap-prefix", {"capabilities": {"add": ["CAP_NET_ADMIN"]}}),
        ("seccomp-default", {"seccompProfile": {"type": "RuntimeDefault"}}),
        ("seccomp-unconfined", {"seccompProfile": {"type": "Unconfined"}}),
        ("masked", {"procMount": "Default"}),
        ("non-root-user", {"runAsNonRoot": True, "runAsUser": 1000}),
        ("user-drop-all", {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}}),
        ("user-add", {"runAsUser": 1000, "capabilities": {"add": ["NET_ADMIN"]}}),
    ):
        yield _job("security", name, _SELF + _MOUNTS + _DEVICES, container={"securityContext": context})
    for name, pod, own in (
        ("pod-user", {"runAsUser": 1000}, {}),
        ("pod-user-group", {"runAsUser": 1000, "runAsGroup": 3000}, {}),
        ("pod-groups", {"supplementalGroups": [4000, 5000]}, {}),
        ("pod-fsgroup", {"fsGroup": 2000}, {}),
        ("groups-merge", {"supplementalGroups": [4000], "supplementalGroupsPolicy": "Merge", "runAsUser": 1000}, {}),
        ("groups-strict", {"supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict", "runAsUser": 1000}, {}),
        ("own-over-pod", {"runAsUser": 1000, "runAsGroup": 3000}, {"runAsUser": 1001}),
        ("pod-seccomp", {"seccompProfile": {"type": "RuntimeDefault"}}, {}),
        ("seccomp-own", {"seccompProfile": {"type": "RuntimeDefault"}}, {"seccompProfile": {"type": "Unconfined"}}),
        ("pod-selinux", {"seLinuxOptions": {"level": "s0:c1,c2"}}, {}),
        ("sysctl-safe", {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}, {}),
        ("sysctl-ports", {"sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "32000 40000"}]}, {}),
    ):
        script = _SELF + "sysctl kernel.shm_rmid_forced net.ipv4.ip_local_port_range"
        yield _job("security", name, script, container={"securityContext": own}, securityContext=pod)
    refused = waiting("CreateContainerConfigError")
    yield _job(
        "security", "non-root-refused", "id", container={"securityContext": {"runAsNonRoot": True}}, moment=refused
    )
    yield _job(
        "security",
        "non-root-name",
        "id",
        moment=refused,
        container={"image": NOBODY, "securityContext": {"runAsNonRoot": True}},
    )
    yield _job(
        "security", "non-root-image", _SELF, container={"image": USER_1000, "securityContext": {"runAsNonRoot": True}}
    )
    yield _job(
        "security",
        "non-root-zero",
        "id",
        moment=refused,
        container={"securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
    )
    absent = {"seccompProfile": {"type": "Localhost", "localhostProfile": "none.json"}}
    yield _job(
        "security",
        "seccomp-absent",
        "id",
        container={"securityContext": absent},
        moment=waiting("CreateContainerError"),
    )


def _resources() -> Iterator[Scenario]:
    script = _SELF + _CGROUPS
    for name, requests, limits in (
        ("none", {}, {}),
        ("cpu", {"cpu": "100m"}, {}),
        ("cpu-both", {"cpu": "100m"}, {"cpu": "200m"}),
        ("cpu-limit", {}, {"cpu": "110m"}),
        ("memory", {"memory": "32Mi"}, {}),
        ("memory-both", {"memory": "16Mi"}, {"memory": "32Mi"}),
        ("memory-limit", {}, {"memory": "32Mi"}),
        ("guaranteed", {"cpu": "100m", "memory": "32Mi"}, {"cpu": "100m", "memory": "32Mi"}),
        ("guaranteed-implied", {}, {"cpu": "100m", "memory": "32Mi"}),
        ("burstable", {"cpu": "10m", "memory": "16Mi"}, {"cpu": "1", "memory": "64Mi"}),
        ("tiny-cpu", {"cpu": "1m"}, {"cpu": "1m"}),
        ("odd-cpu", {"cpu": "33m"}, {"cpu": "1234m"}),
        ("whole-cpu", {"cpu": "200m"}, {"cpu": "2"}),
        ("odd-memory", {"memory": "20000001"}, {"memory": "30000001"}),
        ("zero-requests", {"cpu": "0", "memory": "0"}, {}),
        ("storage", {"ephemeral-storage": "1Mi"}, {"ephemeral-storage": "50Mi"}),
    ):
        yield _job("resources", name, script, container={"resources": {"requests": requests, "limits": limits}})
    two = [shell("main", script, resources={"limits": {"cpu": "100m", "memory": "32Mi"}}), shell("other", script)]
    yield Scenario("resources", "one-of-two", {"restartPolicy": "Never", "containers": two}, finished)
    for name, pod in (
        ("pod-limits", {"limits": {"cpu": "120m", "memory": "64Mi"}}),
        ("pod-both", {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}),
        ("pod-requests", {"requests": {"cpu": "100m", "memory": "32Mi"}}),
    ):
        yield _job("resources", name, script, resources=pod)
    own = {"resources": {"limits": {"cpu": "100m", "memory": "32Mi"}}}
    yield _job(
        "resources", "pod-and-own", script, container=own, resources={"limits": {"cpu": "120m", "memory": "64Mi"}}
    )
    yield _job("resources", "overhead", script, overhead={"cpu": "50m", "memory": "10Mi"})
    eats = "x=a; while :; do x=$x$x; done"
    yield _job("resources", "oom", eats, container={"resources": {"limits": {"memory": "16Mi"}}})
    side = shell(
        "side",
        "trap 'exit 0' TERM; " + script + "\nsleep 1000 & wait",
        restartPolicy="Always",
        resources={"requests": {"cpu": "50m"}},
    )
    yield _job("resources", "sidecar", script, initContainers=[side])
    init = shell("first", script, resources={"limits": {"cpu": "300m", "memory": "48Mi"}})
    yield _job(
        "resources",
        "init-larger",
        script,
        initContainers=[init],
        container={"resources": {"requests": {"cpu": "100m"}}},
    )
    for priority in ("system-node-critical", "system-cluster-critical"):
        spec: Manifest = {"priorityClassName": priority, "priority": 2000001000}
        yield _job("resources", priority, script, **spec)


def _names() -> Iterator[Scenario]:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["a.test", "b.test"]}, {"ip": "2001:db8::1", "hostnames": ["c.test"]}]
    cases: tuple[tuple[str, Manifest], ...] = (
        ("plain", {}),
        ("hostname", {"hostname": "web-1"}),
        ("subdomain", {"subdomain": "sub"}),
        ("hostname-subdomain", {"hostname": "web-1", "subdomain": "sub"}),
        ("fqdn", {"hostname": "web-1", "subdomain": "sub", "setHostnameAsFQDN": True}),
        ("hostname-override", {"hostnameOverride": "given.test"}),
        ("aliases", {"hostAliases": aliases}),
        ("aliases-host", {"hostAliases": aliases, "hostNetwork": True}),
        ("dns-default", {"dnsPolicy": "Default"}),
        ("dns-none", {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]}}),
        (
            "dns-config",
            {
                "dnsConfig": {
                    "nameservers": ["192.0.2.53"],
                    "searches": ["one.test", "two.test"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
                }
            },
        ),
        (
            "dns-none-full",
            {
                "dnsPolicy": "None",
                "dnsConfig": {
                    "nameservers": ["192.0.2.53", "192.0.2.54"],
                    "searches": ["one.test"],
                    "options": [{"name": "ndots", "value": "5"}],
                },
            },
        ),
        ("dns-host", {"hostNetwork": True}),
        ("dns-first-host", {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}),
        ("dns-many", {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]}}),
        ("links", {"enableServiceLinks": False}),
        ("host-network", {"hostNetwork": True}),
        ("host-pid", {"hostPID": True}),
        ("host-ipc", {"hostIPC": True}),
        ("shared-pid", {"shareProcessNamespace": True}),
        ("all-host", {"hostNetwork": True, "hostPID": True, "hostIPC": True}),
    )
    for name, spec in cases:
        yield _job("names", name, _NAMES + _SELF + _ENV, **spec)
    long = "a" * 40
    yield _job("names", "long-hostname", _NAMES, hostname=long)
    readable = {"securityContext": {"runAsUser": 1000}}
    yield _job("names", "hosts-as-user", _NAMES, container=readable)
    yield _job("names", "read-only-root", _NAMES, container={"securityContext": {"readOnlyRootFilesystem": True}})


SCENARIOS: Final = (*_whole(), *_variables(), *_volumes(), *_security(), *_resources(), *_names())
