"""Pods that the API server would refuse are refused with the invalid field's path."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from tests.pod.examples import problems

C = "spec.containers.0"
I = "spec.initContainers.0"  # noqa: E741
PORT = {"containerPort": 80}
NAME = "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
QUALIFIED = "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"


def rule(**fields: Any) -> dict[str, Any]:
    return {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}} | fields


def mount(path: str = "/w", **fields: Any) -> dict[str, Any]:
    return {"name": "work", "mountPath": path} | fields


GOOD: list[dict[str, Any]] = [
    {},
    {"metadata.name": "a.b-c.1", "metadata.namespace": "n-1"},
    {"metadata.labels": {"a.b/c_D.e": "", "x": "1_A.b"}, "metadata.annotations": {"Example.COM/Key": "any\nthing"}},
    {f"{C}.ports": [PORT | {"name": "http"}, PORT | {"protocol": "UDP", "name": "dns"}]},
    {f"{C}.ports": [PORT | {"hostPort": 80}, PORT | {"hostPort": 80, "protocol": "UDP"}, PORT | {"hostPort": 80, "hostIP": "127.0.0.1"}]},
    {f"{C}.ports": [PORT | {"hostPort": 80}], f"{I}.ports": [PORT | {"hostPort": 80}]},
    {"spec.hostNetwork": True, f"{C}.ports": [PORT]},
    {f"{C}.env": [{"name": "A b-c.d", "value": ""}, {"name": "1"}]},
    *({f"{C}.env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]} for path in (
        "metadata.name", "metadata.uid", "metadata.labels['a/b']", "metadata.annotations['Upper.Case/Key']",
        "spec.nodeName", "status.podIPs", "status.hostIP")),
    {f"{C}.volumeMounts": [mount("w")]},
    {f"{C}.volumeMounts": [mount(), mount("/w/x", readOnly=True, recursiveReadOnly="Enabled")]},
    {f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule(action="RestartAllContainers")] * 20},
    {f"{C}.restartPolicy": "Always", f"{C}.restartPolicyRules": [rule(exitCodes={"operator": "NotIn", "values": []})]},
    {f"{C}.restartPolicy": "OnFailure", f"{C}.restartPolicyRules": [rule(exitCodes={"operator": "In", "values": list(range(255))})]},
    {f"{I}.restartPolicy": "Always", f"{I}.startupProbe": {"exec": {"command": ["true"]}}, f"{I}.restartPolicyRules": [rule()]},
    {f"{I}.restartPolicy": "OnFailure"},
    {f"{C}.resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}},
    {f"{C}.resources": {"limits": {"cpu": "92233720368547", "memory": "99999999999999999999Ei"}}},
    {"spec.terminationGracePeriodSeconds": 2**63 - 1, f"{C}.livenessProbe": {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 2**63 - 1}},
    {f"{C}.terminationMessagePath": "foo/bar"},
    {f"{C}.resources": {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": 2}}},
    {f"{C}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "memory", "restartPolicy": "RestartContainer"}]},
    {f"{C}.livenessProbe": {"httpGet": {"port": "http"}, "terminationGracePeriodSeconds": 1}, f"{C}.readinessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 3}},
    {f"{C}.lifecycle": {"preStop": {"sleep": {"seconds": 30}}, "stopSignal": "SIGUSR1"}, "spec.os": {"name": "linux"}},
    {"spec.securityContext": {"runAsUser": 0, "fsGroup": 2**31 - 1, "sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}, {"name": "kernel/shm_rmid_forced", "value": "1"}]}},
    {"spec.securityContext": {"sysctls": [{"name": "net.ipv4.conf.a/b.x"}, {"name": "net/ipv4/conf/a/b/x"}]}},
    {"spec.securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"}}},
    {"spec.hostUsers": False, f"{C}.securityContext": {"procMount": "Unmasked"}},
    {"spec.hostPID": True, "spec.hostIPC": True, "spec.shareProcessNamespace": False},
    {"spec.tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Gt", "value": "-5"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}]},
    {"spec.affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}},
    {"spec.ephemeralContainers": [{"name": "debug", "image": "busybox", "targetContainerName": "server", "stdin": True, "tty": True}]},
    {"spec.activeDeadlineSeconds": 1, "spec.terminationGracePeriodSeconds": 0},
    {"spec.terminationGracePeriodSeconds": -1},
    {"spec.volumes.0": {"name": "work", "hostPath": {"path": "/a/b", "type": "DirectoryOrCreate"}}},
    {"metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/server": "unconfined"}},
]  # fmt: skip


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_values_accepted_by_kubernetes_are_accepted(changes: dict[str, Any]) -> None:
    assert problems(changes) == []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"metadata": {}}, "metadata.name: required"),
    ({"metadata": {"generateName": "a-"}}, "metadata.name: required; a name is not generated here"),
    *(({"metadata.name": name}, f"metadata.name: {NAME.replace(' and ', ', ', 1).replace(chr(39) + '-' + chr(39) + ',', chr(39) + '-' + chr(39) + ' and ' + chr(39) + '.' + chr(39) + ',')}")
      for name in ("../x", "a/b", "A", "a_b", "-a", "a..b", ".", "..")),
    ({"metadata.name": "a" * 254}, "metadata.name: must be no more than 253 characters"),
    ({"metadata.name": "a" * 211}, "metadata.name: must be no more than 210 characters with this namespace and UID, since the three name the directory of the pod's logs"),
    ({"metadata.uid": "u" * 5000}, "metadata.uid: must be no more than 128 letters, digits, '-', '_' and '.', with a letter or digit at either end"),
    ({"metadata.namespace": "n" * 300}, "metadata.namespace: must be no more than 63 characters"),
    ({"metadata.name": "a" * 200, "metadata.uid": "u" * 128}, "metadata.name: must be no more than 118 characters with this namespace and UID, since the three name the directory of the pod's logs"),
    ({"metadata.namespace": "a.b"}, f"metadata.namespace: {NAME}"),
    ({"metadata.namespace": "../.."}, f"metadata.namespace: {NAME}"),
    ({"metadata.uid": "../x"}, "metadata.uid: must be no more than 128 letters, digits, '-', '_' and '.', with a letter or digit at either end"),
    ({"metadata.labels": {"a b": "x"}}, f"metadata.labels[a b]: {QUALIFIED}"),
    ({"metadata.labels": {"a": "-"}}, f"metadata.labels[a]: {QUALIFIED}"),
    ({"metadata.labels": {"a": "x" * 64}}, "metadata.labels[a]: must be no more than 63 characters"),
    ({"metadata.labels": {"/a": "x"}}, "metadata.labels[/a]: must have a lower-case DNS subdomain before its '/'"),
    ({"metadata.labels": {"a.b/": "x"}}, "metadata.labels[a.b/]: must have a name of 1 to 63 characters after its '/'"),
    ({"metadata.annotations": {"a": "x" * 2**18}}, "metadata.annotations: must be no more than 256 KiB in all"),
    ({"metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/server": "tight"}}, "metadata.annotations[container.apparmor.security.beta.kubernetes.io/server]: must be runtime/default, unconfined or localhost/<profile>"),
    ({"metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/x": "unconfined"}}, "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: names no container of this pod"),
    ({"metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/server": "unconfined"}, f"{C}.securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, "metadata.annotations[container.apparmor.security.beta.kubernetes.io/server]: must agree with the appArmorProfile of container server"),
    ({"spec.containers": []}, "spec.containers: required: at least one container"),
    ({"spec.containers.0": {"image": "a"}}, "spec.containers[0].name: required"),
    ({"spec.containers.0": {"name": "a"}}, "spec.containers[0].image: required"),
    ({f"{C}.image": " a"}, "spec.containers[0].image: must not begin or end with white space"),
    ({f"{C}.name": "a.b"}, f"spec.containers[0].name: {NAME}"),
    ({f"{C}.name": "../a"}, f"spec.containers[0].name: {NAME}"),
    ({f"{C}.name": "a" * 64}, "spec.containers[0].name: must be no more than 63 characters"),
    ({f"{C}.name": "log"}, "spec.containers[1].name: log is the name of another container of this pod"),
    ({f"{I}.name": "log"}, "spec.initContainers[0].name: log is the name of another container of this pod"),
    ({f"{C}.ports": [{}]}, "spec.containers[0].ports[0].containerPort: required"),
    ({f"{C}.ports": [{"containerPort": 65536}]}, "spec.containers[0].ports[0].containerPort: must be between 1 and 65535"),
    ({f"{C}.ports": [PORT | {"hostPort": -1}]}, "spec.containers[0].ports[0].hostPort: must be between 1 and 65535"),
    ({f"{C}.ports": [PORT | {"hostIP": "x"}]}, "spec.containers[0].ports[0].hostIP: must be an IP address"),
    ({f"{C}.ports": [PORT | {"name": "a"}, PORT | {"name": "a"}]}, "spec.containers[0].ports[1].name: a is there twice"),
    ({f"{C}.ports": [PORT | {"name": "a--b"}]}, "spec.containers[0].ports[0].name: must not have a '-' at either end or two in a row"),
    ({f"{C}.ports": [PORT | {"name": "123"}]}, "spec.containers[0].ports[0].name: must consist of lower-case letters, digits and '-', with at least one letter"),
    ({f"{C}.ports": [PORT | {"name": "a" * 16}]}, "spec.containers[0].ports[0].name: must be no more than 15 characters"),
    ({f"{C}.ports": [PORT | {"hostPort": 8}], "spec.containers.1.ports": [PORT | {"hostPort": 8}]}, "spec.containers[1].ports[0].hostPort: 8 is there twice"),
    ({"spec.hostNetwork": True, f"{C}.ports": [PORT | {"hostPort": 8}]}, "spec.containers[0].ports[0].hostPort: must be equal to containerPort with hostNetwork: true"),
    ({f"{C}.env": [{"value": "x"}]}, "spec.containers[0].env[0].name: required"),
    ({f"{C}.env": [{"name": "a=b"}]}, "spec.containers[0].env[0].name: must consist of printable ASCII characters other than '='"),
    ({f"{C}.env": [{"name": "a", "valueFrom": {}}]}, "spec.containers[0].env[0].valueFrom: must have one source, not none"),
    ({f"{C}.env": [{"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, "spec.containers[0].env[0].valueFrom: must not be set beside value"),
    ({f"{C}.env": [{"name": "a", "valueFrom": {"fieldRef": {}}}]}, "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: required"),
    ({f"{C}.env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]}, f"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: its key {QUALIFIED}"),
    ({f"{C}.env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}, "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: must be metadata.labels['key'], metadata.annotations['key'] or metadata.name, metadata.namespace, metadata.uid, spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs"),
    ({f"{C}.env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}, "spec.containers[0].env[0].valueFrom.secretKeyRef.key: required"),
    ({f"{C}.envFrom": [{}]}, "spec.containers[0].envFrom[0]: must have one of configMapRef and secretRef"),
    ({f"{C}.volumeMounts": [{"name": "nope", "mountPath": "/a"}]}, "spec.containers[0].volumeMounts[0].name: 'nope' is not in spec.volumes"),
    ({f"{C}.volumeMounts": [{"name": "work"}]}, "spec.containers[0].volumeMounts[0].mountPath: required"),
    ({f"{C}.volumeMounts": [mount("/a"), mount("a")]}, "spec.containers[0].volumeMounts[1].mountPath: a is there twice"),
    ({f"{C}.volumeMounts": [mount("/a:b")]}, "spec.containers[0].volumeMounts[0].mountPath: must not contain ':'"),
    ({f"{C}.volumeMounts": [mount(), mount()]}, "spec.containers[0].volumeMounts[1].mountPath: /w is there twice"),
    ({f"{C}.volumeMounts": [mount(subPath="../a")]}, "spec.containers[0].volumeMounts[0].subPath: must not contain '..'"),
    ({f"{C}.volumeMounts": [mount(mountPropagation="Bidirectional")]}, "spec.containers[0].volumeMounts[0].mountPropagation: may be Bidirectional only in a privileged container"),
    ({f"{C}.volumeMounts": [mount(recursiveReadOnly="Enabled")]}, "spec.containers[0].volumeMounts[0].recursiveReadOnly: may be set only with readOnly: true"),
    ({f"{C}.restartPolicyRules": [rule()]}, "spec.containers[0].restartPolicy: required with restartPolicyRules"),
    ({f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule()] * 21}, "spec.containers[0].restartPolicyRules: must be no more than 20"),
    ({f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule(action=None)]}, "spec.containers[0].restartPolicyRules[0].action: required"),
    ({f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule(exitCodes=None)]}, "spec.containers[0].restartPolicyRules[0].exitCodes: required"),
    ({f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule(exitCodes={})]}, "spec.containers[0].restartPolicyRules[0].exitCodes.operator: required"),
    ({f"{C}.restartPolicy": "Never", f"{C}.restartPolicyRules": [rule(exitCodes={"operator": "In", "values": [1] * 256})]}, "spec.containers[0].restartPolicyRules[0].exitCodes.values: must be no more than 255"),
    ({f"{I}.livenessProbe": {"tcpSocket": {"port": 1}}}, "spec.initContainers[0].livenessProbe: may be set in an init container only with restartPolicy: Always"),
    ({f"{I}.lifecycle": {}}, "spec.initContainers[0].lifecycle: may be set in an init container only with restartPolicy: Always"),
    ({f"{I}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, "spec.initContainers[0].resizePolicy[0].restartPolicy: may be RestartContainer in an init container only with restartPolicy: Always"),
    ({"spec.restartPolicy": "Never", f"{C}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, "spec.containers[0].resizePolicy[0].restartPolicy: must be NotRequired in a pod whose restartPolicy is Never"),
    ({f"{C}.resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}, "spec.containers[0].resizePolicy[0].resourceName: must be cpu or memory"),
    ({f"{C}.resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, "spec.containers[0].resources.requests[cpu]: must be no more than the limit of 1"),
    ({f"{C}.resources": {"requests": {"memory": "-1"}}}, "spec.containers[0].resources.requests[memory]: must not be negative"),
    ({f"{C}.resources": {"limits": {"memory": "99E"}}}, "spec.containers[0].resources.limits[memory]: must be no more than 9223372036854775807"),
    ({f"{C}.resources": {"limits": {"cpu": "1e17"}}}, "spec.containers[0].resources.limits[cpu]: must be no more than 92233720368547"),
    ({f"{C}.resources": {"limits": {"cpu": "1", "example.com/gpu": "1e30"}}}, "spec.containers[0].resources.limits[example.com/gpu]: must be no more than 9223372036854775807"),
    ({f"{C}.resources": {"limits": {"gpu": "1"}}}, "spec.containers[0].resources.limits[gpu]: unknown resource; it may be cpu, memory, ephemeral-storage or example.com/name"),
    ({f"{C}.resources": {"limits": {"cpu": "1", "example.com/gpu": "0.5"}}}, "spec.containers[0].resources.limits[example.com/gpu]: must be a whole number"),
    ({f"{C}.resources": {"requests": {"example.com/gpu": "1"}}}, "spec.containers[0].resources.limits[example.com/gpu]: required, since this resource is requested"),
    ({f"{C}.resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "spec.containers[0].resources: huge pages need cpu or memory beside them"),
    ({f"{C}.resources": {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}}, "spec.containers[0].resources.limits[hugepages-2Mi]: must be a multiple of 2Mi"),
    ({f"{C}.resources": {"claims": [{"name": "x", "request": "A"}]}, "spec.resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}, f"spec.containers[0].resources.claims[0].request: {NAME}"),
    ({f"{C}.resources": {"claims": [{"name": "x", "request": "a"}, {"name": "x"}]}, "spec.resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}, "spec.containers[0].resources.claims[1]: is there twice"),
    ({f"{C}.resources": {"claims": [{"name": "x"}, {"name": "x", "request": "a"}]}, "spec.resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}, "spec.containers[0].resources.claims[1]: is there twice"),
    ({f"{C}.resources": {"claims": [{"name": "x"}]}}, "spec.containers[0].resources.claims[0].name: 'x' is not in spec.resourceClaims"),
    ({"spec.resources": {"limits": {"pids": "1"}}}, "spec.resources.limits[pids]: unknown resource; it may be cpu, memory or hugepages-<size>"),
    ({"spec.resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, "spec.resources.requests[cpu]: must be no more than the limit of 1"),
    ({"spec.resources": {"requests": {"cpu": "500m"}}, f"{C}.resources": {"requests": {"cpu": "0.4"}}, "spec.containers.1.resources": {"requests": {"cpu": "200m"}}}, "spec.resources.requests[cpu]: must be no less than its containers' 600m together"),
    ({"spec.resources": {"limits": {"memory": "1Gi"}}, f"{C}.resources": {"limits": {"memory": "2Gi"}, "requests": {"memory": "1Mi"}}}, "spec.containers[0].resources.limits[memory]: must be no more than the pod's limit of 1Gi"),
    ({"spec.resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "4"}}, f"{C}.resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}, "spec.containers.1.resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}}, "spec.resources.limits[hugepages-2Mi]: must be no less than its containers' 4Mi together"),
    ({"spec.resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "spec.resources: huge pages need cpu or memory beside them"),
    ({f"{C}.livenessProbe": {}}, "spec.containers[0].livenessProbe: required: one handler"),
    ({f"{C}.livenessProbe": {"exec": {}}}, "spec.containers[0].livenessProbe.exec.command: required"),
    ({f"{C}.livenessProbe": {"tcpSocket": {"port": 0}}}, "spec.containers[0].livenessProbe.tcpSocket.port: must be between 1 and 65535"),
    ({f"{C}.livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}, "spec.containers[0].livenessProbe.successThreshold: must be 1"),
    ({f"{C}.readinessProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 2}}, "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: must not be set for a readiness probe"),
    ({f"{C}.lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, "spec.containers[0].lifecycle.preStop.sleep.seconds: must be between 0 and terminationGracePeriodSeconds"),
    ({f"{C}.lifecycle": {"stopSignal": "SIGUSR1"}}, "spec.containers[0].lifecycle.stopSignal: may be set only with spec.os.name"),
    ({f"{C}.lifecycle": {"stopSignal": "SIGFOO"}, "spec.os": {"name": "linux"}}, "spec.containers[0].lifecycle.stopSignal: must be a signal such as SIGTERM or SIGRTMIN+1"),
    ({f"{C}.securityContext": {"runAsUser": -1}}, "spec.containers[0].securityContext.runAsUser: must be between 0 and 2147483647"),
    ({f"{C}.securityContext": {"procMount": "Unmasked"}}, "spec.containers[0].securityContext.procMount: may be Unmasked only with hostUsers: false"),
    ({f"{C}.securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, "spec.containers[0].securityContext.allowPrivilegeEscalation: must not be false in a privileged container"),
    ({f"{C}.securityContext": {"seccompProfile": {"type": "Localhost"}}}, "spec.containers[0].securityContext.seccompProfile.localhostProfile: required with type Localhost"),
    ({f"{C}.securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}}, "spec.containers[0].securityContext.seccompProfile.localhostProfile: must be a relative path"),
    ({f"{C}.securityContext": {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}}}, "spec.containers[0].securityContext.appArmorProfile.localhostProfile: may be set only with type Localhost"),
    ({"spec.securityContext": {"supplementalGroups": [1, 2**31]}}, "spec.securityContext.supplementalGroups[1]: must be between 0 and 2147483647"),
    ({"spec.securityContext": {"sysctls": [{"name": "A", "value": ""}]}}, "spec.securityContext.sysctls[0].name: must be a sysctl such as net.ipv4.ip_forward, of no more than 253 characters"),
    ({"spec.securityContext": {"sysctls": [{"name": "a.b"}, {"name": "a/b"}]}}, "spec.securityContext.sysctls[1].name: a/b is there twice"),
    ({"spec.hostNetwork": True, "spec.securityContext": {"sysctls": [{"name": "net.x"}]}}, "spec.securityContext.sysctls[0].name: must not be set with hostNetwork: true, since it would apply to the whole node"),
    ({"spec.hostIPC": True, "spec.securityContext": {"sysctls": [{"name": "kernel.shmmax"}]}}, "spec.securityContext.sysctls[0].name: must not be set with hostIPC: true, since it would apply to the whole node"),
    ({"spec.hostPID": True, "spec.shareProcessNamespace": True}, "spec.shareProcessNamespace: must not be true beside hostPID: true"),
    ({"spec.hostUsers": False, "spec.hostNetwork": True}, "spec.hostNetwork: must not be true beside hostUsers: false"),
    ({"spec.volumes": [{"name": "a"}, {"name": "a"}]}, "spec.volumes[1].name: a is there twice"),
    ({"spec.volumes": [{"name": "A"}]}, f"spec.volumes[0].name: {NAME}"),
    ({"spec.volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]}, "spec.volumes[0]: must have one source, not hostPath and emptyDir"),
    ({"spec.volumes": [{"name": "a", "hostPath": {"path": "/a/../b"}}]}, "spec.volumes[0].hostPath.path: must not contain '..'"),
    ({"spec.volumes": [{"name": "a", "hostPath": {}}]}, "spec.volumes[0].hostPath.path: required"),
    ({"spec.volumes": [{"name": "a", "emptyDir": {"medium": "Disk"}}]}, "spec.volumes[0].emptyDir.medium: must be empty, Memory, HugePages or HugePages-<size>"),
    ({"spec.activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: must be between 1 and 2147483647"),
    ({"spec.hostname": "a.b"}, f"spec.hostname: {NAME}"),
    ({"spec.hostnameOverride": "a" * 65}, "spec.hostnameOverride: must be no more than 64 characters"),
    ({"spec.overhead": {"gpu": "1"}}, "spec.overhead[gpu]: unknown resource; it may be cpu, memory, ephemeral-storage or example.com/name"),
    ({"spec.schedulingGroup": {}}, "spec.schedulingGroup.podGroupName: required"),
    ({"spec.readinessGates": [{}]}, "spec.readinessGates[0].conditionType: must have a name of 1 to 63 characters"),
    ({"spec.dnsConfig": {"nameservers": ["10.0.0.1", "dns"]}}, "spec.dnsConfig.nameservers[1]: must be an IP address"),
    ({"spec.dnsPolicy": "None"}, "spec.dnsConfig.nameservers: required with dnsPolicy: None"),
    ({"spec.hostAliases": [{"ip": "1.2.3"}]}, "spec.hostAliases[0].ip: must be an IP address"),
    ({"spec.tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator: must be Exists where key is empty"),
    ({"spec.tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "spec.tolerations[0].value: must not be set with operator Exists"),
    ({"spec.tolerations": [{"key": "a", "operator": "Lt", "value": "b"}]}, "spec.tolerations[0].value: must be an integer of 64 bits with operator Lt"),
    ({"spec.topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z"}]}, "spec.topologySpreadConstraints[0].whenUnsatisfiable: required"),
    ({"spec.schedulingGates": [{"name": "a"}, {"name": "a"}]}, "spec.schedulingGates[1].name: a is there twice"),
    ({"spec.ephemeralContainers": [{"name": "log", "image": "i"}]}, "spec.ephemeralContainers[0].name: log is the name of another container of this pod"),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "x"}]}, "spec.ephemeralContainers[0].targetContainerName: 'x' is not a container of this pod"),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i", "ports": [PORT]}]}, "spec.ephemeralContainers[0].ports: must not be set for an ephemeral container"),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i", "restartPolicy": "Always"}]}, "spec.ephemeralContainers[0].restartPolicy: must not be set for an ephemeral container"),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i", "resources": {"limits": {"cpu": 1}}}]}, "spec.ephemeralContainers[0].resources: must not be set for an ephemeral container"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD, ids=[problem[:90] for _, problem in BAD])
def test_values_refused_by_kubernetes_are_refused_by_path(changes: dict[str, Any], problem: str) -> None:
    assert problems(changes) == [problem]
