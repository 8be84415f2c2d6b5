"""Configurations that are run or refused: as root, as another user, and without namespaces."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime.host import Host
from syncpod.runtime.images.inventory import Image, parse_reference
from syncpod.runtime.port import User
from syncpod.runtime.processes import process_spec
from syncpod.runtime.refusals import Refusal

ROOT = Host(isolation="namespaces", uid=0, gid=0, groups=(0,), search_path="/usr/bin:/bin", lowest_oom_score_adj=-1000)
ORDINARY = replace(ROOT, uid=54321, gid=54321, groups=(54321, 54322), lowest_oom_score_adj=100)
PLAIN = replace(ORDINARY, isolation="plain")
SIMULATED = replace(ORDINARY, isolation="simulated")

SANDBOXES: dict[str, tuple[Callable[[cri.PodSandboxConfig], Any], str]] = {
    "host ports": (
        lambda it: it.port_mappings.add(container_port=80, host_port=8080),
        "config.port_mappings[0].host_port: host ports need spec.hostNetwork: true",
    ),
    "sysctls": (lambda it: it.linux.sysctls.update({"a.b": "1"}), "config.linux.sysctls: cannot be set for one pod"),
    "users of its own": (
        lambda it: setattr(it.linux.security_context.namespace_options.userns_options, "mode", cri.POD),
        "config.linux.security_context.namespace_options.userns_options: pods share the machine's users",
    ),
    "a seccomp profile": (
        lambda it: setattr(it.linux.security_context.seccomp, "profile_type", cri.SecurityProfile.Localhost),
        "config.linux.security_context.seccomp: seccomp profiles are not applied here",
    ),
    "an SELinux label": (
        lambda it: setattr(it.linux.security_context.selinux_options, "level", "s0"),
        "config.linux.security_context.selinux_options: SELinux labels are not applied here",
    ),
}

CONTAINERS: dict[str, tuple[Callable[[cri.ContainerConfig], Any], str]] = {
    "devices": (lambda it: it.devices.add(host_path="/dev/x"), "config.devices: cannot be given"),
    "ambient capabilities": (
        lambda it: it.linux.security_context.capabilities.add_ambient_capabilities.append("CHOWN"),
        "config.linux.security_context.capabilities.add_ambient_capabilities: cannot be kept",
    ),
    "an AppArmor profile": (
        lambda it: setattr(it.linux.security_context, "apparmor_profile", "localhost/x"),
        "config.linux.security_context.apparmor: AppArmor profiles are not applied here",
    ),
    "an older seccomp profile": (
        lambda it: setattr(it.linux.security_context, "seccomp_profile_path", "localhost/x"),
        "config.linux.security_context.seccomp: seccomp profiles are not applied here",
    ),
    "an image as a volume": (
        lambda it: setattr(it.mounts.add(container_path="/a").image, "image", "busybox"),
        "config.mounts[0].image: images have no content here",
    ),
    "mounts that are passed on": (
        lambda it: it.mounts.add(container_path="/a", host_path="/b", propagation=cri.PROPAGATION_BIDIRECTIONAL),
        "config.mounts[0].propagation: only private mounts are supported",
    ),
    "id-mapped mounts": (
        lambda it: it.mounts.add(container_path="/a", host_path="/b").uidMappings.add(length=1),
        "config.mounts[0].uidMappings: id-mapped mounts are not supported",
    ),
    "mount options": (
        lambda it: it.mounts.add(container_path="/a", host_path="/b", mount_options=["noexec"]),
        "config.mounts[0].mount_options: further options are not supported",
    ),
}


def check(config: cri.ContainerConfig, host: Host) -> None:
    process_spec.check_container(config, host, privileged_sandbox=True, of_own_files=False, path="config")


@pytest.mark.parametrize("what", SANDBOXES)
@pytest.mark.parametrize("host", [ROOT, ORDINARY, PLAIN], ids=["root", "ordinary", "plain"])
def test_an_unsupported_sandbox_setting_is_refused_by_name(what: str, host: Host) -> None:
    change, sentence = SANDBOXES[what]
    config = cri.PodSandboxConfig()
    process_spec.check_sandbox(config, host, "config")
    change(config)
    with pytest.raises(Refusal) as refusal:
        process_spec.check_sandbox(config, host, "config")
    assert refusal.value.sentence.startswith(sentence)
    assert refusal.value.code is grpc.StatusCode.FAILED_PRECONDITION
    process_spec.check_sandbox(config, SIMULATED, "config")


@pytest.mark.parametrize("what", CONTAINERS)
@pytest.mark.parametrize("host", [ROOT, ORDINARY, PLAIN], ids=["root", "ordinary", "plain"])
def test_an_unsupported_container_setting_is_refused_by_name(what: str, host: Host) -> None:
    change, sentence = CONTAINERS[what]
    config = cri.ContainerConfig()
    check(config, host)
    change(config)
    with pytest.raises(Refusal) as refusal:
        check(config, host)
    assert refusal.value.sentence.startswith(sentence)
    check(config, SIMULATED)


def test_host_network_pods_may_have_host_ports() -> None:
    config = cri.PodSandboxConfig(port_mappings=[cri.PortMapping(container_port=80, host_port=80)])
    config.linux.security_context.namespace_options.network = cri.NODE
    process_spec.check_sandbox(config, ORDINARY, "config")


def test_settings_that_are_already_fulfilled_are_accepted() -> None:
    config = cri.ContainerConfig(mounts=[cri.Mount(container_path="/a", host_path="/b", selinux_relabel=True)])
    security = config.linux.security_context
    security.masked_paths.append("/proc/kcore")
    security.readonly_paths.append("/proc/sys")
    security.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    security.apparmor.profile_type = cri.SecurityProfile.Unconfined
    security.capabilities.drop_capabilities.append("ALL")
    security.privileged = True
    security.namespace_options.pid = cri.CONTAINER
    for host in (ROOT, ORDINARY, PLAIN):
        check(config, host)


def test_only_root_may_add_capabilities() -> None:
    config = cri.ContainerConfig()
    config.linux.security_context.capabilities.add_capabilities.append("NET_ADMIN")
    check(config, ROOT)
    with pytest.raises(Refusal, match="add_capabilities: need root"):
        check(config, ORDINARY)


def test_a_read_only_root_needs_a_mount_namespace() -> None:
    config = cri.ContainerConfig()
    config.linux.security_context.readonly_rootfs = True
    check(config, ORDINARY)
    with pytest.raises(Refusal, match="readonly_rootfs: needs mount namespaces"):
        check(config, PLAIN)


def security(**fields: Any) -> cri.LinuxContainerSecurityContext:
    made = cri.LinuxContainerSecurityContext(supplemental_groups=fields.pop("groups", ()))
    made.supplemental_groups_policy = fields.pop("policy", cri.Merge)
    for field, value in fields.items():
        if isinstance(value, int):
            getattr(made, field).value = value
        else:
            setattr(made, field, value)
    return made


def test_root_may_run_processes_as_any_user() -> None:
    def user(**fields: Any) -> User | None:
        return process_spec.user(security(**fields), ROOT, "c")

    assert user() is None
    assert user(run_as_user=0) is None
    assert user(run_as_user=54321) == User(54321, 0)
    assert user(run_as_user=54321, run_as_group=7, groups=(8, 9, 8)) == User(54321, 7, (8, 9))
    assert user(run_as_user=0, run_as_group=0, groups=(5,), policy=cri.Strict) == User(0, 0, (5,))
    named = user(run_as_username="root", policy=cri.Strict)
    assert named == User(0, 0)
    with pytest.raises(Refusal, match='run_as_username: no user "nobody-at-all"'):
        user(run_as_username="nobody-at-all")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"run_as_user": 0}, "c.run_as_user: only root can run as user 0"),
        ({"run_as_username": "root"}, "c.run_as_username: only root can run as user 0"),
        ({"run_as_user": 54321, "run_as_group": 1}, "c.run_as_group: only root can run as group 1"),
        ({"groups": (54322, 1)}, "c.supplemental_groups: this user is not a member of group 1"),
        ({"policy": cri.Strict}, "c.supplemental_groups_policy: only root can leave groups"),
    ],
)
def test_an_ordinary_user_may_run_processes_only_as_itself(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refusal:
        process_spec.user(security(**fields), ORDINARY, "c")
    assert refusal.value.sentence.startswith(sentence)


def test_an_ordinary_user_may_name_itself() -> None:
    asked = security(run_as_user=54321, run_as_group=54321, groups=(54322,))
    assert process_spec.user(asked, ORDINARY, "c") is None


@pytest.mark.parametrize(
    ("image", "command", "args", "runs"),
    [
        ("busybox", ["a"], ["b"], ("a", "b")),
        ("busybox", [], ["b", "c"], ("b", "c")),
        ("registry.example/tools/cat:1", [], [], ("cat",)),
        ("registry.example/tools/cat:1", [], ["-A", "b"], ("cat", "-A", "b")),
        ("registry.example/tools/cat:1", ["a"], ["b"], ("a", "b")),
        ("registry.k8s.io/pause:3.10", [], [], ("/pause",)),
        ("registry.k8s.io/pause:3.10", ["a"], [], ("a",)),
    ],
)
def test_the_command_of_a_container(image: str, command: list[str], args: list[str], runs: tuple[str, ...]) -> None:
    config = cri.ContainerConfig(command=command, args=args)
    made = Image(parse_reference(image), 0, 1)
    assert process_spec.arguments(config, made, replace(ROOT, search_path=os.environ["PATH"]), "config") == runs


def test_the_busybox_image_runs_a_shell_even_without_a_busybox_program(tmp_path: Path) -> None:
    image = Image(parse_reference("busybox"), 0, 1)
    host = replace(ROOT, search_path=str(tmp_path))
    assert process_spec.arguments(cri.ContainerConfig(), image, host, "config") == ("sh",)
    (tmp_path / "busybox").write_text("#!/bin/sh\n")
    (tmp_path / "busybox").chmod(0o755)
    assert process_spec.arguments(cri.ContainerConfig(), image, host, "config") == (f"{tmp_path}/busybox", "sh")


@pytest.mark.parametrize(("args", "more"), [([], ""), (["sh", "-c", "true"], " that could take the args")])
def test_an_image_without_a_program_of_its_name_needs_a_command(args: list[str], more: str) -> None:
    image = Image(parse_reference("no-such-program"), 0, 1)
    with pytest.raises(Refusal) as refusal:
        process_spec.arguments(cri.ContainerConfig(args=args), image, ROOT, "config")
    assert refusal.value.sentence == (
        "config.command: no command specified: an image stands for a program of this machine, and there is none called "
        f'"no-such-program"{more}; give the container a command, or load the image with `syncpod load`'
    )


def test_every_cri_signal_has_a_number_on_this_machine() -> None:
    numbers = {name: process_spec.stop_signal(number) for name, number in cri.Signal.items()}
    assert numbers["SIGNAL_RUNTIME_DEFAULT"] == numbers["SIGNAL_SIGTERM"] == signal.SIGTERM
    assert numbers["SIGNAL_SIGCLD"] == signal.SIGCHLD
    assert numbers["SIGNAL_SIGRTMIN"] == signal.SIGRTMIN
    assert numbers["SIGNAL_SIGRTMINPLUS15"] == signal.SIGRTMIN + 15
    assert numbers["SIGNAL_SIGRTMAXMINUS14"] == signal.SIGRTMAX - 14
    assert numbers["SIGNAL_SIGRTMAX"] == signal.SIGRTMAX
    for name, number in numbers.items():
        plain = name.removeprefix("SIGNAL_")
        if hasattr(signal, plain):
            assert number == getattr(signal, plain)


def test_a_missing_mount_source_is_created_and_a_symlink_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = cri.ContainerConfig(
        mounts=[
            cri.Mount(container_path="/a", host_path=str(tmp_path / "link")),
            cri.Mount(container_path="/b", host_path=str(tmp_path / "new/deep"), readonly=True),
        ]
    )
    made = process_spec.mounts(config, tmp_path / "resolv.conf")
    assert [(each.container_path, each.host_path, each.read_only) for each in made] == [
        ("/a", str(tmp_path / "real"), False),
        ("/b", str(tmp_path / "new/deep"), True),
    ]
    assert (tmp_path / "new/deep").is_dir()


MACHINES = "search one.example two.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions edns0 ndots:2\n"


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (cri.DNSConfig(servers=["192.0.2.1", "192.0.2.2"], searches=["one.example"], options=["ndots:2"]), True),
        (cri.DNSConfig(servers=["192.0.2.1", "192.0.2.2"]), True),
        (cri.DNSConfig(servers=["192.0.2.2", "192.0.2.1"]), False),
        (cri.DNSConfig(servers=["192.0.2.1"]), False),
        (cri.DNSConfig(servers=["192.0.2.1", "192.0.2.2"], searches=["three.example"]), False),
        (cri.DNSConfig(servers=["192.0.2.1", "192.0.2.2"], options=["ndots:5"]), False),
    ],
)
def test_the_machines_own_resolver_is_accepted(config: cri.DNSConfig, own: bool) -> None:
    assert process_spec.is_machines_own(config, MACHINES) == own
    assert process_spec.is_machines_own(config, process_spec.resolv_conf(config))


def test_the_oom_score_is_not_lower_than_this_user_may_set() -> None:
    def score(wanted: int, host: Host) -> int | None:
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"))
        config.linux.resources.oom_score_adj = wanted
        spec = process_spec.process_spec(
            config,
            host,
            id="i",
            arguments=("a",),
            log_path="",
            hostname="h",
            cgroup_procs=(),
            resolv_conf=Path("/nowhere"),
            sandbox=cri.PodSandbox(),
            image=None,
        )
        assert dict(spec.environment)["HOSTNAME"] == "h"
        return spec.oom_score_adj

    assert score(-997, ROOT) == -997
    assert score(-997, ORDINARY) == 100
    assert score(900, ORDINARY) == 900
