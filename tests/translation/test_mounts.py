"""A container's mounts, and its /etc/hosts."""

from dataclasses import replace
from typing import Any

import pytest

from syncpod.translation.config_error import ContainerConfigError
from syncpod.translation.hosts_file import hosts_file
from syncpod.translation.mounts import container_mounts
from tests.translation.translation import HOST, NODE, UID, as_data, configured, make_container, make_pod

VOLUMES: list[dict[str, Any]] = [
    {"name": "scratch", "emptyDir": {}},
    {"name": "logs", "hostPath": {"path": "/var/log"}},
]
HOSTS_MOUNT = {"container_path": "/etc/hosts", "host_path": f"/var/lib/syncpod/pods/{UID}/etc-hosts"}


def mounts(volume_mounts: list[dict[str, Any]], **how: Any) -> list[Any]:
    """The mounts of a container, but for the last: the place of its termination message."""
    config = configured(*make_container({"volumeMounts": volume_mounts}, volumes=VOLUMES), **how)
    *made, message = [as_data(mount) for mount in config.mounts]
    assert message["container_path"] == "/dev/termination-log"
    assert message["host_path"].startswith(f"/var/lib/syncpod/pods/{UID}/containers/")
    return made


def test_volumes_come_in_the_order_of_mounting_then_the_hosts_file() -> None:
    logs = {"name": "logs", "mountPath": "/logs", "readOnly": True}
    wanted: list[dict[str, Any]] = [logs, {"name": "scratch", "mountPath": "/scratch"}]
    assert mounts(wanted) == [
        {"container_path": "/logs", "host_path": "/var/log", "readonly": True},
        {
            "container_path": "/scratch",
            "host_path": f"/var/lib/syncpod/pods/{UID}/volumes/kubernetes.io~empty-dir/scratch",
        },
        HOSTS_MOUNT,
    ]


def test_a_container_that_mounts_its_own_hosts_file_keeps_it() -> None:
    assert [each["host_path"] for each in mounts([{"name": "logs", "mountPath": "/etc/hosts"}])] == ["/var/log"]


def test_there_is_no_hosts_file_before_there_is_an_address() -> None:
    assert mounts([], pod_ips=()) == []


def test_a_relative_place_in_a_container_is_below_its_root() -> None:
    assert mounts([{"name": "logs", "mountPath": "logs"}])[0]["container_path"] == "/logs"


@pytest.mark.parametrize(
    ("said", "propagation"),
    [
        ("None", None),
        ("HostToContainer", "PROPAGATION_HOST_TO_CONTAINER"),
        ("Bidirectional", "PROPAGATION_BIDIRECTIONAL"),
    ],
)
def test_mounts_propagate_as_said(said: str, propagation: str | None) -> None:
    made = mounts([{"name": "logs", "mountPath": "/logs", "mountPropagation": said}])[0]
    assert made.get("propagation") == propagation


def test_with_selinux_what_is_ours_is_relabelled_and_what_is_the_nodes_is_not() -> None:
    node = replace(NODE, host=replace(HOST, selinux=True))
    wanted = [{"name": "logs", "mountPath": "/logs"}, {"name": "scratch", "mountPath": "/scratch"}]
    made = mounts(wanted, node=node)
    assert [each.get("selinux_relabel", False) for each in made] == [False, True, True]


def test_recursive_read_only_if_possible_is_what_the_runtime_can() -> None:
    wanted = [{"name": "logs", "mountPath": "/logs", "readOnly": True, "recursiveReadOnly": "IfPossible"}]
    able = replace(NODE, recursive_read_only_handlers=("",))
    assert mounts(wanted, node=able)[0]["recursive_read_only"]
    assert "recursive_read_only" not in mounts(wanted)[0]


def test_recursive_read_only_is_the_handlers_that_the_pod_runs_with() -> None:
    wanted = {"volumeMounts": [{"name": "logs", "mountPath": "/l", "readOnly": True, "recursiveReadOnly": "Enabled"}]}
    pod, container = make_container(wanted, volumes=VOLUMES, runtimeClassName="kata")
    assert configured(pod, container, node=replace(NODE, recursive_read_only_handlers=("kata",))).mounts
    with pytest.raises(ContainerConfigError, match="does not announce"):
        configured(pod, container, node=replace(NODE, recursive_read_only_handlers=("",)))


PARTS: list[dict[str, Any]] = [
    {"configMap": {"name": "m"}},
    {"secret": {"secretName": "s"}},
    {"downwardAPI": {"items": []}},
    {"projected": {"sources": []}},
    {"projected": {"sources": [{"configMap": {"name": "m"}}, {"secret": {"name": "s"}}]}},
    {"emptyDir": {"medium": "Memory"}},
]
PLACES = [
    ("state", "configmap", True),
    ("memory", "secret", True),
    ("state", "downward-api", True),
    ("state", "projected", True),
    ("memory", "projected", True),
    ("memory", "empty-dir", False),
]


@pytest.mark.parametrize(("source", "place"), list(zip(PARTS, PLACES, strict=True)), ids=str)
def test_volumes_of_files_are_only_read_and_what_is_secret_lies_in_memory(
    source: dict[str, Any], place: tuple[str, str, bool]
) -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[{"name": "v", **source}]
    )
    below, plugin, only_read = place
    base = {"state": NODE.state_dir, "memory": NODE.memory_dir}[below]
    mount = as_data(configured(pod, container, pod_ips=()).mounts[0])
    assert mount == {
        "container_path": "/v",
        "host_path": f"{base}/pods/{UID}/volumes/kubernetes.io~{plugin}/v",
        **({"readonly": True} if only_read else {}),
    }


def test_an_empty_dir_in_memory_has_the_kubelets_place_where_the_node_may_mount() -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
    )
    mount = configured(pod, container, node=replace(NODE, may_mount=True)).mounts[0]
    assert mount.host_path == f"{NODE.state_dir}/pods/{UID}/volumes/kubernetes.io~empty-dir/v"


def test_a_part_of_a_volume_is_the_place_that_was_prepared_for_it() -> None:
    wanted = [{"name": "scratch", "mountPath": "/a"}, {"name": "scratch", "mountPath": "/b", "subPath": "b"}]
    made = mounts(wanted, sub_paths={1: "/prepared/1"})
    assert made[1] == {"container_path": "/b", "host_path": "/prepared/1"}
    assert made[0]["host_path"].endswith("/scratch")


def test_an_image_is_mounted_by_the_runtime_and_only_read() -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w", "subPath": "usr/share"}]},
        volumes=[{"name": "v", "image": {"reference": "docker.io/library/tools:1"}}],
    )
    pod = pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"annotations": {"team": "blue"}})})
    made = container_mounts(pod, container, NODE, (), "spec.containers[0]", {1: "usr/share"}, {"v": "sha256:1"})
    image = {
        "image": "sha256:1",
        "user_specified_image": "docker.io/library/tools:1",
        "annotations": {"team": "blue"},
    }
    assert [as_data(mount) for mount in made] == [
        {"container_path": "/v", "readonly": True, "image": image},
        {"container_path": "/w", "readonly": True, "image": image, "image_sub_path": "usr/share"},
    ]


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "a volume that is not there": ({"name": "no", "mountPath": "/x"}, r"\.name: the pod has no volume 'no'"),
    "a part of a volume": ({"name": "logs", "mountPath": "/x", "subPath": "a"}, r"\.subPath: .* not been prepared"),
    "a computed part": ({"name": "logs", "mountPath": "/x", "subPathExpr": "a"}, r"\.subPath: .* not been prepared"),
    "recursively read-only and writable": (
        {"name": "logs", "mountPath": "/x", "recursiveReadOnly": "Enabled"},
        r"\.recursiveReadOnly: Enabled needs readOnly: true",
    ),
    "recursively read-only and propagating": (
        {
            "name": "logs",
            "mountPath": "/x",
            "readOnly": True,
            "recursiveReadOnly": "IfPossible",
            "mountPropagation": "HostToContainer",
        },
        r"\.recursiveReadOnly: IfPossible needs mountPropagation None",
    ),
    "recursively read-only where the runtime cannot": (
        {"name": "logs", "mountPath": "/x", "readOnly": True, "recursiveReadOnly": "Enabled"},
        r"\.recursiveReadOnly: the runtime does not announce",
    ),
}


@pytest.mark.parametrize(("mount", "message"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_mounted_is_an_error_that_names_the_field(mount: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError, match=r"^spec\.containers\[0\]\.volumeMounts\[0\]" + message):
        mounts([mount])


def test_a_kind_of_volume_that_is_not_there_yet_is_an_error() -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "claim", "mountPath": "/x"}]},
        volumes=[{"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}],
    )
    with pytest.raises(ContainerConfigError, match="the kind of volume 'claim' is not supported"):
        configured(pod, container)


LOCAL = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def test_the_hosts_file_names_the_pod_at_each_of_its_addresses() -> None:
    text = hosts_file(make_pod({"hostname": "front"}), ("10.4.0.7", "fd00::7"), "unused\n")
    assert text == LOCAL + "10.4.0.7\tfront\nfd00::7\tfront\n"


def test_the_hosts_file_has_the_whole_name_of_a_pod_with_a_subdomain_and_its_aliases() -> None:
    pod = make_pod(
        {"subdomain": "sites", "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}, {"ip": "192.0.2.2"}]}
    )
    assert hosts_file(pod, ("10.4.0.7",), "") == (
        LOCAL + "10.4.0.7\tweb.sites.default.svc\tweb\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n192.0.2.2\n"
    )


def test_the_hosts_file_of_a_pod_on_the_nodes_network_is_the_nodes() -> None:
    text = hosts_file(make_pod({"hostNetwork": True}), ("192.0.2.10",), "127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
