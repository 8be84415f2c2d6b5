"""Unsupported fields are refused by name, and ignored fields cause a warning."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from syncpod.pod import PodInvalid, Volume, admit, check_supported, check_without_effect, parse_pod, with_defaults
from syncpod.pod.origin import KUBERNETES_SOURCE, SOURCE_ANNOTATION
from tests.pod.examples import changed

C = "spec.containers.0"
CP = "spec.containers[0]"


def env(**source: Any) -> dict[str, Any]:
    return {f"{C}.env": [{"name": "A", "valueFrom": source}]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({f"{C}.volumeDevices": [{"name": "work", "devicePath": "/d"}]}, f"{CP}.volumeDevices: not supported yet: block volumes"),
    ({f"{C}.resources": {"claims": [{"name": "c"}]}}, f"{CP}.resources.claims: not supported yet: resource claims"),
    ({f"{C}.resources": {"requests": {"example.com/gpu": 1}}}, f"{CP}.resources.requests[example.com/gpu]: not supported yet: the resource example.com/gpu"),
    ({"spec.overhead": {"cpu": "1", "example.com/gpu": 1}}, "spec.overhead[example.com/gpu]: not supported yet: the resource example.com/gpu"),
    ({f"{C}.securityContext": {"windowsOptions": {}}}, f"{CP}.securityContext.windowsOptions: not supported yet: Windows"),
    *(
        ({"spec.volumes.0": {"name": "work", "projected": {"sources": [{kind: {}}]}}}, f"spec.volumes[0].projected.sources[0].{kind}: not supported yet: what only an API server can issue, as {kind} is: mount a Secret instead. If a cluster has injected it (Istio, Linkerd, a cloud's identity), apply the manifest as it was before")
        for kind in ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
    ),
    ({"spec.resources": {"claims": [{"name": "c"}]}}, "spec.resources.claims: not supported yet: resource claims"),
    ({"spec.resourceClaims": [{"name": "c"}]}, "spec.resourceClaims: not supported yet: resource claims"),
    ({"spec.os": {"name": "windows"}}, "spec.os.name: not supported yet: operating systems other than linux"),
    ({"spec.securityContext": {"windowsOptions": {}}}, "spec.securityContext.windowsOptions: not supported yet: Windows"),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i", "volumeDevices": [{}]}]}, "spec.ephemeralContainers[0].volumeDevices: not supported yet: block volumes"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_unsupported_fields_are_refused_by_name(changes: dict[str, Any], problem: str) -> None:
    assert [str(found) for found in check_supported(with_defaults(parse_pod(changed(changes))))] == [problem]


def test_what_a_cluster_counts_by_its_own_names_means_nothing_to_the_node() -> None:
    counted = {"scheduling.k8s.io/foo": "1", "kubernetes.io/foo": "1"}
    document = changed({f"{C}.resources": {"requests": counted, "limits": counted}})
    document["metadata"]["annotations"] = {SOURCE_ANNOTATION: KUBERNETES_SOURCE}
    assert [str(found) for found in check_supported(with_defaults(parse_pod(document)))] == [
        f"{CP}.resources.{kind}[kubernetes.io/foo]: not supported yet: the resource kubernetes.io/foo"
        for kind in ("limits", "requests")
    ]


HAD_HERE = ("configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret")
SOURCES = sorted({str(field.alias) for field in Volume.model_fields.values()} - {"name", *HAD_HERE})


@pytest.mark.parametrize("source", SOURCES)
def test_unsupported_volume_kinds_are_refused_by_name(source: str) -> None:
    document = changed({"spec.volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", source: {}}]})
    found = check_supported(with_defaults(parse_pod(document)))
    assert [str(problem) for problem in found] == [
        f"spec.volumes[1].{source}: not supported yet: {source} volumes, since no storage driver runs here: "
        "mount the storage on the node and use hostPath, or use emptyDir for data that goes with the pod"
    ]


def test_fields_of_an_unsupported_volume_driver_are_not_validated() -> None:
    """Whether an nfs volume names its server is of no use to someone who cannot have one."""
    pod = changed({"spec.volumes.0": {"name": "work", "nfs": {"path": "relative", "anything": [1, {"deep": None}]}}})
    assert problems(pod) == [
        "spec.volumes[0].nfs: not supported yet: nfs volumes, since no storage driver runs here: "
        "mount the storage on the node and use hostPath, or use emptyDir for data that goes with the pod"
    ]
    with pytest.raises(PodInvalid, match=r"^spec\.volumes\[0\]\.nfs: must be an object$"):
        parse_pod(changed({"spec.volumes.0": {"name": "work", "nfs": "server:/path"}}))


def problems(document: dict[str, Any]) -> list[str]:
    with pytest.raises(PodInvalid) as caught:
        admit(document)
    return [str(problem) for problem in caught.value.problems]


SUPPORTED: list[dict[str, Any]] = [
    {},
    {"spec.priority": 5},
    {"spec.volumes": [{"name": "work", "hostPath": {"path": "/a"}}]},
    {"spec.volumes": [{"name": "work", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
    {"spec.volumes": [{"name": "work", "configMap": {"name": "a"}}, {"name": "b", "secret": {"secretName": "b"}}]},
    {"spec.volumes": [{"name": "work", "projected": {"sources": [{"secret": {"name": "a"}}]}}]},
    {"spec.volumes": [{"name": "work", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}]},
    {f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]},
    {"spec.initContainers.0.restartPolicy": "Always"},
    {f"{C}.securityContext": {"privileged": True, "procMount": "Default", "capabilities": {"add": ["ALL"]}}, f"{C}.tty": True, f"{C}.stdin": True},
    {"spec.hostPID": True, "spec.hostIPC": True, "spec.hostNetwork": True, "spec.hostUsers": True, "spec.runtimeClassName": "runsc"},
    {"spec.shareProcessNamespace": True, "spec.setHostnameAsFQDN": False, "spec.hostname": "a", "spec.os": {"name": "linux"}},
    {"spec.resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "spec.overhead": {"memory": "1Mi"}},
    {f"{C}.resources": {"limits": {"ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi", "cpu": 1}}},
    {f"{C}.ports": [{"containerPort": 80, "hostPort": 80}], f"{C}.resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    {f"{C}.volumeMounts": [{"name": "work", "mountPath": "/w", "mountPropagation": "None", "readOnly": True}]},
    {f"{C}.volumeMounts": [{"name": "work", "mountPath": "/w", "mountPropagation": "HostToContainer"}]},
    {"spec.hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}], "spec.dnsConfig": {"searches": ["a.b"]}},
    {"spec.dnsPolicy": "ClusterFirstWithHostNet", "spec.subdomain": "a", "spec.setHostnameAsFQDN": True},
    {"spec.hostnameOverride": "a"},
    env(resourceFieldRef={"resource": "limits.cpu"}),
    env(configMapKeyRef={"name": "m", "key": "k"}),
    env(secretKeyRef={"name": "m", "key": "k"}),
    env(fileKeyRef={"volumeName": "work", "path": "p", "key": "k"}),
    {f"{C}.envFrom": [{"prefix": "A_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}]},
    {f"{C}.volumeMounts": [{"name": "work", "mountPath": "/w", "subPath": "a"}, {"name": "work", "mountPath": "/x", "subPathExpr": "$(A)"}]},
    {f"{C}.livenessProbe": {"tcpSocket": {"port": 1}}, f"{C}.readinessProbe": {"exec": {"command": ["true"]}}, f"{C}.startupProbe": {"httpGet": {"port": 1}}},
    {f"{C}.lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"exec": {"command": ["true"]}}}},
    {f"{C}.terminationMessagePath": "/dev/other", f"{C}.terminationMessagePolicy": "FallbackToLogsOnError"},
    {"spec.nodeSelector": {"disk": "ssd"}},
    {"spec.affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}},
    {"spec.activeDeadlineSeconds": 5, "spec.imagePullSecrets": [{"name": "registry"}]},
    {f"{C}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
    env(fieldRef={"fieldPath": "status.podIP"}),
]  # fmt: skip


@pytest.mark.parametrize("changes", SUPPORTED, ids=str)
def test_supported_fields_are_neither_refused_nor_warned_about(changes: dict[str, Any]) -> None:
    pod = with_defaults(parse_pod(changed(changes)))
    assert check_supported(pod) == () == check_without_effect(pod)


WITHOUT_EFFECT: list[tuple[str, Any]] = [
    ("topologySpreadConstraints", [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
    ("affinity", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}),
    ("affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}),
    ("affinity", {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}),
    ("tolerations", [{"operator": "Exists"}]),
    ("priorityClassName", "high"),
    ("preemptionPolicy", "Never"),
    ("schedulerName", "mine"),
    ("schedulingGates", [{"name": "wait"}]),
    ("schedulingGroup", {"podGroupName": "g"}),
    ("serviceAccountName", "robot"),
    ("serviceAccount", "robot"),
    ("automountServiceAccountToken", True),
    ("securityContext", {"fsGroupChangePolicy": "OnRootMismatch"}),
]


@pytest.mark.parametrize(("field", "value"), WITHOUT_EFFECT)
def test_fields_for_cluster_components_are_accepted_with_a_warning(field: str, value: Any) -> None:
    pod = with_defaults(parse_pod(changed({f"spec.{field}": value})))
    assert check_supported(pod) == ()
    (warning,) = check_without_effect(pod)
    said = {"serviceAccount": "serviceAccountName", "securityContext": "securityContext.fsGroupChangePolicy"}
    assert warning.path.startswith(f"spec.{said.get(field, field)}")
    assert warning.message.startswith("has no effect here: ")


def test_fs_group_change_policy_is_accepted_with_a_warning() -> None:
    security = {"fsGroup": 1, "fsGroupChangePolicy": "OnRootMismatch"}
    (warning,) = check_without_effect(with_defaults(parse_pod(changed({"spec.securityContext": security}))))
    assert str(warning) == (
        "spec.securityContext.fsGroupChangePolicy: has no effect here: it is for volumes that outlive their pod"
    )


def test_a_deprecated_seccomp_annotation_causes_a_warning() -> None:
    key = "seccomp.security.alpha.kubernetes.io/pod"
    (warning,) = check_without_effect(
        with_defaults(parse_pod(changed({"metadata.annotations": {key: "runtime/default"}})))
    )
    assert warning.path == f"metadata.annotations[{key}]"
