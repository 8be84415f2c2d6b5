"""A pod is admitted, or refused with all errors in it."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from syncpod.pod import (
    Pod,
    PodInvalid,
    admit,
    admit_ephemeral_container,
    admit_pod,
    load_documents,
    parse_pod,
    pod_to_wire,
    with_defaults,
)
from tests.pod.examples import changed, manifest, pod


def test_a_valid_pod_is_admitted_with_defaults_and_no_warning() -> None:
    assert admit(pod()) == (with_defaults(parse_pod(pod())), ())


@pytest.mark.parametrize("name", ["web.yaml", "kyaml.yaml", "security.yaml", "from_kubectl.yaml"])
def test_admission_is_idempotent(name: str) -> None:
    (document,) = load_documents(manifest(name))
    taken = admit_pod(document)
    assert admit_pod(taken) == taken
    assert admit_pod(pod_to_wire(taken)) == taken


def test_all_problems_are_reported_at_once() -> None:
    document = changed(
        {
            "metadata.name": "A",
            "spec.containers.0.image": "",
            "spec.readinessGates": [{}],
            "spec.hostAliases": [{}],
        }
    )
    with pytest.raises(PodInvalid) as caught:
        admit(document)
    assert [problem.path for problem in caught.value.problems] == [
        "metadata.name", "spec.containers[0].image", "spec.readinessGates[0].conditionType", "spec.hostAliases[0].ip",
    ]  # fmt: skip


def test_a_long_list_of_problems_is_truncated_only_in_the_message() -> None:
    document = pod(metadata__labels={f"l{n}": n for n in range(50)})
    with pytest.raises(PodInvalid) as caught:
        admit(document)
    assert len(caught.value.problems) == 50
    assert str(caught.value).endswith("; and 30 more")


def test_a_manifest_with_ephemeral_containers_is_refused() -> None:
    with pytest.raises(PodInvalid, match=r"^spec\.ephemeralContainers: must not be set in a manifest"):
        admit(pod(spec__ephemeralContainers=[{"name": "d", "image": "i"}]))


def test_fields_that_a_cluster_added_are_dropped_from_kubectl_output() -> None:
    (document,) = load_documents(manifest("from_kubectl.yaml"))
    taken, warnings = admit(document)
    assert [str(warning) for warning in warnings] == [
        "metadata: dropped what an API server filled in: resourceVersion, uid, creationTimestamp, generation, managedFields",
        "metadata.ownerReferences: dropped: only a cluster's controllers use it",
        "metadata.finalizers: dropped: only a cluster's controllers use it",
        "status: dropped: another node has reported it",
        "spec.nodeName: dropped: a scheduler chose worker-1",
        "spec.volumes: dropped kube-api-access-x7k2p: no API server issues tokens here",
    ]  # fmt: skip
    wire = pod_to_wire(taken)
    assert wire["metadata"] == {
        "name": "shop-6f7d8-abcde", "generateName": "shop-6f7d8-", "namespace": "stores",
        "labels": {"app": "shop", "pod-template-hash": "6f7d8"}, "annotations": {"example.com/owner": "shop"},
    }  # fmt: skip
    assert "status" not in wire and "volumes" not in wire["spec"] and "nodeName" not in wire["spec"]
    assert "volumeMounts" not in wire["spec"]["containers"][0]


def test_what_a_node_of_ours_prints_is_taken_again_with_one_warning() -> None:
    """Neither a cluster nor another node has anything to do with it."""
    metadata = {"uid": "a-uid", "creationTimestamp": "2026-01-01T00:00:10Z", "generation": 1}
    document = pod(spec__nodeName="vm")
    document |= {"metadata": {**document["metadata"], **metadata}, "status": {"phase": "Running"}}
    taken, warnings = admit(document)
    assert [str(warning) for warning in warnings] == [
        "dropped what was filled in when it ran: metadata.uid, metadata.creationTimestamp, metadata.generation, "
        "spec.nodeName, status"
    ]
    assert taken == admit_pod(pod())


def test_a_pod_that_a_cluster_has_bound_to_the_node_keeps_its_generation() -> None:
    document = pod()
    metadata = {**document["metadata"], "generation": 7}
    origin = {"annotations": {"kubernetes.io/config.source": "kubernetes"}}
    taken, warnings = admit({**document, "metadata": {**metadata, **origin}})
    assert (taken.metadata.generation, list(warnings)) == (7, [])
    assert admit({**document, "metadata": metadata}).pod.metadata.generation is None
    printed = {**metadata, **origin, "uid": "u", "creationTimestamp": "2026-01-01T00:00:10Z"}
    assert admit({**document, "metadata": printed}).pod.metadata.generation is None


def test_a_field_that_nobody_wrote_is_not_reported_beside_the_one_that_filled_it_in() -> None:
    gpu = "example.com/gpu"
    document = pod(spec__hostNetwork=True)
    container = document["spec"]["containers"][0]
    container |= {"resources": {"limits": {gpu: "1"}}, "ports": [{"containerPort": 70_000}]}

    def paths() -> list[str]:
        with pytest.raises(PodInvalid) as caught:
            admit(document)
        return [problem.path.removeprefix("spec.containers[0].") for problem in caught.value.problems]

    assert paths() == ["ports[0].containerPort", f"resources.limits[{gpu}]"]
    container["resources"]["requests"] = {gpu: "1"}
    container["ports"].append({"containerPort": 80})
    container["ports"].append({"containerPort": 80})
    said = paths()
    assert said[-2:] == [f"resources.limits[{gpu}]", f"resources.requests[{gpu}]"], "what is written is reported"
    assert "ports[2].containerPort" in said, "also what is wrong only because of how it was filled in"
    del container["resources"], container["ports"][0]
    with pytest.raises(PodInvalid) as caught:
        admit(document)
    assert str(caught.value) == (
        "spec.containers[0].ports[1].containerPort: 80 is there twice: it is a port of the node too, since hostNetwork "
        "is true"
    )


MIRROR = """
apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubernetes.io/config.hash: 3a5e1b1f0f0c
    kubernetes.io/config.mirror: 3a5e1b1f0f0c
    kubernetes.io/config.seen: "2026-01-01T00:00:00.000000000Z"
    kubernetes.io/config.source: file
    prometheus.io/port: "2381"
  creationTimestamp: "2026-01-01T00:00:10Z"
  generation: 1
  labels: {component: etcd, tier: control-plane}
  name: etcd-worker-1
  namespace: kube-system
  ownerReferences:
  - {apiVersion: v1, controller: true, kind: Node, name: worker-1, uid: 1d2c3b4a-0000-4000-8000-000000000000}
  resourceVersion: "314"
  uid: 0f0e0d0c-0000-4000-8000-000000000000
spec:
  containers:
  - command: [etcd]
    image: registry.k8s.io/etcd:3.6.5-0
    imagePullPolicy: IfNotPresent
    name: etcd
    resources: {requests: {cpu: 100m, memory: 100Mi}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  hostNetwork: true
  nodeName: worker-1
  preemptionPolicy: PreemptLowerPriority
  priority: 2000001000
  priorityClassName: system-node-critical
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  terminationGracePeriodSeconds: 30
  tolerations:
  - {effect: NoExecute, operator: Exists}
status:
  phase: Running
"""
"""A static pod as `kubectl get -o yaml` prints it."""


def test_fields_that_a_kubelet_added_are_dropped_from_a_mirror_pod() -> None:
    (document,) = load_documents(MIRROR)
    taken, warnings = admit(document)
    assert [str(warning) for warning in warnings] == [
        "metadata: dropped what an API server filled in: resourceVersion, uid, creationTimestamp, generation",
        "metadata.annotations[kubernetes.io/config.hash]: dropped: another node's kubelet wrote it",
        "metadata.annotations[kubernetes.io/config.mirror]: dropped: another node's kubelet wrote it",
        "metadata.annotations[kubernetes.io/config.seen]: dropped: another node's kubelet wrote it",
        "metadata.annotations[kubernetes.io/config.source]: dropped: another node's kubelet wrote it",
        "metadata.ownerReferences: dropped: only a cluster's controllers use it",
        "status: dropped: another node has reported it",
        "spec.nodeName: dropped: its manifest lies on worker-1",
        "spec.priorityClassName: has no effect here: there is no API server that has classes; eviction ranks pods by spec.priority",
        "spec.tolerations: has no effect here: only a scheduler reads it",
    ]  # fmt: skip
    assert taken.metadata.annotations == {"prometheus.io/port": "2381"}
    assert admit(taken).pod == taken


def test_a_mirror_annotation_without_a_node_name_is_refused() -> None:
    """As from an API server: only fields that the server itself wrote are dropped."""
    mirror = {"kubernetes.io/config.mirror": "x"}
    with pytest.raises(PodInvalid, match=r"config\.mirror\]: may be set only with spec\.nodeName"):
        admit(pod(metadata__annotations=mirror))
    assert admit(pod(metadata__annotations=mirror, spec__nodeName="n")).pod.metadata.annotations == mirror


def test_a_manifest_may_set_uid_and_node_name() -> None:
    taken, warnings = admit(pod(metadata__uid="mine", spec__nodeName="node-1"))
    assert (taken.metadata.uid, taken.spec.node_name, warnings) == ("mine", "node-1", ())


def test_a_users_projected_volume_is_not_silently_dropped() -> None:
    token = {"sources": [{"serviceAccountToken": {"path": "t"}}]}
    with pytest.raises(
        PodInvalid,
        match=r"^spec\.volumes\[0\]\.projected\.sources\[0\]\.serviceAccountToken: not supported yet: what only an API server",
    ):
        admit(pod(spec__volumes=[{"name": "mine", "projected": token}]))


RUNNING = with_defaults(parse_pod(pod(spec__ephemeralContainers=[{"name": "first", "image": "busybox:1"}])))


def test_an_ephemeral_container_gets_its_defaults() -> None:
    """Row 55: as any container does."""
    taken = admit_ephemeral_container(RUNNING, {"name": "look", "image": "busybox", "targetContainerName": "server"})
    assert pod_to_wire(taken) == {
        "name": "look", "image": "busybox", "imagePullPolicy": "Always", "targetContainerName": "server",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    assert admit_ephemeral_container(RUNNING, taken) == taken


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"image": "i"}, "ephemeralContainer.name: required"),
        ({"name": "../x", "image": "i"}, "ephemeralContainer.name: must consist of"),
        ({"name": "server", "image": "i"}, "ephemeralContainer.name: server is a container of this pod already"),
        ({"name": "first", "image": "i"}, "ephemeralContainer.name: first is a container of this pod already"),
        ({"name": "a"}, "ephemeralContainer.image: required"),
        ({"name": "a", "image": "i", "x": 1}, "x: unknown field"),
        ({"name": "a", "image": "i", "targetContainerName": "b"}, "ephemeralContainer.targetContainerName: 'b' is no"),
        ({"name": "a", "image": "i", "volumeMounts": [{"name": "b", "mountPath": "/b"}]}, "ephemeralContainer.volumeMounts[0].name: 'b' is not in spec.volumes"),
        ({"name": "a", "image": "i", "lifecycle": {}}, "ephemeralContainer.lifecycle: must not be set"),
        ({"name": "a", "image": "i", "securityContext": {"windowsOptions": {}}}, "ephemeralContainer.securityContext.windowsOptions: not supported yet: Windows"),
    ],
)  # fmt: skip
def test_an_ephemeral_container_in_conflict_with_the_pod_is_refused(document: dict[str, Any], problem: str) -> None:
    """Row 55: with the path of the error."""
    with pytest.raises(PodInvalid) as caught:
        admit_ephemeral_container(RUNNING, document)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ports", [{"containerPort": 80}]),
        ("resources", {"limits": {"cpu": "1"}}),
        ("resources", {"requests": {"memory": "1Mi"}}),
        ("resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
        ("restartPolicy", "Always"),
        ("restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        ("livenessProbe", {"exec": {"command": ["true"]}}),
        ("readinessProbe", {"exec": {"command": ["true"]}}),
        ("startupProbe", {"exec": {"command": ["true"]}}),
        ("lifecycle", {"preStop": {"exec": {"command": ["true"]}}}),
    ],
)
def test_fields_forbidden_in_an_ephemeral_container_are_refused_by_path(field: str, value: Any) -> None:
    """Row 55: no resources, probes, hooks, ports, and never a restart."""
    with pytest.raises(PodInvalid) as caught:
        admit_ephemeral_container(RUNNING, {"name": "look", "image": "busybox", field: value})
    paths = {problem.path: problem.message for problem in caught.value.problems}
    assert paths[f"ephemeralContainer.{field}"] == "must not be set for an ephemeral container"


def test_admission_ignores_and_drops_the_status() -> None:
    assert admit_pod(Pod.model_validate(pod() | {"status": {"phase": "Failed"}})).status == Pod().status
