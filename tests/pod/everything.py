"""A valid Pod with every field that can be set together."""

from typing import Any

_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
}
_NODE_TERM = {
    "matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "cores", "operator": "Gt", "values": ["3"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}],
}
_POD_TERM = {
    "labelSelector": _SELECTOR,
    "namespaces": ["default"],
    "topologyKey": "kubernetes.io/hostname",
    "namespaceSelector": {},
    "matchLabelKeys": ["release"],
    "mismatchLabelKeys": ["owner"],
}
_HTTP = {
    "path": "/healthz", "port": "http", "host": "127.0.0.1", "scheme": "HTTPS",
    "httpHeaders": [{"name": "X-From", "value": "kubelet"}],
}  # fmt: skip
_TIMES = {
    "initialDelaySeconds": 1, "timeoutSeconds": 2, "periodSeconds": 3, "successThreshold": 1, "failureThreshold": 4,
}  # fmt: skip
_SECCOMP = {"type": "Localhost", "localhostProfile": "profiles/audit.json"}
_APP_ARMOR = {"type": "Localhost", "localhostProfile": "k8s-nginx"}
_SELINUX = {"user": "u", "role": "r", "type": "t", "level": "s0:c1,c2"}
_CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "selector": _SELECTOR,
    "resources": {"limits": {"storage": "2Gi"}, "requests": {"storage": "1Gi"}},
    "volumeName": "pv",
    "storageClassName": "fast",
    "volumeMode": "Filesystem",
    "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
    "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
    "volumeAttributesClassName": "gold",
}
_ITEM = {"key": "k", "path": "a/b", "mode": 0o400}
_FIELD = {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}, "mode": 0o444}
_RESOURCE = {"path": "cpu", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu", "divisor": "1m"}}

_VOLUMES: dict[str, dict[str, Any]] = {
    "hostPath": {"path": "/srv", "type": "DirectoryOrCreate"},
    "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"},
    "gcePersistentDisk": {"pdName": "d", "fsType": "ext4", "partition": 1, "readOnly": True},
    "awsElasticBlockStore": {"volumeID": "v", "fsType": "ext4", "partition": 1, "readOnly": True},
    "gitRepo": {"repository": "https://example.com/r.git", "revision": "main", "directory": "r"},
    "secret": {"secretName": "s", "items": [_ITEM], "defaultMode": 0o440, "optional": True},
    "nfs": {"server": "s", "path": "/export", "readOnly": True},
    "iscsi": {
        "targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:disk", "lun": 1, "iscsiInterface": "default",
        "fsType": "ext4", "readOnly": True, "portals": ["10.0.0.2"], "chapAuthDiscovery": True,
        "chapAuthSession": True, "secretRef": {"name": "s"}, "initiatorName": "iqn.2001-04.com.example:node",
    },
    "glusterfs": {"endpoints": "e", "path": "p", "readOnly": True},
    "persistentVolumeClaim": {"claimName": "c", "readOnly": True},
    "rbd": {
        "monitors": ["m"], "image": "i", "fsType": "ext4", "pool": "rbd", "user": "admin", "keyring": "/k",
        "secretRef": {"name": "s"}, "readOnly": True,
    },
    "flexVolume": {
        "driver": "d", "fsType": "ext4", "secretRef": {"name": "s"}, "readOnly": True, "options": {"a": "b"},
    },
    "cinder": {"volumeID": "v", "fsType": "ext4", "readOnly": True, "secretRef": {"name": "s"}},
    "cephfs": {
        "monitors": ["m"], "path": "/", "user": "u", "secretFile": "/f", "secretRef": {"name": "s"}, "readOnly": True,
    },
    "flocker": {"datasetName": "d"},
    "downwardAPI": {"items": [_FIELD, _RESOURCE], "defaultMode": 0o400},
    "fc": {"targetWWNs": ["w"], "lun": 1, "fsType": "ext4", "readOnly": True},
    "azureFile": {"secretName": "s", "shareName": "n", "readOnly": True},
    "configMap": {"name": "c", "items": [_ITEM], "defaultMode": 0o440, "optional": True},
    "vsphereVolume": {"volumePath": "p", "fsType": "ext4", "storagePolicyName": "n", "storagePolicyID": "i"},
    "quobyte": {"registry": "r:1", "volume": "v", "readOnly": True, "user": "u", "group": "g", "tenant": "t"},
    "azureDisk": {
        "diskName": "d", "diskURI": "/subscriptions/x", "cachingMode": "None", "fsType": "ext4", "readOnly": True,
        "kind": "Managed",
    },
    "photonPersistentDisk": {"pdID": "p", "fsType": "ext4"},
    "projected": {
        "sources": [
            {"secret": {"name": "s", "items": [_ITEM], "optional": True}},
            {"downwardAPI": {"items": [_FIELD, _RESOURCE]}},
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "c"}], "optional": True}},
            {"serviceAccountToken": {"audience": "a", "expirationSeconds": 600, "path": "token"}},
            {"clusterTrustBundle": {"name": "b", "optional": True, "path": "ca.pem"}},
            {"clusterTrustBundle": {"signerName": "example.com/s", "labelSelector": _SELECTOR, "path": "ca2.pem"}},
            {
                "podCertificate": {
                    "signerName": "example.com/s", "keyType": "ED25519", "maxExpirationSeconds": 3600,
                    "credentialBundlePath": "bundle", "keyPath": "key", "certificateChainPath": "chain",
                    "userAnnotations": {"example.com/a": "b"},
                },
            },
        ],
        "defaultMode": 0o440,
    },
    "portworxVolume": {"volumeID": "v", "fsType": "ext4", "readOnly": True},
    "scaleIO": {
        "gateway": "g", "system": "s", "secretRef": {"name": "s"}, "sslEnabled": True, "protectionDomain": "d",
        "storagePool": "p", "storageMode": "ThinProvisioned", "volumeName": "v", "fsType": "xfs", "readOnly": True,
    },
    "storageos": {
        "volumeName": "v", "volumeNamespace": "n", "fsType": "ext4", "readOnly": True, "secretRef": {"name": "s"},
    },
    "csi": {
        "driver": "csi.example.com", "readOnly": True, "fsType": "ext4", "volumeAttributes": {"a": "b"},
        "nodePublishSecretRef": {"name": "s"},
    },
    "ephemeral": {
        "volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": _CLAIM}
    },
    "image": {"reference": "registry.local/files:1", "pullPolicy": "IfNotPresent"},
}  # fmt: skip
_OTHER_VOLUMES: list[dict[str, Any]] = [
    {"name": "flocker-by-uuid", "flocker": {"datasetUUID": "u"}},
    {"name": "fc-by-id", "fc": {"wwids": ["w"]}},
]

_CONTAINER: dict[str, Any] = {
    "name": "web",
    "image": "registry.local/web:1",
    "command": ["/bin/web"],
    "args": ["--port", "$(PORT)"],
    "workingDir": "/srv",
    "ports": [{"name": "http", "hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": "127.0.0.1"}],
    "envFrom": [
        {"prefix": "C_", "configMapRef": {"name": "c", "optional": True}},
        {"secretRef": {"name": "s", "optional": True}},
    ],
    "env": [
        {"name": "PORT", "value": "80"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        {
            "name": "CPU",
            "valueFrom": {"resourceFieldRef": {"containerName": "web", "resource": "limits.cpu", "divisor": "1m"}},
        },
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {
            "name": "F",
            "valueFrom": {"fileKeyRef": {"volumeName": "emptydir", "path": "env", "key": "F", "optional": True}},
        },
    ],
    "resources": {
        "limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi", "example.com/gpu": "1"},
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "claims": [{"name": "gpu", "request": "one"}],
    },
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "restartPolicy": "OnFailure",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
    "volumeMounts": [
        {"name": "hostpath", "readOnly": True, "recursiveReadOnly": "IfPossible", "mountPath": "/srv", "subPath": "a"},
        {"name": "configmap", "mountPath": "/etc/web", "subPathExpr": "$(POD)", "mountPropagation": "None"},
    ],
    "volumeDevices": [{"name": "ephemeral", "devicePath": "/dev/xvda"}],
    "livenessProbe": {"httpGet": _HTTP, "terminationGracePeriodSeconds": 5, **_TIMES},
    "readinessProbe": {"tcpSocket": {"port": 80, "host": "127.0.0.1"}, **_TIMES},
    "startupProbe": {"grpc": {"port": 80, "service": "web"}, **_TIMES},
    "lifecycle": {
        "postStart": {"exec": {"command": ["true"]}},
        "preStop": {"sleep": {"seconds": 1}},
        "stopSignal": "SIGUSR1",
    },
    "terminationMessagePath": "/dev/message",
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "imagePullPolicy": "Never",
    "securityContext": {
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "privileged": False,
        "seLinuxOptions": _SELINUX,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "procMount": "Default",
        "seccompProfile": _SECCOMP,
        "appArmorProfile": _APP_ARMOR,
    },
    "stdin": True,
    "stdinOnce": True,
    "tty": True,
}

EVERYTHING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "everything",
        "generateName": "every-",
        "namespace": "default",
        "uid": "6a2b9a34-3a55-4f6c-8f55-0f7c2d4d5b10",
        "labels": {"app": "web", "example.com/tier": "front"},
        "annotations": {"example.com/Note": "any text\nof any kind"},
    },
    "spec": {
        "volumes": [*({"name": name.lower(), name: source} for name, source in _VOLUMES.items()), *_OTHER_VOLUMES],
        "initContainers": [
            {"name": "setup", "image": "registry.local/setup:1"},
            {
                "name": "mesh",
                "image": "registry.local/mesh:1",
                "restartPolicy": "Always",
                "startupProbe": {"exec": {"command": ["ready"]}},
                "lifecycle": {"preStop": {"httpGet": _HTTP}, "postStart": {"tcpSocket": {"port": 80, "host": "h"}}},
            },
        ],
        "containers": [_CONTAINER],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 30,
        "activeDeadlineSeconds": 3600,
        "dnsPolicy": "None",
        "nodeSelector": {"disk": "ssd"},
        "serviceAccountName": "robot",
        "serviceAccount": "robot",
        "automountServiceAccountToken": False,
        "nodeName": "node-a",
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": True,
        "securityContext": {
            "seLinuxOptions": _SELINUX,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "runAsNonRoot": True,
            "supplementalGroups": [1001],
            "supplementalGroupsPolicy": "Merge",
            "fsGroup": 1002,
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "RuntimeDefault"},
            "seLinuxChangePolicy": "Recursive",
        },
        "imagePullSecrets": [{"name": "registry"}],
        "hostname": "web",
        "subdomain": "sub",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _NODE_TERM}],
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": _POD_TERM}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": _POD_TERM}],
            },
        },
        "schedulerName": "mine",
        "tolerations": [
            {
                "key": "node.example.com/spot", "operator": "Equal", "value": "yes", "effect": "NoExecute",
                "tolerationSeconds": 60,
            },
        ],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db", "db.local"]}],
        "priorityClassName": "high",
        "priority": 1000,
        "dnsConfig": {
            "nameservers": ["10.0.0.53"],
            "searches": ["svc.local"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        },
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "runtimeClassName": "kata",
        "enableServiceLinks": False,
        "preemptionPolicy": "Never",
        "overhead": {"cpu": "10m", "memory": "16Mi"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR,
                "minDomains": 2, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
                "matchLabelKeys": ["release"],
            },
        ],
        "setHostnameAsFQDN": True,
        "os": {"name": "linux"},
        "hostUsers": True,
        "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "gpu"},
            {"name": "net", "resourceClaimTemplateName": "net"},
        ],
        "resources": {"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "2Gi"}},
        "schedulingGroup": {"podGroupName": "group"},
    },
}  # fmt: skip
