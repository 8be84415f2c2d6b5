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

from syncpod.cli.actions import attached_container
from syncpod.cli.actions.debug_container import (
    PROFILES,
    CopyRequest,
    DebugRequest,
    debug_container,
    debug_copy,
    default_profile,
    images_of,
)
from syncpod.cli.failure import FAILED, BadInput, Failure
from syncpod.cri.client import CriClient
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
    (copy, warnings), name = debug_copy(pod, replace(WANTED, name="look"), CopyRequest("other"))
    assert (name, warnings, copy.metadata.name) == ("look", (), "other")
    assert (copy.metadata.labels, copy.metadata.annotations, copy.metadata.uid) == ({}, {}, "")
    kept, joined = copy.spec.containers
    bare = {"liveness_probe": None, "readiness_probe": None, "startup_probe": None}
    assert kept == pod.spec.containers[0].model_copy(update=bare)
    assert (joined.name, copy.spec.share_process_namespace, copy.spec.host_network) == ("look", True, True)
    apart, _ = debug_copy(pod, WANTED, CopyRequest("other", share_processes=False))
    assert apart.pod.spec.share_process_namespace is False


@pytest.mark.parametrize(
    ("name", "wanted", "sentence"),
    [
        ("Other", {}, "--copy-to: must consist of"),
        ("other", {"name": "db", "image": ""}, "--container: the pod has no db: name an image for a new one"),
        ("other", {"name": "app", "env": ("A",)}, "--env: 'A': must be NAME=VALUE"),
        ("other", {"name": "app", "profile": "legacy"}, "--profile: must be general"),
        ("other", {"pull_policy": "Sometimes"}, "--image-pull-policy: must be"),
    ],
)
def test_a_wrong_debug_copy_is_refused_by_the_flag(name: str, wanted: dict[str, Any], sentence: str, pod: Pod) -> None:
    """Row 55: refused before anything is sent."""
    with pytest.raises(BadInput) as refused:
        debug_copy(pod, replace(WANTED, **wanted), CopyRequest(name))
    assert str(refused.value).startswith(sentence)


APP: dict[str, Any] = {
    "name": "app",
    "image": "busybox:1",
    "command": ["serve"],
    "args": ["-v"],
    "env": [{"name": "A", "value": "1"}],
    "securityContext": {"runAsUser": 7, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}},
}
ASK: dict[str, Any] = {"exec": {"command": ["true"]}}


def copied(copy: CopyRequest, **wanted: Any) -> tuple[dict[str, Any], str]:
    """The copy of a pod with an init container, probes, labels and annotations, and its debugged container."""
    probes = {"livenessProbe": ASK, "readinessProbe": ASK, "startupProbe": ASK}
    containers = [APP | probes, {"name": "side", "image": "busybox:1"}]
    init = [{"name": "first", "image": "busybox:1", "command": ["true"]}]
    document = manifest("web", labels={"app": "web"}, containers=containers, initContainers=init)
    document["metadata"]["annotations"] = {"note": "x", "kubernetes.io/config.source": "fleet"}
    asked = replace(WANTED, **({"image": ""} | wanted))
    (pod, warnings), name = debug_copy(admit_pod(document), asked, copy)
    assert warnings == ()
    return pod_to_wire(pod), name


def test_a_container_of_the_copy_is_changed_and_keeps_the_rest() -> None:
    """As `kubectl debug --copy-to NAME --container APP -- COMMAND`: without an image, no container is added."""
    copy, name = copied(CopyRequest("other"), name="app", command=("sh",), stdin=True, tty=True, profile="general")
    app, side = copy["spec"]["containers"]
    assert (name, app["image"], app["command"], app["env"]) == ("app", "busybox:1", ["sh"], APP["env"])
    assert "args" not in app and app["stdin"] and app["tty"] and "livenessProbe" not in app
    assert app["securityContext"] == {"runAsUser": 7, "capabilities": {"add": ["CHOWN", "SYS_PTRACE"], "drop": ["ALL"]}}
    assert side["name"] == "side" and copy["spec"]["shareProcessNamespace"] is True
    changed, _ = copied(CopyRequest("other"), name="app", command=("-q",), arguments_only=True, image="busybox:2")
    app = changed["spec"]["containers"][0]
    assert (app["image"], app["command"], app["args"]) == ("busybox:2", ["serve"], ["-q"])
    replaced, _ = copied(CopyRequest("other"), name="app", image="busybox:2", env=("B=2",), pull_policy="Always")
    app = replaced["spec"]["containers"][0]
    assert (app["env"], app["imagePullPolicy"]) == ([{"name": "B", "value": "2"}], "Always")
    assert "stdin" not in app and "securityContext" not in app, "the profile baseline takes nothing over"
    first, name = copied(CopyRequest("other"), name="first", command=("sh",))
    assert (name, first["spec"]["initContainers"][0]["command"]) == ("first", ["sh"])


def test_only_images_of_the_copy_differ() -> None:
    """As `kubectl debug --copy-to NAME --set-image`: a named container's image goes before that of all."""
    copy, name = copied(CopyRequest("other", images={"*": "busybox:3", "app": "busybox:2"}))
    assert name == "" and [each["image"] for each in copy["spec"]["containers"]] == ["busybox:2", "busybox:3"]
    assert copy["spec"]["initContainers"][0]["image"] == "busybox:1" and "shareProcessNamespace" not in copy["spec"]
    both, name = copied(CopyRequest("other", images={"app": "busybox:2"}), image="busybox:9", name="look")
    assert [each["image"] for each in both["spec"]["containers"]] == ["busybox:2", "busybox:1", "busybox:9"]
    with pytest.raises(BadInput, match=r"^--set-image: db is none of the pod's containers: app, side$"):
        copied(CopyRequest("other", images={"db": "busybox:2"}))


def test_the_copy_keeps_what_is_asked_for() -> None:
    every = frozenset(("labels", "annotations", "livenessProbe", "readinessProbe", "startupProbe"))
    copy, _ = copied(CopyRequest("other", kept=every), name="app", command=("sh",))
    assert copy["metadata"]["labels"] == {"app": "web"}
    assert copy["metadata"]["annotations"] == {"note": "x"}, "the copy is not the fleet's pod"
    assert {"livenessProbe", "readinessProbe", "startupProbe"} <= copy["spec"]["containers"][0].keys()
    assert "initContainers" in copy["spec"]
    one, _ = copied(CopyRequest("other", kept=frozenset(["readinessProbe"]), init_containers=False), name="side")
    assert "readinessProbe" in one["spec"]["containers"][0] and "livenessProbe" not in one["spec"]["containers"][0]
    assert "initContainers" not in one["spec"] and "labels" not in one["metadata"]


def test_the_command_line_goes_before_what_the_pod_says_of_shared_processes() -> None:
    pod = admit_pod(manifest("web", shareProcessNamespace=False))
    for asked, shared in ((None, False), (True, True), (False, False)):
        copy, _ = debug_copy(pod, WANTED, CopyRequest("other", share_processes=asked))
        assert copy.pod.spec.share_process_namespace is shared
    with pytest.raises(BadInput, match=r"^--share-processes: "):
        debug_copy(admit_pod(manifest("web", hostPID=True)), WANTED, CopyRequest("other", share_processes=True))


def test_images_are_given_by_name() -> None:
    assert images_of(["app=busybox:2,side=i@sha256:" + "0" * 64, "*=b"]) == {
        "app": "busybox:2",
        "side": "i@sha256:" + "0" * 64,
        "*": "b",
    }
    for wrong in ("app", "=busybox", "app=", "app=UPPER CASE", ""):
        with pytest.raises(BadInput, match=r"^--set-image: "):
            images_of([wrong])


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

    monkeypatch.setattr(attached_container, "read_log", read_log)
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
