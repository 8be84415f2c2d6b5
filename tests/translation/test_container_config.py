"""The CRI configuration of a container by its kind, command and identity."""

import json
from typing import Any

import pytest

from syncpod.translation import ContainerConfigError, names
from tests.translation.translation import as_data, configured, make_container, make_pod


def test_the_restart_count_is_in_the_attempt_the_annotation_and_the_log_path() -> None:
    config = configured(*make_container({}), restart_count=7)
    assert config.metadata.attempt == 7
    assert config.annotations[names.CONTAINER_RESTART_COUNT_ANNOTATION] == "7"
    assert config.log_path == "main/7.log"


def test_the_image_spec_has_the_resolved_reference_and_the_users_image_name() -> None:
    config = configured(*make_container({}))
    assert as_data(config.image) == {"image": "sha256:0123", "user_specified_image": "busybox:1"}


def test_an_unresolved_image_keeps_the_name_from_the_manifest() -> None:
    assert configured(*make_container({}), image=None).image.image == "busybox:1"


def test_a_container_has_the_identity_labels_but_no_labels_of_the_pod() -> None:
    pod = make_pod(labels={"app": "web"}, namespace="team-a")
    assert dict(configured(pod, pod.spec.containers[0]).labels) == {
        "io.kubernetes.container.name": "main",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "team-a",
        "io.kubernetes.pod.uid": pod.metadata.uid,
        "syncpod.dev/node": "node-1",
    }


def test_the_annotations_have_all_that_a_kill_without_the_spec_needs() -> None:
    pod = make_pod(
        {
            "containers": [
                {
                    "name": "test_container",
                    "image": "foo/image:v1",
                    "terminationMessagePath": "/tmp/last",
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "ports": [{"containerPort": 0}, {"name": "a<b", "containerPort": 80, "hostPort": 0}],
                    "lifecycle": {"preStop": {"httpGet": {"path": "/bye?a=1&b=2", "port": "http"}}},
                }
            ],
        },
        deletionGracePeriodSeconds=5,
    )
    assert dict(configured(pod, pod.spec.containers[0], restart_count=1).annotations) == {
        "io.kubernetes.container.hash": "8e45cbd0",
        "io.kubernetes.container.restartCount": "1",
        "io.kubernetes.container.terminationMessagePath": "/tmp/last",
        "io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
        "io.kubernetes.container.ports": (
            r'[{"containerPort":0,"protocol":"TCP"},{"name":"a\u003cb","containerPort":80,"protocol":"TCP"}]'
        ),
        "io.kubernetes.container.preStopHandler": (
            r'{"httpGet":{"path":"/bye?a=1\u0026b=2","port":"http","scheme":"HTTP"}}'
        ),
        "io.kubernetes.pod.deletionGracePeriod": "5",
        "io.kubernetes.pod.terminationGracePeriod": "30",
        "syncpod.dev/incarnation": "life-1",
    }


def test_a_relative_termination_message_path_starts_at_the_container_root() -> None:
    """The API takes it, and the kubelet makes it absolute."""
    config = configured(*make_container({"terminationMessagePath": "foo/bar"}))
    assert [mount.container_path for mount in config.mounts][-1] == "/foo/bar"


def test_the_ports_annotation_is_json_with_the_container_ports() -> None:
    ports = [{"name": "http", "containerPort": 80, "protocol": "TCP"}]
    config = configured(*make_container({"ports": ports}))
    assert json.loads(config.annotations[names.CONTAINER_PORTS_ANNOTATION]) == ports


def test_an_ephemeral_container_shares_its_targets_processes() -> None:
    """Row 55: namespace mode TARGET, with the target's id."""
    pod = make_pod({"ephemeralContainers": [{"name": "debug", "image": "a", "targetContainerName": "main"}]})
    config = configured(pod, pod.spec.ephemeral_containers[0], kind="ephemeral_container", target_id="c0ffee")
    assert as_data(config.linux.security_context.namespace_options) == {"pid": "TARGET", "target_id": "c0ffee"}


def test_an_ephemeral_container_needs_no_target_if_the_pod_shares_the_pid_namespace() -> None:
    """Row 55: it sees all of them without."""
    pod = make_pod({"shareProcessNamespace": True, "ephemeralContainers": [{"name": "debug", "image": "a"}]})
    config = configured(pod, pod.spec.ephemeral_containers[0], kind="ephemeral_container", target_id="c0ffee")
    assert as_data(config.linux.security_context.namespace_options) == {}


def test_an_ephemeral_container_with_a_missing_target_is_an_error() -> None:
    """Row 55: the sentence is the kubelet's."""
    pod = make_pod({"ephemeralContainers": [{"name": "debug", "image": "a", "targetContainerName": "main"}]})
    with pytest.raises(ContainerConfigError, match="unable to find target container main"):
        configured(pod, pod.spec.ephemeral_containers[0], kind="ephemeral_container")


def test_containers_of_a_pod_in_host_namespaces_have_namespace_mode_node() -> None:
    pod, container = make_container({}, hostNetwork=True, hostPID=True, hostIPC=True)
    assert as_data(configured(pod, container).linux.security_context.namespace_options) == {
        "network": "NODE",
        "pid": "NODE",
        "ipc": "NODE",
    }


@pytest.mark.parametrize("name", ["..", "../../../etc/cron.d/x", "a/b", ""])
def test_a_container_name_that_leads_out_of_the_log_directory_is_an_error(name: str) -> None:
    pod = make_pod({"containers": [{"name": name, "image": "a"}]})
    with pytest.raises(ContainerConfigError, match=r"spec\.containers\[\]\.name"):
        configured(pod, pod.spec.containers[0])


@pytest.mark.parametrize(("field", "kind"), [("containers", "container"), ("initContainers", "init_container")])
def test_an_error_says_where_in_the_pod_it_is(field: str, kind: Any) -> None:
    wrong = {"name": "wrong", "image": "a", "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.no"}}}]}
    pod = make_pod({field: [wrong]})
    container = (*pod.spec.init_containers, *pod.spec.containers)[0]
    with pytest.raises(ContainerConfigError, match=rf"^spec\.{field}\[0\]\.env\[0\]\.valueFrom\.fieldRef\.fieldPath"):
        configured(pod, container, kind=kind)
