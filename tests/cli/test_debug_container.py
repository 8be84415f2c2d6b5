"""The ephemeral container that `debug` makes from its flags, before anything is sent."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncpod.cli.commands import attached_container
from syncpod.cli.commands.debug_container import PROFILES, DebugRequest, debug_container, debug_copy, default_profile
from syncpod.cli.failure import FAILED, BadInput, Failure
from syncpod.cri.client import CriClient
from syncpod.node import log_reading
from syncpod.pod import ContainerStatus, Pod, PodStatus, admit_pod, pod_to_wire
from tests.cli.manifests import manifest

WANTED = DebugRequest(
    image="busybox:1",
    name="",
    target="",
    command=(),
    arguments_only=False,
    env=(),
    pull_policy="",
    profile="baseline",
    stdin=False,
    stdin_once=False,
    tty=False,
)


@pytest.fixture
def pod() -> Pod:
    """A pod of one container, app."""
    return admit_pod(manifest("web"))


def made(pod: Pod, **wanted: Any) -> dict[str, Any]:
    return pod_to_wire(debug_container(pod, replace(WANTED, **wanted)))


def test_a_debug_container_needs_only_an_image(pod: Pod) -> None:
    """Row 55: no restart policy, no probes, no resources; a name that is made up."""
    container = made(pod)
    assert re.fullmatch("debugger-[bcdfghjklmnpqrstvwxz2456789]{5}", container.pop("name"))
    assert container == {
        "image": "busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert made(pod)["name"] != made(pod)["name"]


def test_each_flag_has_its_field(pod: Pod) -> None:
    """Row 55: the fields that `kubectl debug` sets."""
    container = made(
        pod,
        name="look",
        target="app",
        command=("sh", "-c", "true"),
        env=("A=1", "B=x=y", "C="),
        pull_policy="Never",
        stdin=True,
        stdin_once=True,
        tty=True,
    )
    assert container == {
        "name": "look",
        "image": "busybox:1",
        "targetContainerName": "app",
        "command": ["sh", "-c", "true"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}, {"name": "C"}],
        "imagePullPolicy": "Never",
        "stdin": True,
        "stdinOnce": True,
        "tty": True,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    arguments = made(pod, command=("-n", "5"), arguments_only=True)
    assert arguments["args"] == ["-n", "5"] and "command" not in arguments


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_a_security_context(profile: str, pod: Pod) -> None:
    """Row 55: kubectl's profiles, as they are for ephemeral containers."""
    given = made(pod, profile=profile).get("securityContext", {})
    assert (
        given
        == {
            "general": {"capabilities": {"add": ["SYS_PTRACE"]}},
            "baseline": {},
            "restricted": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "netadmin": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
            "sysadmin": {"privileged": True},
        }[profile]
    )


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"name": "app"}, "--container: app is a container of this pod already"),
        ({"name": "Look"}, "--container: must consist of lower-case letters"),
        ({"target": "db"}, "--target: 'db' is not a container of this pod"),
        ({"image": " busybox"}, "--image: must not begin or end with white space"),
        ({"env": ("A",)}, "--env: 'A': must be NAME=VALUE"),
        ({"env": ("=1",)}, "--env: required"),
        ({"pull_policy": "Sometimes"}, "--image-pull-policy: must be"),
        ({"profile": "legacy"}, "--profile: must be general, baseline, restricted, netadmin, sysadmin, not 'legacy'"),
    ],
)
def test_a_wrong_debug_option_is_refused_by_the_flag(wanted: dict[str, Any], sentence: str, pod: Pod) -> None:
    """Row 55: refused before anything is sent."""
    with pytest.raises(BadInput) as refused:
        debug_container(pod, replace(WANTED, **wanted))
    assert str(refused.value).startswith(sentence)


def test_each_wrong_debug_option_has_a_line(pod: Pod) -> None:
    with pytest.raises(BadInput) as refused:
        debug_container(pod, replace(WANTED, name="Look", target="db"))
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == ["--container", "--target"]


def test_a_debug_copy_omits_labels_annotations_and_probes() -> None:
    """Row 55: `--copy-to` leaves out labels, annotations and probes, as `kubectl debug` does."""
    ask = {"exec": {"command": ["true"]}}
    app = {"name": "app", "image": "busybox:1", "livenessProbe": ask, "readinessProbe": ask, "startupProbe": ask}
    document = manifest("web", labels={"app": "web"}, containers=[app], hostNetwork=True)
    document["metadata"]["annotations"] = {"note": "x"}
    pod = admit_pod(document)
    (copy, warnings), name = debug_copy(pod, replace(WANTED, name="look"), "other", share_processes=True)
    assert (name, warnings, copy.metadata.name) == ("look", (), "other")
    assert (copy.metadata.labels, copy.metadata.annotations, copy.metadata.uid) == ({}, {}, "")
    kept, joined = copy.spec.containers
    bare = {"liveness_probe": None, "readiness_probe": None, "startup_probe": None}
    assert kept == pod.spec.containers[0].model_copy(update=bare)
    assert (joined.name, copy.spec.share_process_namespace, copy.spec.host_network) == ("look", True, True)
    apart, _ = debug_copy(pod, WANTED, "other", share_processes=False)
    assert apart.pod.spec.share_process_namespace is None


@pytest.mark.parametrize(
    ("name", "wanted", "sentence"),
    [
        ("Other", {}, "--copy-to: must consist of"),
        ("other", {"name": "app"}, "--container: app is the name of another container"),
        ("other", {"pull_policy": "Sometimes"}, "--image-pull-policy: must be"),
    ],
)
def test_a_wrong_debug_copy_is_refused_by_the_flag(name: str, wanted: dict[str, Any], sentence: str, pod: Pod) -> None:
    """Row 55: refused before anything is sent."""
    with pytest.raises(BadInput) as refused:
        debug_copy(pod, replace(WANTED, **wanted), name, share_processes=True)
    assert str(refused.value).startswith(sentence)


async def test_an_unreadable_log_after_the_container_has_joined_is_a_failure_and_not_bad_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The container has joined already, so the exit code is not that of bad input, after which nothing was done."""

    class Runtime:
        async def container_status(self, _id: str) -> SimpleNamespace:
            known = SimpleNamespace(log_path="/var/log/pods/look/0.log", state="running")
            return SimpleNamespace(container=known)

    async def read_log(path: Path, runs: object) -> AsyncIterator[object]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        yield

    monkeypatch.setattr(log_reading, "read_log", read_log)
    with pytest.raises(Failure, match=r"^/var/log/pods/look/0\.log: permission denied; run as root$") as failed:
        await attached_container._follow(cast("CriClient", Runtime()), "id")
    assert failed.value.code == FAILED


@pytest.mark.parametrize(
    ("runtime", "user", "profile"),
    [("syncpod-embedded", 1000, "baseline"), ("syncpod-embedded", 0, "general"), ("containerd", 1000, "general")],
)
@pytest.mark.parametrize("statuses", ["container_statuses", "init_container_statuses"])
def test_no_capability_is_added_by_default(
    runtime: str, user: int, profile: str, statuses: str, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    running = PodStatus.model_validate({statuses: [ContainerStatus(name="app", container_id=f"{runtime}://1")]})
    assert default_profile(pod.model_copy(update={"status": running})) == profile
