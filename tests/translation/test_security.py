"""The security context of a container: user, groups, profiles and masked paths."""

from dataclasses import replace
from typing import Any

import pytest

from syncpod.cri.port import ImageStatus
from syncpod.translation import ContainerConfigError
from syncpod.translation.security import MASKED_PATHS, READONLY_PATHS
from tests.translation.translation import HOST, IMAGE, NODE, UID, as_data, configured, make_container, sandbox

BY_NUMBER = replace(IMAGE, uid=1000)
BY_NAME = replace(IMAGE, username="nobody")
BY_ROOT = replace(IMAGE, uid=0)


def context(
    own: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, image: ImageStatus | None = IMAGE
) -> Any:
    """The security context of a container with these contexts of pod and container."""
    fields = {} if own is None else {"securityContext": own}
    spec = {} if pod is None else {"securityContext": pod}
    return configured(*make_container(fields, **spec), image=image).linux.security_context


USERS: dict[str, tuple[dict[str, Any], dict[str, Any], ImageStatus | None, int | None, str]] = {
    "the container's own": ({"runAsUser": 5}, {"runAsUser": 6}, BY_NUMBER, 5, ""),
    "else the pod's": ({}, {"runAsUser": 6}, BY_NUMBER, 6, ""),
    "else the image's number": ({}, {}, BY_NUMBER, 1000, ""),
    "or the image's name": ({}, {}, BY_NAME, None, "nobody"),
    "a number chosen over the image's name": ({"runAsUser": 0}, {}, BY_NAME, 0, ""),
    "root of an image that says nothing": ({}, {}, IMAGE, 0, ""),
    "root of an image nobody looked at": ({}, {}, None, 0, ""),
}


@pytest.mark.parametrize(("own", "pod", "image", "uid", "name"), USERS.values(), ids=USERS)
def test_the_user_and_group_of_a_container(
    own: dict[str, Any], pod: dict[str, Any], image: ImageStatus | None, uid: int | None, name: str
) -> None:
    made = context(own, pod, image)
    assert (made.run_as_user.value if made.HasField("run_as_user") else None) == uid
    assert made.run_as_username == name


def test_a_group_is_set_only_if_the_pod_asks_for_it() -> None:
    assert not context().HasField("run_as_group")
    assert context({"runAsGroup": 0}, {"runAsGroup": 7}).run_as_group.value == 0
    assert context({}, {"runAsGroup": 7}).run_as_group.value == 7


def test_the_fs_group_precedes_the_supplemental_groups() -> None:
    pod = {"fsGroup": 2000, "supplementalGroups": [3, 1], "supplementalGroupsPolicy": "Strict"}
    made = context(pod=pod)
    assert list(made.supplemental_groups) == [2000, 3, 1]
    assert as_data(made)["supplemental_groups_policy"] == "Strict"
    paused = sandbox(make_container({}, securityContext=pod)[0]).linux.security_context
    assert list(paused.supplemental_groups) == [2000, 3, 1]
    assert as_data(paused)["supplemental_groups_policy"] == "Strict"


SECCOMP: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, dict[str, str]]] = {
    "none asked for is none": (None, None, {"profile_type": "Unconfined"}),
    "the pod's": (None, {"type": "RuntimeDefault"}, {}),
    "the container's over the pod's": (
        {"type": "Unconfined"},
        {"type": "RuntimeDefault"},
        {"profile_type": "Unconfined"},
    ),
    "a file of the node": (
        {"type": "Localhost", "localhostProfile": "a/b.json"},
        None,
        {"profile_type": "Localhost", "localhost_ref": "/var/lib/syncpod/seccomp/a/b.json"},
    ),
}


@pytest.mark.parametrize(("own", "pod", "profile"), SECCOMP.values(), ids=SECCOMP)
def test_the_seccomp_profile_of_a_container(own: Any, pod: Any, profile: Any) -> None:
    made = context(own and {"seccompProfile": own}, pod and {"seccompProfile": pod})
    assert as_data(made.seccomp) == profile


def test_the_sandbox_always_has_the_runtime_default_seccomp_profile() -> None:
    pod, _ = make_container({}, securityContext={"seccompProfile": {"type": "Unconfined"}})
    assert as_data(sandbox(pod).linux.security_context.seccomp) == {}


@pytest.mark.parametrize("profile", ["/etc/passwd", "../../../etc/passwd", "", "a/../../b"])
def test_a_seccomp_profile_outside_the_profile_directory_is_an_error(profile: str) -> None:
    with pytest.raises(ContainerConfigError, match=r"localhostProfile: must be a path below /var/lib/syncpod/seccomp"):
        context({"seccompProfile": {"type": "Localhost", "localhostProfile": profile}})


APPARMOR: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "the runtime's": ({"type": "RuntimeDefault"}, {}, "runtime/default"),
    "none": ({"type": "Unconfined"}, {"profile_type": "Unconfined"}, "unconfined"),
    "a loaded one": (
        {"type": "Localhost", "localhostProfile": "mine"},
        {"profile_type": "Localhost", "localhost_ref": "mine"},
        "localhost/mine",
    ),
}


@pytest.mark.parametrize(("asked", "profile", "older"), APPARMOR.values(), ids=APPARMOR)
def test_the_apparmor_profile_is_also_set_in_the_deprecated_field(asked: Any, profile: Any, older: str) -> None:
    made = context({"appArmorProfile": asked})
    assert (as_data(made.apparmor), made.apparmor_profile) == (profile, older)


def test_no_apparmor_profile_is_set_by_default() -> None:
    made = context()
    assert not made.HasField("apparmor")
    assert made.apparmor_profile == ""


def test_an_apparmor_profile_without_its_name_is_an_error() -> None:
    with pytest.raises(ContainerConfigError, match=r"appArmorProfile\.localhostProfile: required"):
        context({"appArmorProfile": {"type": "Localhost"}})


def test_the_containers_selinux_label_overrides_the_pods() -> None:
    pod = {"seLinuxOptions": {"level": "s0:c1", "type": "t"}}
    assert as_data(context(pod=pod).selinux_options) == {"level": "s0:c1", "type": "t"}
    assert as_data(context({"seLinuxOptions": {"role": "r", "user": "u"}}, pod).selinux_options) == {
        "role": "r",
        "user": "u",
    }


def test_proc_is_masked_unless_the_container_sets_proc_mount_unmasked() -> None:
    made = context({"procMount": "Default"})
    assert (tuple(made.masked_paths), tuple(made.readonly_paths)) == (MASKED_PATHS, READONLY_PATHS)
    bare = context({"procMount": "Unmasked"})
    assert (list(bare.masked_paths), list(bare.readonly_paths)) == ([], [])


def test_thermal_throttle_paths_of_this_machine_are_masked() -> None:
    throttle = "/sys/devices/system/cpu/cpu0/thermal_throttle"
    node = replace(NODE, host=replace(HOST, masked_paths=(throttle,)))
    made = configured(*make_container({}), node=node).linux.security_context
    assert tuple(made.masked_paths) == (*MASKED_PATHS, throttle)


@pytest.mark.parametrize(("allowed", "kept"), [(None, False), (True, False), (False, True)])
def test_no_new_privs_is_set_if_privilege_escalation_is_not_allowed(allowed: bool | None, kept: bool) -> None:
    own = {} if allowed is None else {"allowPrivilegeEscalation": allowed}
    assert context(own).no_new_privs is kept


def test_capability_names_are_normalised_for_every_runtime() -> None:
    made = context({"capabilities": {"add": ["NET_ADMIN", "CAP_SYS_TIME"], "drop": ["ALL", "CAP_CHOWN"]}}).capabilities
    assert list(made.add_capabilities) == ["NET_ADMIN", "SYS_TIME"]
    assert list(made.drop_capabilities) == ["ALL", "CHOWN"]


def test_containers_inherit_unset_security_fields_from_the_pod() -> None:
    made = context({"privileged": True, "readOnlyRootFilesystem": True}, {"runAsUser": 9})
    assert (made.privileged, made.readonly_rootfs, made.run_as_user.value) == (True, True, 9)
    assert not made.HasField("capabilities")


WHERE = rf'\(pod: "web_default\({UID}\)", container: main\)$'

NON_ROOT: dict[str, tuple[dict[str, Any], ImageStatus | None, str]] = {
    "root by its own choice": ({"runAsUser": 0}, BY_NUMBER, "container's runAsUser breaks non-root policy "),
    "an image of root": ({}, BY_ROOT, "container has runAsNonRoot and image will run as root "),
    "an image that says nothing": ({}, IMAGE, "container has runAsNonRoot and image will run as root "),
    "an image with a name": (
        {},
        BY_NAME,
        r"container has runAsNonRoot and image has non-numeric user \(nobody\), cannot verify user is non-root ",
    ),
    "an image with no user at all": (
        {},
        replace(IMAGE, uid=1 << 31),
        r"container has runAsNonRoot and image has an invalid user id \(2147483648\)\. \(Must be 1-\(2147483647\)\): "
        "must be between 0 and 2147483647, inclusive ",
    ),
}


@pytest.mark.parametrize(("own", "image", "message"), NON_ROOT.values(), ids=NON_ROOT)
def test_run_as_non_root_refuses(own: dict[str, Any], image: ImageStatus | None, message: str) -> None:
    with pytest.raises(ContainerConfigError, match="^" + message + WHERE):
        context({"runAsNonRoot": True, **own}, image=image)


@pytest.mark.parametrize(
    ("own", "pod", "image"),
    [
        ({"runAsNonRoot": True, "runAsUser": 5}, {}, BY_ROOT),
        ({"runAsUser": 5}, {"runAsNonRoot": True}, BY_NAME),
        ({}, {"runAsNonRoot": True}, BY_NUMBER),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, BY_ROOT),
    ],
    ids=["a number of its own", "over the image's name", "the image's number", "the container lets it"],
)
def test_run_as_non_root_accepts(own: dict[str, Any], pod: dict[str, Any], image: ImageStatus) -> None:
    context(own, pod, image)
