"""A container's mounts, and its /etc/hosts."""

from dataclasses import replace
from typing import Any

import pytest

from syncpod.translation import ContainerConfigError
from syncpod.translation.hostname import hosts_file
from syncpod.translation.mounts import container_mounts
from tests.translation.translation import HOST, NODE, UID, as_data, configured, make_container, make_pod

VOLUMES: list[dict[str, Any]] = [
    {"name": "scratch", "emptyDir": {}},
    {"name": "logs", "hostPath": {"path": "/var/log"}},
]
HOSTS_MOUNT = {"container_path": "/etc/hosts", "host_path": f"/var/lib/syncpod/pods/{UID}/etc-hosts"}


def mounts(volume_mounts: list[dict[str, Any]], **how: Any) -> list[Any]:
    """The mounts of a container without the last one, that of its termination message."""
    config = configured(*make_container({"volumeMounts": volume_mounts}, volumes=VOLUMES), **how)
    *made, message = [as_data(mount) for mount in config.mounts]
    assert message["container_path"] == "/dev/termination-log"
    assert message["host_path"].startswith(f"/var/lib/syncpod/pods/{UID}/containers/")
    return made


def test_volume_mounts_keep_their_order_followed_by_the_hosts_file() -> None:
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


def test_an_etc_hosts_mount_of_the_container_is_kept() -> None:
    assert [each["host_path"] for each in mounts([{"name": "logs", "mountPath": "/etc/hosts"}])] == ["/var/log"]


def test_without_a_pod_address_no_hosts_file_is_mounted() -> None:
    assert mounts([], pod_ips=()) == []


def test_a_relative_mount_path_starts_at_the_container_root() -> None:
    assert mounts([{"name": "logs", "mountPath": "logs"}])[0]["container_path"] == "/logs"


@pytest.mark.parametrize(
    ("said", "propagation"),
    [
        ("None", None),
        ("HostToContainer", "PROPAGATION_HOST_TO_CONTAINER"),
        ("Bidirectional", "PROPAGATION_BIDIRECTIONAL"),
    ],
)
def test_mount_propagation_is_translated(said: str, propagation: str | None) -> None:
    made = mounts([{"name": "logs", "mountPath": "/logs", "mountPropagation": said}])[0]
    assert made.get("propagation") == propagation


def test_with_selinux_pod_volumes_are_relabelled_and_host_paths_are_not() -> None:
    node = replace(NODE, host=replace(HOST, selinux=True))
    wanted = [{"name": "logs", "mountPath": "/logs"}, {"name": "scratch", "mountPath": "/scratch"}]
    made = mounts(wanted, node=node)
    assert [each.get("selinux_relabel", False) for each in made] == [False, True, True]


def test_recursive_read_only_if_possible_depends_on_the_runtime() -> None:
    wanted = [{"name": "logs", "mountPath": "/logs", "readOnly": True, "recursiveReadOnly": "IfPossible"}]
    able = replace(NODE, recursive_read_only_handlers=("",))
    assert mounts(wanted, node=able)[0]["recursive_read_only"]
    assert "recursive_read_only" not in mounts(wanted)[0]


def test_recursive_read_only_depends_on_the_pods_runtime_handler() -> None:
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
def test_file_volumes_are_read_only_and_secret_ones_are_in_memory(
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


def test_a_memory_backed_empty_dir_has_the_kubelets_path_if_the_node_may_mount() -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
    )
    mount = configured(pod, container, node=replace(NODE, may_mount=True)).mounts[0]
    assert mount.host_path == f"{NODE.state_dir}/pods/{UID}/volumes/kubernetes.io~empty-dir/v"


def test_a_sub_path_mount_uses_the_prepared_path() -> None:
    wanted = [{"name": "scratch", "mountPath": "/a"}, {"name": "scratch", "mountPath": "/b", "subPath": "b"}]
    made = mounts(wanted, sub_paths={1: "/prepared/1"})
    assert made[1] == {"container_path": "/b", "host_path": "/prepared/1"}
    assert made[0]["host_path"].endswith("/scratch")


def test_an_image_volume_is_mounted_read_only_by_the_runtime() -> None:
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
def test_an_impossible_mount_is_an_error_that_names_the_field(mount: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError, match=r"^spec\.containers\[0\]\.volumeMounts\[0\]" + message):
        mounts([mount])


def test_an_unsupported_volume_kind_is_an_error() -> None:
    pod, container = make_container(
        {"volumeMounts": [{"name": "claim", "mountPath": "/x"}]},
        volumes=[{"name": "claim", "nfs": {"server": "s", "path": "/"}}],
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


def test_the_hosts_file_has_the_fqdn_and_the_host_aliases() -> None:
    pod = make_pod(
        {"subdomain": "sites", "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}, {"ip": "192.0.2.2"}]}
    )
    assert hosts_file(pod, ("10.4.0.7",), "") == (
        LOCAL + "10.4.0.7\tweb.sites.default.svc\tweb\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n192.0.2.2\n"
    )


def test_in_a_cluster_the_fqdn_ends_with_the_clusters_domain() -> None:
    pod = make_pod({"subdomain": "sites", "hostname": "front"})
    whole = "front.sites.default.svc.cluster.local"
    assert hosts_file(pod, ("10.4.0.7",), "", "cluster.local") == f"{LOCAL}10.4.0.7\t{whole}\tfront\n"
    alone = make_pod({"hostname": "front"})
    assert hosts_file(alone, ("10.4.0.7",), "", "cluster.local") == LOCAL + "10.4.0.7\tfront\n"


def test_the_hosts_file_of_a_host_network_pod_is_the_nodes() -> None:
    text = hosts_file(make_pod({"hostNetwork": True}), ("192.0.2.10",), "127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
