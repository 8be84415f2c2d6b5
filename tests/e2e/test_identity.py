"""Users, capabilities and namespaces of a pod's containers, seen from inside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.e2e.engine import EngineNode, LivePod, Pods, shell, status_of
from tests.runtimes.bare import BareCri
from tests.runtimes.images import BUSYBOX, NOBODY, USER_1000

pytestmark = pytest.mark.every_runtime("users, capabilities and namespaces are set by the runtime", one_containerd=True)

COMMAND = Path("/proc/self/comm").read_text().strip()
HERE = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "ipc", "pid", "uts", "mnt", "user")}
"""This process's namespaces, which are the node's."""
HAS_APP_ARMOR = Path("/sys/module/apparmor").exists()
DEFAULT_CAPABILITIES = 0xA80425FB
"""The fourteen capabilities that containerd leaves to a container's root, CHOWN to SETFCAP."""
NET_ADMIN = 1 << 12
NET_RAW = 1 << 13
NO_MKDIR = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
}
"""A seccomp profile under which no directory can be made."""


def secured(name: str, *, image: str = BUSYBOX, **context: Any) -> dict[str, Any]:
    return {**shell(name), "image": image, "securityContext": context}


async def process_status(pod: LivePod, name: str) -> dict[str, str]:
    """The kernel's status of a shell in a container."""
    lines = (await pod.exec(name, "cat /proc/self/status")).splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


async def waiting(pod: LivePod, name: str, reason: str) -> str:
    """Wait until a container waits with this reason; returns the message."""
    seen = await pod.until(lambda pod: status_of(pod, name).get("state", {}).get("waiting", {}).get("reason") == reason)
    return str(status_of(seen, name)["state"]["waiting"]["message"])


async def test_each_container_has_the_privileges_of_its_security_context(pods: Pods, engine: EngineNode) -> None:
    profiles = engine.worker.state_dir / "seccomp" / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    (profiles / "no-mkdir.json").write_text(json.dumps(NO_MKDIR))
    pod = await pods.apply(
        "powers",
        secured("plain"),
        secured("capable", capabilities={"add": ["NET_ADMIN"], "drop": ["ALL"]}),
        secured("by-its-other-name", capabilities={"add": ["CAP_NET_ADMIN"], "drop": ["NET_RAW"]}),
        secured("locked", allowPrivilegeEscalation=False, readOnlyRootFilesystem=True),
        secured("privileged", privileged=True),
        secured("confined", seccompProfile={"type": "RuntimeDefault"}),
        secured("unconfined", seccompProfile={"type": "Unconfined"}),
        secured("local", seccompProfile={"type": "Localhost", "localhostProfile": "profiles/no-mkdir.json"}),
        secured("missing", seccompProfile={"type": "Localhost", "localhostProfile": "profiles/none.json"}),
        secured("somebody", runAsUser=1234, runAsGroup=2345),
        secured("labelled", seLinuxOptions={"type": "spc_t", "level": "s0:c1,c2"}),
        securityContext={"seLinuxOptions": {"role": "system_r"}},
    )
    message = await waiting(pod, "missing", "CreateContainerError")
    assert f"{profiles}/none.json" in message and "no such file or directory" in message
    await pod.until(lambda seen: sum("running" in each["state"] for each in seen["status"]["containerStatuses"]) == 10)

    seen = {name: await process_status(pod, name) for name in ("plain", "capable", "by-its-other-name", "locked")}
    seen |= {name: await process_status(pod, name) for name in ("privileged", "confined", "unconfined", "local")}
    seen |= {"somebody": await process_status(pod, "somebody")}
    capabilities = {name: int(status["CapEff"], 16) for name, status in seen.items()}
    everything = int((await process_status(pod, "privileged"))["CapBnd"], 16)
    assert capabilities == {
        "plain": DEFAULT_CAPABILITIES,
        "capable": NET_ADMIN,
        "by-its-other-name": (DEFAULT_CAPABILITIES | NET_ADMIN) & ~NET_RAW,
        "locked": DEFAULT_CAPABILITIES,
        "privileged": everything,
        "confined": DEFAULT_CAPABILITIES,
        "unconfined": DEFAULT_CAPABILITIES,
        "local": DEFAULT_CAPABILITIES,
        "somebody": 0,
    }
    assert everything & ~DEFAULT_CAPABILITIES & NET_ADMIN
    assert {name for name, status in seen.items() if status["NoNewPrivs"] == "1"} == {"locked"}
    # 0 = no filter, 2 = a filter; "plain" has none, since the default filter was not requested.
    assert {name for name, status in seen.items() if status["Seccomp"] == "2"} == {"confined", "local"}

    shown = {
        ("plain", "touch /x && echo made"): "made",
        ("locked", "touch /x"): "touch: /x: Read-only file system",
        ("plain", "echo 1 > /proc/sys/net/ipv4/ip_forward"): "sh: can't create /proc/sys/net/ipv4/ip_forward: "
        "Read-only file system",
        ("plain", "ls -A /sys/firmware"): "",
        ("privileged", "cat /proc/sys/net/ipv4/ip_forward > /proc/sys/net/ipv4/ip_forward && echo set"): "set",
        ("local", "mkdir /made"): "mkdir: can't create directory '/made': Operation not permitted",
        ("plain", "mkdir /made && echo made"): "made",
        ("somebody", "id -u; id -g; id -G"): "1234\n2345\n2345",
    }
    assert {key: await pod.exec(*key) for key in shown} == shown
    labels = {name: await selinux_options(pod, name) for name in ("plain", "labelled")}
    assert labels == {"plain": {"role": "system_r"}, "labelled": {"type": "spc_t", "level": "s0:c1,c2"}}


async def selinux_options(pod: LivePod, name: str) -> dict[str, str]:
    """The SELinux options in the request to the runtime; without SELinux, nothing else can be checked."""
    instance = await pod.instance(name)
    async with BareCri(pod.node.runtime.endpoint) as bare:
        request = cri.ContainerStatusRequest(container_id=instance.id, verbose=True)
        answer = await bare.runtime.ContainerStatus(request)
    options = json.loads(answer.info["info"])["config"]["linux"]["security_context"].get("selinux_options") or {}
    return {key: value for key, value in options.items() if value}


async def test_a_run_as_non_root_violation_is_the_waiting_message(pods: Pods) -> None:
    pod = await pods.apply(
        "non-root",
        secured("image-of-root"),
        secured("image-of-a-name", image=NOBODY),
        secured("root-by-choice", runAsUser=0),
        secured("image-of-a-number", image=USER_1000),
        secured("number-by-choice", image=NOBODY, runAsUser=7),
        secured("excepted", runAsNonRoot=False),
        securityContext={"runAsNonRoot": True},
    )
    uid = (await pod.get())["metadata"]["uid"]
    words = {
        "image-of-root": "container has runAsNonRoot and image will run as root",
        "image-of-a-name": "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is "
        "non-root",
        "root-by-choice": "container's runAsUser breaks non-root policy",
    }
    for name, sentence in words.items():
        where = f'(pod: "{pod.name}_default({uid})", container: {name})'
        assert await waiting(pod, name, "CreateContainerConfigError") == f"{sentence} {where}"
    await pod.until(lambda seen: sum("running" in each["state"] for each in seen["status"]["containerStatuses"]) == 3)
    users = {name: await pod.exec(name, "id -u") for name in ("image-of-a-number", "number-by-choice", "excepted")}
    assert users == {"image-of-a-number": "1000", "number-by-choice": "7", "excepted": "0"}


async def test_with_policy_strict_a_pod_has_only_its_own_groups(pods: Pods, engine: EngineNode) -> None:
    groups = {"fsGroup": 3456, "supplementalGroups": [4567]}
    main = {**shell("main"), "image": USER_1000}
    pod = await pods.apply("strict", main, securityContext={**groups, "supplementalGroupsPolicy": "Strict"})
    if (await engine.cri.status()).supplemental_groups_policy:
        await pod.running()
        assert await pod.exec("main", "id -G") == "1000 3456 4567"  # without 2000, which the image would add
        return
    final = await pod.phase("Failed")
    assert final["status"]["reason"] == "SupplementalGroupsPolicyNotSupported"
    assert final["status"]["message"] == (
        "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node"
    )


SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "81", "kernel.shm_rmid_forced": "1"}


async def test_a_pod_has_its_sysctls(pods: Pods) -> None:
    sysctls = [{"name": name, "value": value} for name, value in SYSCTLS.items()]
    pod = await pods.apply("sysctls", shell("main"), securityContext={"sysctls": sysctls})
    await pod.running()
    seen = {name: await pod.exec("main", f"cat /proc/sys/{name.replace('.', '/')}") for name in SYSCTLS}
    assert seen == SYSCTLS


async def test_a_pod_shares_the_requested_namespaces(pods: Pods, engine: EngineNode) -> None:
    own = await pods.apply("own", shell("main"), shell("side"))
    shared = await pods.apply("shared", shell("main"), shell("side"), shareProcessNamespace=True)
    nodes = await pods.apply("nodes", shell("main"), hostNetwork=True, hostPID=True, hostIPC=True)
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for pod, names in ((own, ("main", "side")), (shared, ("main", "side")), (nodes, ("main",))):
        await pod.running()
        for name in names:
            links = (
                await pod.exec(name, f"for kind in {' '.join(HERE)}; do readlink /proc/self/ns/$kind; done")
            ).split()
            seen[pod.name, name] = dict(zip(HERE, links, strict=True))

    def same(first: dict[str, str], second: dict[str, str]) -> set[str]:
        return {kind for kind in HERE if first[kind] == second[kind]}

    assert same(seen[own.name, "main"], seen[own.name, "side"]) == {"net", "ipc", "uts", "user"}
    assert same(seen[own.name, "main"], HERE) == {"user"}
    assert same(seen[shared.name, "main"], seen[shared.name, "side"]) == {"net", "ipc", "uts", "user", "pid"}
    assert await shared.exec("main", "cat /proc/1/comm") == "pause"
    # CRI-O makes a UTS namespace for each pod, and tells it the node's name.
    uts = {"uts"} if engine.runtime.name != "crio" else set()
    assert same(seen[nodes.name, "main"], HERE) == {"net", "ipc", "pid", "user"} | uts
    assert await nodes.exec("main", "hostname") == os.uname().nodename
    assert await nodes.exec("main", f"cat /proc/{os.getpid()}/comm") == COMMAND


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
        (
            {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]}},
            "SysctlForbidden",
            'forbidden sysctl: "net.core.somaxconn" not allowlisted',
        ),
    ],
    ids=["AppArmor", "an unsafe sysctl"],
)
async def test_a_pod_is_rejected_for_limits_that_the_node_cannot_enforce(
    pods: Pods, spec: dict[str, Any], reason: str, message: str
) -> None:
    if reason == "AppArmor" and HAS_APP_ARMOR:
        pytest.skip("this machine has AppArmor")
    pod = await pods.apply("turned-away", shell("main"), **spec)
    final = await pod.phase("Failed")
    assert (final["status"]["reason"], final["status"]["message"]) == (reason, f"Pod was rejected: {message}")
    assert (await pod.event(reason))["message"] == message
    assert await pod.sandboxes() == []


async def test_a_pod_with_a_user_namespace_is_refused_by_field(pods: Pods) -> None:
    bare = secured("main", procMount="Unmasked")  # only such a pod may request this
    pod = await pods.apply("users", bare, hostUsers=False)
    refused = await pod.event("UnsupportedByRuntime")
    assert refused["message"].startswith("spec.hostUsers: ")
    assert (await pod.get())["status"]["phase"] == "Pending"
    assert await pod.sandboxes() == []
