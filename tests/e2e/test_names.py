"""A pod's own names, names that it can resolve, and resources that it sees of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel import mounting
from tests.e2e.engine import Pods, shell


async def test_the_hosts_file_has_the_pods_names_and_its_aliases(pods: Pods) -> None:
    pod = await pods.apply(
        "named",
        shell("main"),
        subdomain="db",
        hostname="first",
        hostAliases=[
            {"ip": "10.1.2.3", "hostnames": ["foo.remote", "bar.remote"]},
            {"ip": "10.1.2.4", "hostnames": ["other.remote"]},
        ],
    )
    seen = await pod.running()
    lines = (await pod.exec("main", "cat /etc/hosts")).splitlines()
    address = seen["status"]["podIP"]
    assert lines[0] == "# Kubernetes-managed hosts file."
    assert f"{address}\tfirst.db.default.svc\tfirst" in lines
    assert lines[-3:] == [
        "# Entries added by HostAliases.",
        "10.1.2.3\tfoo.remote\tbar.remote",
        "10.1.2.4\tother.remote",
    ]
    assert await pod.exec("main", "hostname") == "first"
    await pod.delete()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"subdomain": "db", "hostname": "first", "setHostnameAsFQDN": True}, "first.db.default.svc"),
        ({"hostnameOverride": "somebody.else"}, "somebody.else"),
        ({"hostname": "first", "subdomain": "db"}, "first"),
    ],
    ids=["setHostnameAsFQDN", "hostnameOverride", "subdomain alone"],
)
async def test_the_kernel_knows_the_pods_name(pods: Pods, spec: dict[str, Any], expected: str) -> None:
    pod = await pods.apply("kernel", shell("main"), **spec)
    await pod.running()
    assert await pod.exec("main", "cat /proc/sys/kernel/hostname") == expected
    await pod.delete()


async def test_the_resolver_is_that_of_the_pod_spec(pods: Pods) -> None:
    own = {
        "nameservers": ["192.0.2.1"],
        "searches": ["ns1.svc.example", "my.dns.search"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    pod = await pods.apply("resolver", shell("main"), dnsPolicy="None", dnsConfig=own)
    await pod.running()
    lines = (await pod.exec("main", "cat /etc/resolv.conf")).splitlines()
    assert lines == ["search ns1.svc.example my.dns.search", "nameserver 192.0.2.1", "options ndots:2 edns0"]
    await pod.delete()


async def test_a_pods_dns_config_extends_the_hosts(pods: Pods) -> None:
    own = {"searches": ["added.example"], "options": [{"name": "timeout", "value": "7"}]}
    pod = await pods.apply("resolver", shell("main"), dnsPolicy="Default", dnsConfig=own)
    await pod.running()
    lines = (await pod.exec("main", "cat /etc/resolv.conf")).splitlines()
    host = await asyncio.to_thread(Path("/etc/resolv.conf").read_text)
    servers = [line.split()[1] for line in host.splitlines() if line.startswith("nameserver")]
    assert [line.split()[1] for line in lines if line.startswith("nameserver")] == servers[:3]
    assert any(line.startswith("search") and line.endswith("added.example") for line in lines)
    assert any(line.startswith("options") and "timeout:7" in line for line in lines)
    await pod.delete()


async def test_a_container_gets_its_resources_by_the_downward_api(pods: Pods) -> None:
    def told(resource: str, divisor: str = "", **more: str) -> dict[str, Any]:
        given = {"resource": resource, **({"divisor": divisor} if divisor else {}), **more}
        return {"valueFrom": {"resourceFieldRef": given}}

    env = [
        {"name": "CPU", **told("requests.cpu", "1m")},
        {"name": "WHOLE_CPUS", **told("requests.cpu")},
        {"name": "BYTES", **told("requests.memory")},
        {"name": "MEBIBYTES", **told("requests.memory", "1Mi")},
        {"name": "OF_ANOTHER", **told("requests.cpu", "1m", containerName="other")},
        {"name": "OF_THE_NODE", **told("limits.cpu")},
    ]
    pod = await pods.apply(
        "resources",
        shell("main", env=env, resources={"requests": {"cpu": "130m", "memory": "20Mi"}}),
        shell("other", resources={"requests": {"cpu": "10m"}}),
    )
    await pod.running()
    values = await pod.exec(
        "main", "echo $CPU $WHOLE_CPUS $BYTES $MEBIBYTES $OF_ANOTHER; [ $OF_THE_NODE -ge 1 ] && echo some"
    )
    assert values.splitlines() == ["130 1 20971520 20 10", "some"]
    await pod.delete()


async def test_a_later_mount_on_the_node_propagates_to_a_container_that_asked_for_it(
    pods: Pods, tmp_path: Path
) -> None:
    """Row 121: one made in a container too, in a volume of the pod's."""
    shared = tmp_path / "shared"
    (shared / "later").mkdir(parents=True)
    await _run("mount", "--bind", str(shared), str(shared))
    await _run("mount", "--make-shared", str(shared))
    try:
        mount, both = {"name": "host", "mountPath": "/host"}, {"name": "both", "mountPath": "/both"}
        mounts = "mount -t tmpfs in /both/in && echo from a container > /both/in/word"
        pod = await pods.apply(
            "propagation",
            shell(
                "mounts",
                f"mkdir /both/in; trap 'umount /both/in; exit 0' TERM; {mounts}; sleep 1000 & wait",
                securityContext={"privileged": True},
                volumeMounts=[{**both, "mountPropagation": "Bidirectional"}],
            ),
            shell("follows", volumeMounts=[{**each, "mountPropagation": "HostToContainer"} for each in (mount, both)]),
            shell("private", volumeMounts=[mount, both]),
            volumes=[{"name": "host", "hostPath": {"path": str(shared)}}, {"name": "both", "emptyDir": {}}],
        )
        await pod.running()
        await _run("mount", "-t", "tmpfs", "later", str(shared / "later"))
        (shared / "later" / "word").write_text("mounted since\n")
        assert await pod.exec("follows", "cat /host/later/word") == "mounted since"
        assert "No such file" in await pod.exec("private", "cat /host/later/word")
        assert await pod.exec("follows", "cat /both/in/word") == "from a container"
        assert mounting.mounts_below(pod.node.worker.state_dir.resolve())
        await pod.delete()
        assert not mounting.mounts_below(pod.node.worker.state_dir.resolve())
    finally:
        await _run("umount", "-R", "-l", str(shared))


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
