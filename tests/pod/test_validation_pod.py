"""The API server's rules for whole pods and scheduling: violations are refused with their path."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from tests.pod.examples import problems

A = "metadata.annotations"
C = "spec.containers.0"
SEARCH = "must consist of lower-case letters, digits, '-', '_' and '.', and end with a letter or digit"
S = "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
M = "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
Q = "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/server"


def nodes(**fields: Any) -> dict[str, Any]:
    """Change the pod to require nodes of one term."""
    return {"spec.affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [fields]}}}}


def pods(**fields: Any) -> dict[str, Any]:
    return {"spec.affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}} | fields]}}}


def spread(**fields: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}} | fields


def expression(**fields: Any) -> dict[str, Any]:
    return {"key": "k", "operator": "In", "values": ["v"]} | fields


def windows(**options: Any) -> dict[str, Any]:
    return {"spec.os": {"name": "windows"}, f"{C}.securityContext": {"windowsOptions": options}}


GOOD: list[dict[str, Any]] = [
    {"metadata.generateName": "web-"},
    {A: {"scheduler.alpha.kubernetes.io/tolerations": '[{"key": "a", "operator": "Exists"}]', "controller.kubernetes.io/pod-deletion-cost": "-5"}},
    {A: {SECCOMP: "docker/default"}, f"{C}.securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
    {A: {SECCOMP: "localhost/a/b", "seccomp.security.alpha.kubernetes.io/pod": "unconfined"}},
    {A: {"kubernetes.io/config.mirror": "x"}, "spec.nodeName": "here"},
    {"spec.dnsPolicy": "None", "spec.dnsConfig": {"nameservers": ["1.1.1.1", "fe80::1", "2001:db8::1"], "searches": [".", "_ldap._tcp.x.", "a.b"] + ["s"] * 29, "options": [{"name": "ndots"}]}},
    {"spec.hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "a.b-c"]}, {"ip": "::1"}]},
    {"spec.resourceClaims": [{"name": "gpu", "resourceClaimName": "a.b"}, {"name": "net", "resourceClaimTemplateName": "c"}]},
    {"spec.schedulingGates": [{"name": "example.com/a"}]},
    {f"{C}.livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-A", "value": "any\nthing"}]}}},
    {f"{C}.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "requests.hugepages-1Gi"}}}]},
    {f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "a/..b", "key": "x y"}}}]},
    {f"{C}.envFrom": [{"prefix": "1-", "configMapRef": {"name": "a.b"}}, {"secretRef": {"name": "s", "optional": True}}]},
    nodes(matchExpressions=[expression(operator="Gt", values=["any"])], matchFields=[expression(key="metadata.name", values=["node.a"])]),
    nodes(),
    {"spec.affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [expression(values=["no label !"])]}}]}}},
    pods(namespaces=["a"], matchLabelKeys=["app"], mismatchLabelKeys=["x/y"], labelSelector={"matchLabels": {"x/y": ""}, "matchExpressions": [expression(key="app")]}),
    {"spec.topologySpreadConstraints": [spread(minDomains=1, matchLabelKeys=["app"]), spread(whenUnsatisfiable="ScheduleAnyway")]},
    {"spec.os": {"name": "linux"}, "spec.hostPID": True},
    {"spec.os": {"name": "windows"}, f"{C}.securityContext": {"runAsNonRoot": True, "windowsOptions": {"runAsUserName": "DOMAIN\\user", "gmsaCredentialSpec": "{}"}}},
    {"spec.os": {"name": "windows"}, "spec.hostNetwork": True, "spec.securityContext": {"windowsOptions": {"hostProcess": True}}},
]  # fmt: skip


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_values_accepted_by_kubernetes_are_accepted(changes: dict[str, Any]) -> None:
    assert problems(changes) == []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"metadata.generateName": "Web-"}, f"metadata.generateName: {S}"),
    ({"metadata.labels": {"a/b/c": ""}}, "metadata.labels[a/b/c]: must have a lower-case DNS subdomain before its '/'"),
    ({"metadata.labels": {"a": "é"}}, f"metadata.labels[a]: {Q}"),
    ({"metadata.labels": {"\u0430pp": "x"}}, rf"metadata.labels[\u0430pp]: {Q}"),
    ({A: {"k": "v" * 262_144}}, "metadata.annotations: must be no more than 256 KiB in all"),
    ({A: {"kubernetes.io/config.mirror": ""}}, "metadata.annotations[kubernetes.io/config.mirror]: may be set only with spec.nodeName, since only a kubelet sets it"),
    ({A: {"controller.kubernetes.io/pod-deletion-cost": "007"}}, "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: must be an integer of 32 bits"),
    ({A: {"controller.kubernetes.io/pod-deletion-cost": "2147483648"}}, "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: must be an integer of 32 bits"),
    ({A: {"scheduler.alpha.kubernetes.io/tolerations": "{"}}, "metadata.annotations[scheduler.alpha.kubernetes.io/tolerations]: must be a list of tolerations, in JSON"),
    ({A: {"scheduler.alpha.kubernetes.io/tolerations": "[" * 100_000}}, "metadata.annotations[scheduler.alpha.kubernetes.io/tolerations]: must be a list of tolerations, in JSON"),
    ({A: {"scheduler.alpha.kubernetes.io/tolerations": '[{"value": "x"}]'}}, "metadata.annotations[scheduler.alpha.kubernetes.io/tolerations][0].operator: must be Exists where key is empty"),
    ({A: {SECCOMP: "default"}}, f"metadata.annotations[{SECCOMP}]: must be runtime/default, unconfined or localhost/<relative path>"),
    ({A: {SECCOMP: "localhost/../x"}}, f"metadata.annotations[{SECCOMP}]: must be runtime/default, unconfined or localhost/<relative path>"),
    ({A: {SECCOMP: "unconfined"}, f"{C}.securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, f"metadata.annotations[{SECCOMP}]: must agree with the seccompProfile of container server"),
    ({A: {"seccomp.security.alpha.kubernetes.io/pod": "localhost/a"}, "spec.securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}}}, "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: must agree with the seccompProfile of the pod"),
    ({"spec.dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, "spec.dnsConfig.nameservers: must be no more than 3"),
    *(({"spec.dnsConfig": {"nameservers": [address]}}, f"spec.dnsConfig.nameservers[0]: {wrong}") for address, wrong in (
        ("", "must be an IP address"), ("010.0.0.1", "must be an IP address"), ("10.0.0.1/24", "must be an IP address"),
        ("fe80::1%eth0", "must be an IP address, with no zone and no IPv4 address inside an IPv6 one"),
        ("::ffff:10.0.0.1", "must be an IP address, with no zone and no IPv4 address inside an IPv6 one"))),
    ({"spec.dnsConfig": {"searches": ["a"] * 33}}, "spec.dnsConfig.searches: must be no more than 32"),
    ({"spec.dnsConfig": {"searches": ["a" * 253] * 9}}, "spec.dnsConfig.searches: must be no more than 2048 characters with blanks between"),
    *(({"spec.dnsConfig": {"searches": [search]}}, f"spec.dnsConfig.searches[0]: {SEARCH}") for search in ("", "..", "a..b", "A", "a b", "a\nb", "-a", "a_")),
    ({"spec.dnsConfig": {"searches": ["a" * 254]}}, "spec.dnsConfig.searches[0]: must be no more than 253 characters"),
    ({"spec.dnsConfig": {"options": [{"value": "1"}]}}, "spec.dnsConfig.options[0].name: required"),
    ({"spec.hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "B"]}]}, f"spec.hostAliases[0].hostnames[1]: {S}"),
    ({"spec.hostAliases": [{"hostnames": ["a"]}]}, "spec.hostAliases[0].ip: must be an IP address"),
    ({"spec.resourceClaims": [{"resourceClaimName": "a"}]}, "spec.resourceClaims[0].name: required"),
    ({"spec.resourceClaims": [{"name": "a", "resourceClaimName": "b"}] * 2}, "spec.resourceClaims[1].name: a is there twice"),
    ({"spec.resourceClaims": [{"name": "a"}]}, "spec.resourceClaims[0]: must have one of resourceClaimName and resourceClaimTemplateName"),
    ({"spec.resourceClaims": [{"name": "a", "resourceClaimName": "B"}]}, f"spec.resourceClaims[0].resourceClaimName: {S}"),
    ({"spec.schedulingGates": [{"name": "a"}], "spec.nodeName": "n"}, "spec.schedulingGates: must be empty where nodeName is set"),
    ({"spec.schedulingGroup": {"podGroupName": "A"}}, f"spec.schedulingGroup.podGroupName: {S}"),
    ({f"{C}.readinessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "A b"}]}}}, "spec.containers[0].readinessProbe.httpGet.httpHeaders[0].name: must consist of letters, digits and '-'"),
    ({f"{C}.livenessProbe": {"tcpSocket": {"port": 1}, "exec": {"command": ["a"]}}}, "spec.containers[0].livenessProbe: has 2 handlers, not one"),
    ({f"{C}.livenessProbe": {"grpc": {"port": 65536}}}, "spec.containers[0].livenessProbe.grpc.port: must be between 1 and 65535"),
    ({f"{C}.livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": -1}}, "spec.containers[0].livenessProbe.periodSeconds: must not be negative"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "S", "key": "k"}}}]}, f"spec.containers[0].env[0].valueFrom.secretKeyRef.name: {S}"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "../k"}}}]}, "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: must consist of letters, digits, '-', '_' and '.', and not start with '..'"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]}, "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: must be metadata.labels['key'], metadata.annotations['key'] or metadata.name, metadata.namespace, metadata.uid, spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]}, "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: must be one of 1m, 1"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "other", "path": "a", "key": "k"}}}]}, "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: must be an emptyDir of spec.volumes"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "../a", "key": "k"}}}]}, "spec.containers[0].env[0].valueFrom.fileKeyRef.path: must not contain '..'"),
    ({f"{C}.env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "a", "key": "k="}}}]}, "spec.containers[0].env[0].valueFrom.fileKeyRef.key: must consist of printable ASCII characters other than '='"),
    ({f"{C}.envFrom": [{"configMapRef": {"name": "A"}}]}, f"spec.containers[0].envFrom[0].configMapRef.name: {S}"),
    ({f"{C}.envFrom": [{"secretRef": {}}]}, "spec.containers[0].envFrom[0].secretRef.name: required"),
    ({f"{C}.envFrom": [{"prefix": "a=", "secretRef": {"name": "a"}}]}, "spec.containers[0].envFrom[0].prefix: must consist of printable ASCII characters other than '='"),
    (nodes(matchExpressions=[expression(values=[" "])]), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]: {Q}"),
    (nodes(matchExpressions=[expression(operator="Lt", values=[])]), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values: must be one number with operator Lt"),
    (nodes(matchFields=[expression(key="metadata.uid")]), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key: must be metadata.name"),
    (nodes(matchFields=[expression(key="metadata.name", operator="Exists")]), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].operator: must be In or NotIn"),
    (nodes(matchFields=[expression(key="metadata.name", values=["a", "b"])]), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].values: must be one name"),
    ({"spec.affinity": {"nodeAffinity": {REQUIRED: {}}}}, f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: required: at least one term"),
    ({"spec.affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}}, f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight: must be between 1 and 100"),
    (pods(topologyKey=""), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey: required"),
    (pods(topologyKey="a b"), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey: {Q}"),
    (pods(namespaces=["A"]), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].namespaces[0]: {M}"),
    (pods(matchLabelKeys=["a"], labelSelector=None), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].matchLabelKeys: may be set only with labelSelector"),
    (pods(matchLabelKeys=["a"], mismatchLabelKeys=["a"]), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].matchLabelKeys[0]: must not be in mismatchLabelKeys too"),
    (pods(labelSelector={"matchExpressions": [expression(values=["a b"])]}), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].values[0]: {Q}"),
    (pods(namespaceSelector={"matchExpressions": [expression(operator="Exists")]}), f"spec.affinity.podAntiAffinity.{REQUIRED}[0].namespaceSelector.matchExpressions[0].values: must not be set with operator Exists"),
    ({"spec.topologySpreadConstraints": [spread(maxSkew=0)]}, "spec.topologySpreadConstraints[0].maxSkew: must be greater than 0"),
    ({"spec.topologySpreadConstraints": [spread(topologyKey="")]}, "spec.topologySpreadConstraints[0].topologyKey: required"),
    ({"spec.topologySpreadConstraints": [spread(), spread(maxSkew=2)]}, "spec.topologySpreadConstraints[1]: topologyKey 'zone' with whenUnsatisfiable DoNotSchedule is there twice"),
    ({"spec.topologySpreadConstraints": [spread(minDomains=0)]}, "spec.topologySpreadConstraints[0].minDomains: must be greater than 0"),
    ({"spec.topologySpreadConstraints": [spread(minDomains=1, whenUnsatisfiable="ScheduleAnyway")]}, "spec.topologySpreadConstraints[0].minDomains: may be set only with whenUnsatisfiable: DoNotSchedule"),
    ({"spec.topologySpreadConstraints": [spread(matchLabelKeys=["app"], labelSelector={"matchLabels": {"app": "x"}})], "metadata.labels": {"app": "x"}}, "spec.topologySpreadConstraints[0].matchLabelKeys[0]: must not be in labelSelector too"),
    ({"spec.tolerations": [{"key": "a", "operator": "Gt", "value": "9223372036854775808"}]}, "spec.tolerations[0].value: must be an integer of 64 bits with operator Gt"),
    ({"spec.tolerations": [{"key": "a", "tolerationSeconds": 1}]}, "spec.tolerations[0].effect: must be NoExecute where tolerationSeconds is set"),
    ({"spec.runtimeClassName": ""}, f"spec.runtimeClassName: {S}"),
    ({"spec.os": {}}, "spec.os.name: required"),
    ({"spec.os": {"name": "linux"}, "spec.securityContext": {"windowsOptions": {}}}, "spec.securityContext.windowsOptions: must not be set with os.name: linux"),
    ({"spec.os": {"name": "windows"}, "spec.hostUsers": True}, "spec.hostUsers: must not be set with os.name: windows"),
    ({"spec.os": {"name": "windows"}, "spec.securityContext": {"fsGroup": 1}}, "spec.securityContext.fsGroup: must not be set with os.name: windows"),
    ({"spec.os": {"name": "windows"}, f"{C}.securityContext": {"privileged": False}}, "spec.containers[0].securityContext.privileged: must not be set with os.name: windows"),
    ({"spec.os": {"name": "windows"}, f"{C}.lifecycle": {"stopSignal": "SIGINT"}}, "spec.containers[0].lifecycle.stopSignal: must be SIGKILL or SIGTERM with os.name: windows"),
    (windows(runAsUserName=""), "spec.containers[0].securityContext.windowsOptions.runAsUserName: its user must be 1 to 104 characters, not only dots and blanks, and without \"/\\:;|=,+*?<>@[]"),
    (windows(runAsUserName="a\\b\\c"), "spec.containers[0].securityContext.windowsOptions.runAsUserName: must be a user, perhaps with a domain and one backslash before it, and no control characters"),
    (windows(runAsUserName="a b*\\c"), "spec.containers[0].securityContext.windowsOptions.runAsUserName: its domain must be a NetBIOS or DNS name of no more than 255 characters"),
    (windows(gmsaCredentialSpec=""), "spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec: must have between 1 byte and 64 KiB"),
    (windows(gmsaCredentialSpecName="A"), f"spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpecName: {S}"),
    (windows(hostProcess=True) | {"spec.hostNetwork": True}, "spec.containers: must all have hostProcess: true, or none of them"),
    (windows(hostProcess=False) | {"spec.hostNetwork": True, "spec.securityContext": {"windowsOptions": {"hostProcess": True}}}, "spec.containers[0].securityContext.windowsOptions.hostProcess: must agree with the pod's"),
    ({"spec.securityContext": {"windowsOptions": {"hostProcess": True}}}, "spec.hostNetwork: must be true where containers have hostProcess: true"),
    ({"spec.securityContext": {"sysctls": [{"name": "net.ipv4.conf.a/b.x"}] * 2}}, "spec.securityContext.sysctls[1].name: net.ipv4.conf.a/b.x is there twice"),
    ({"spec.hostUsers": False, "spec.hostPID": True}, "spec.hostPID: must not be true beside hostUsers: false"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD, ids=[problem[:100] for _, problem in BAD])
def test_values_refused_by_kubernetes_are_refused_by_path(changes: dict[str, Any], problem: str) -> None:
    assert problem in problems(changes)
