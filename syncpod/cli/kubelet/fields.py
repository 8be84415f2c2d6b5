"""The table of a kubelet's configuration: each field and flag, and the effect that it has on a node of ours.

Names, types and defaults are those of kubelet.config.k8s.io/v1beta1 and of cmd/kubelet/app/options, v1.36.2. A row with
a `variable` becomes that setting. Any other row lists the values for which a node of ours behaves as a kubelet does. It
refuses another value if pods would be treated differently; otherwise a warning names the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from syncpod.go_durations import parse_go_duration
from syncpod.settings import table
from syncpod.settings.setting import Setting

Form = Literal["bool", "int", "number", "text", "duration", "words", "map", "object", "objects"]
"""The type of a value. `words` is a list of strings, `map` is an object whose values are strings, `object` is not
checked further."""


@dataclass(frozen=True)
class Field:
    """One field of KubeletConfiguration; with `flag`, also a flag of the command line."""

    path: str
    """The field's path, such as ``authentication.anonymous.enabled``; "" = there is only the flag."""
    form: Form
    flag: str = ""
    """The flag's name, without its dashes; "" = there is none."""
    variable: str = ""
    """The setting that it becomes; "" = none."""
    true_for: tuple[object, ...] = ()
    """The values for which a node of ours behaves as a kubelet does, besides unset ones (`is_unset`)."""
    refused: str = ""
    """Why any other value is refused, and which value to use instead; "" = none is refused."""
    warned: str = ""
    """The node's behaviour for any other value: the text of a warning; "" = there is no warning."""
    opens: str = ""
    """The things that strangers may do with any value that is not in `true_for`: the text of a warning; "" = none."""
    derived: bool = False
    """Whether `syncpod.cli.kubelet.node_start` derives settings from this field and others."""


def _set(path: str, form: Form, setting: Setting[Any], flag: str = "") -> Field:
    return Field(path, form, flag, setting.variable)


def _derived(path: str, form: Form, flag: str = "") -> Field:
    return Field(path, form, flag, derived=True)


def _refused(path: str, form: Form, why: str, *true_for: object, flag: str = "") -> Field:
    return Field(path, form, flag, true_for=true_for, refused=why)


def _warned(path: str, form: Form, what: str, *true_for: object, flag: str = "") -> Field:
    return Field(path, form, flag, true_for=true_for, warned=what)


def _open(path: str, form: Form, setting: Setting[Any], flag: str) -> Field:
    safe, opens = _CLOSED[setting]
    return Field(path, form, flag, setting.variable, true_for=(safe,), opens=opens)


_CLOSED: Final[Mapping[Setting[Any], tuple[Any, str]]] = {
    table.ANONYMOUS_AUTH: (False, "anonymous requests are accepted at the kubelet's port"),
    table.AUTHORIZATION_MODE: (
        "Webhook",
        "every known client of the kubelet's port may do everything in every container",
    ),
    table.READ_ONLY_PORT: (
        0,
        "anybody who reaches this port reads the node's pods, their usage and metrics, without TLS",
    ),
}
"""Settings that can let strangers in: the safe value, and the things that strangers may do with any other value."""
_NO_MANAGER: Final = "a node of ours pins no processor and no memory"
_NO_CGROUP: Final = "a node of ours limits its pods, and nothing else on the machine"
_FOLLOWED: Final = "the node receives changes as they happen"
_NOT_RATED: Final = "the node's own limits apply"
_FLAG_ONLY: Final = ""

FIELDS: Final = (
    # --- the program itself ---
    Field(_FLAG_ONLY, "text", "config", derived=True),
    Field(_FLAG_ONLY, "text", "config-dir", derived=True),
    Field(_FLAG_ONLY, "text", "root-dir", derived=True),
    Field(_FLAG_ONLY, "text", "kubeconfig", derived=True),
    # --- where pods come from -----------------------------------------------------------------------------------------
    _set("staticPodPath", "text", table.MANIFEST_DIR, "pod-manifest-path"),
    _refused("staticPodURL", "text", "a node of ours reads a directory of manifests", flag="manifest-url"),
    _refused(
        "staticPodURLHeader", "object", "a node of ours reads a directory of manifests", flag="manifest-url-header"
    ),
    _warned("syncFrequency", "duration", _FOLLOWED, flag="sync-frequency"),
    _warned("fileCheckFrequency", "duration", _FOLLOWED, flag="file-check-frequency"),
    _warned("httpCheckFrequency", "duration", _FOLLOWED, flag="http-check-frequency"),
    _refused("runOnce", "bool", "a node of ours runs until it is ended", False, flag="runonce"),
    _warned("configMapAndSecretChangeDetectionStrategy", "text", "ConfigMaps and Secrets are watched", "Watch"),
    # --- the node -----------------------------------------------------------------------------------------------------
    _set(_FLAG_ONLY, "text", table.NODE, "hostname-override"),
    _set(_FLAG_ONLY, "text", table.NODE_LABELS, "node-labels"),
    _set(_FLAG_ONLY, "text", table.NODE_IP, "node-ip"),
    _derived("registerWithTaints", "objects", "register-with-taints"),
    Field(_FLAG_ONLY, "text", "cloud-provider", refused="a node of ours has no cloud provider"),
    _refused("providerID", "text", "a node of ours has no cloud provider", flag="provider-id"),
    _refused("registerNode", "bool", "a node of ours registers itself", True, flag="register-node"),
    _warned(
        "nodeStatusUpdateFrequency",
        "duration",
        "changes are reported at once",
        "10s",
        flag="node-status-update-frequency",
    ),
    _warned(
        "nodeStatusReportFrequency", "duration", "an unchanged status is reported every five minutes", "5m0s", "5m"
    ),
    _warned("nodeLeaseDurationSeconds", "int", "the Lease lasts 40 seconds", 40),
    _warned("nodeStatusMaxImages", "int", "50 images are reported", 50, flag="node-status-max-images"),
    _refused("podCIDR", "text", "a cluster assigns it to the Node", flag="pod-cidr"),
    _warned(
        "enableControllerAttachDetach",
        "bool",
        "there is nothing to attach",
        True,
        flag="enable-controller-attach-detach",
    ),
    _derived("shutdownGracePeriod", "duration"),
    _derived("shutdownGracePeriodCriticalPods", "duration"),
    _derived("shutdownGracePeriodByPodPriority", "objects"),
    # --- the runtime --------------------------------------------------------------------------------------------------
    _set("containerRuntimeEndpoint", "text", table.RUNTIME_ENDPOINT, "container-runtime-endpoint"),
    _warned(
        "runtimeRequestTimeout",
        "duration",
        "calls of the runtime are never cut off",
        "2m0s",
        "2m",
        flag="runtime-request-timeout",
    ),
    Field(_FLAG_ONLY, "text", "runtime-cgroups", warned="the runtime stays where it was started"),
    _warned(
        "streamingConnectionIdleTimeout",
        "duration",
        "idle connections last four hours",
        "4h0m0s",
        "4h",
        flag="streaming-connection-idle-timeout",
    ),
    _refused("userNamespaces.idsPerPod", "int", "a pod's user namespace gets the runtime's own range of ids"),
    _derived("imageServiceEndpoint", "text", "image-service-endpoint"),
    # --- images -------------------------------------------------------------------------------------------------------
    _set("imageGCHighThresholdPercent", "int", table.IMAGE_GC_HIGH, "image-gc-high-threshold"),
    _set("imageGCLowThresholdPercent", "int", table.IMAGE_GC_LOW, "image-gc-low-threshold"),
    _set("imageMinimumGCAge", "duration", table.IMAGE_GC_MIN_AGE, "minimum-image-ttl-duration"),
    _set("imageMaximumGCAge", "duration", table.IMAGE_GC_MAX_AGE),
    _derived("serializeImagePulls", "bool", "serialize-image-pulls"),
    _derived("maxParallelImagePulls", "int"),
    _warned("registryPullQPS", "int", "five pulls a second after a burst of ten", 5, flag="registry-qps"),
    _warned("registryBurst", "int", "five pulls a second after a burst of ten", 10, flag="registry-burst"),
    _set("imagePullCredentialsVerificationPolicy", "text", table.IMAGE_VERIFICATION_POLICY),
    _set("preloadedImagesVerificationAllowlist", "words", table.IMAGE_VERIFICATION_ALLOWLIST),
    Field(
        _FLAG_ONLY,
        "text",
        "image-credential-provider-config",
        refused="credentials come from the pod's Secrets and from SYNCPOD_REGISTRY_AUTH_FILE",
    ),
    Field(
        _FLAG_ONLY,
        "text",
        "image-credential-provider-bin-dir",
        refused="credentials come from the pod's Secrets and from SYNCPOD_REGISTRY_AUTH_FILE",
    ),
    Field(_FLAG_ONLY, "text", "pod-infra-container-image", warned="the runtime chooses the sandbox image"),
    # --- logs ---------------------------------------------------------------------------------------------------------
    _set("podLogsDir", "text", table.LOG_DIR),
    _set("containerLogMaxSize", "text", table.CONTAINER_LOG_MAX_SIZE, "container-log-max-size"),
    _set("containerLogMaxFiles", "int", table.CONTAINER_LOG_MAX_FILES, "container-log-max-files"),
    _warned("containerLogMaxWorkers", "int", "logs are rotated one after the other", 1),
    _warned("containerLogMonitorInterval", "duration", "logs are looked at each second", "10s"),
    _derived("logging", "object"),
    Field(_FLAG_ONLY, "text", "logging-format", derived=True),
    # --- eviction -----------------------------------------------------------------------------------------------------
    _set("evictionSoftGracePeriod", "map", table.EVICTION_SOFT_GRACE_PERIOD, "eviction-soft-grace-period"),
    _set("evictionMinimumReclaim", "map", table.EVICTION_MINIMUM_RECLAIM, "eviction-minimum-reclaim"),
    _set(
        "evictionPressureTransitionPeriod",
        "duration",
        table.EVICTION_PRESSURE_TRANSITION_PERIOD,
        "eviction-pressure-transition-period",
    ),
    _set("evictionMaxPodGracePeriod", "int", table.EVICTION_MAX_POD_GRACE_PERIOD, "eviction-max-pod-grace-period"),
    _derived("evictionHard", "map", "eviction-hard"),
    _derived("evictionSoft", "map", "eviction-soft"),
    _derived("mergeDefaultEvictionSettings", "bool"),
    _warned(
        "kernelMemcgNotification",
        "bool",
        "memory is measured every ten seconds",
        False,
        flag="kernel-memcg-notification",
    ),
    # --- limits -------------------------------------------------------------------------------------------------------
    _set("podPidsLimit", "int", table.POD_MAX_PIDS, "pod-max-pids"),
    _set("allowedUnsafeSysctls", "words", table.ALLOWED_UNSAFE_SYSCTLS, "allowed-unsafe-sysctls"),
    _refused("defaultPodSysctls", "object", "a pod names its sysctls itself; a kubelet has the gate for it off", {}),
    _derived("maxPods", "int", "max-pods"),
    _derived("cgroupRoot", "text", "cgroup-root"),
    _warned("cgroupDriver", "text", "the runtime's own is used", "cgroupfs", "systemd", flag="cgroup-driver"),
    _set("cgroupsPerQOS", "bool", table.POD_CGROUPS, "cgroups-per-qos"),
    _refused("podsPerCore", "int", "use maxPods", 0, flag="pods-per-core"),
    _refused("cpuManagerPolicy", "text", _NO_MANAGER, "none", flag="cpu-manager-policy"),
    _refused("cpuManagerPolicyOptions", "map", _NO_MANAGER, flag="cpu-manager-policy-options"),
    _warned("cpuManagerReconcilePeriod", "duration", _NO_MANAGER, "10s", flag="cpu-manager-reconcile-period"),
    _refused("memoryManagerPolicy", "text", _NO_MANAGER, "None", flag="memory-manager-policy"),
    _refused("reservedMemory", "objects", _NO_MANAGER, flag="reserved-memory"),
    _refused("topologyManagerPolicy", "text", _NO_MANAGER, "none", flag="topology-manager-policy"),
    _warned("topologyManagerScope", "text", _NO_MANAGER, "container", flag="topology-manager-scope"),
    _refused("topologyManagerPolicyOptions", "map", _NO_MANAGER, flag="topology-manager-policy-options"),
    _refused("qosReserved", "map", "no memory is reserved by QoS class", flag="qos-reserved"),
    _derived("systemReserved", "map", "system-reserved"),
    _derived("kubeReserved", "map", "kube-reserved"),
    _refused("reservedSystemCPUs", "text", _NO_MANAGER, flag="reserved-cpus"),
    _refused("systemReservedCgroup", "text", _NO_CGROUP, flag="system-reserved-cgroup"),
    _refused("kubeReservedCgroup", "text", _NO_CGROUP, flag="kube-reserved-cgroup"),
    _refused(
        "enforceNodeAllocatable", "words", "only pods are limited", ["pods"], ["none"], flag="enforce-node-allocatable"
    ),
    _refused("memorySwap.swapBehavior", "text", "no container gets swap", "NoSwap"),
    _warned("memoryThrottlingFactor", "number", "no container has memory.high, as where no factor is given"),
    _refused("memoryReservationPolicy", "text", "no memory is reserved by QoS class", "None"),
    _set("singleProcessOOMKill", "bool", table.SINGLE_PROCESS_OOM_KILL),
    _refused("cpuCFSQuota", "bool", "limits of CPU are enforced", True, flag="cpu-cfs-quota"),
    _refused("cpuCFSQuotaPeriod", "duration", "the period is 100 ms", "100ms", flag="cpu-cfs-quota-period"),
    _refused("seccompDefault", "bool", "a pod names its seccomp profile itself", False, flag="seccomp-default"),
    _refused(
        "localStorageCapacityIsolation",
        "bool",
        "limits of local storage are enforced",
        True,
        flag="local-storage-capacity-isolation",
    ),
    _set("crashLoopBackOff.maxContainerRestartPeriod", "duration", table.RESTART_BACKOFF_MAX),
    # --- the machine --------------------------------------------------------------------------------------------------
    _derived("failSwapOn", "bool", "fail-swap-on"),
    _derived("failCgroupV1", "bool", "fail-cgroupv1"),
    _derived("featureGates", "map", "feature-gates"),
    _refused(
        "protectKernelDefaults", "bool", "the node changes no kernel setting", False, flag="protect-kernel-defaults"
    ),
    _warned(
        "makeIPTablesUtilChains",
        "bool",
        "the node makes no chains of iptables",
        False,
        flag="make-iptables-util-chains",
    ),
    _warned("iptablesMasqueradeBit", "int", "the node makes no chains of iptables", 14),
    _warned("iptablesDropBit", "int", "the node makes no chains of iptables", 15),
    _warned("hairpinMode", "text", "CNI decides", "promiscuous-bridge", "hairpin-veth", "none", flag="hairpin-mode"),
    _warned("oomScoreAdj", "int", "the worker's is -999", -999, flag="oom-score-adj"),
    _warned("kubeletCgroups", "text", "the worker stays where it was started", flag="kubelet-cgroups"),
    _warned("systemCgroups", "text", "no process of the system is moved", flag="system-cgroups"),
    _warned("maxOpenFiles", "int", "the worker keeps the limit that it was started with", flag="max-open-files"),
    _refused(
        "resolvConf",
        "text",
        "it is /etc/resolv.conf, or systemd-resolved's own if that names its stub",
        "/etc/resolv.conf",
        "/run/systemd/resolve/resolv.conf",
        flag="resolv-conf",
    ),
    _warned("volumePluginDir", "text", "there are no volume plugins", flag="volume-plugin-dir"),
    _warned(
        "volumeStatsAggPeriod",
        "duration",
        "volumes are measured when a client requests their usage",
        "1m0s",
        "1m",
        flag="volume-stats-agg-period",
    ),
    # --- the server on port 10250, and the client of the API server ---------------------------------------------------
    _refused("enableServer", "bool", "the port is served", True, flag="enable-server"),
    _refused("enableDebuggingHandlers", "bool", "logs and exec are served", True, flag="enable-debugging-handlers"),
    _derived("healthzPort", "int", "healthz-port"),
    _derived("healthzBindAddress", "text", "healthz-bind-address"),
    _warned("enableContentionProfiling", "bool", "there is no such profile", False, flag="contention-profiling"),
    _warned("enableProfilingHandler", "bool", "there is no such profile", False),
    _warned("enableDebugFlagsHandler", "bool", "there are no such flags", False),
    _warned("enableSystemLogHandler", "bool", "the machine's logs are not served", False),
    _warned("enableSystemLogQuery", "bool", "the machine's logs are not served", False),
    _warned("tlsCipherSuites", "words", "TLS 1.2 with ECDHE, or TLS 1.3", flag="tls-cipher-suites"),
    _warned("tlsCurvePreferences", "objects", "the library's own"),
    _warned("tlsMinVersion", "text", "at least TLS 1.2", "VersionTLS12", flag="tls-min-version"),
    _warned("eventRecordQPS", "int", "50 events a second", 50, flag="event-qps"),
    _warned("eventBurst", "int", "100 events at once", 100, flag="event-burst"),
    _warned("kubeAPIQPS", "int", _NOT_RATED, 50, flag="kube-api-qps"),
    _warned("kubeAPIBurst", "int", _NOT_RATED, 100, flag="kube-api-burst"),
    _warned("contentType", "text", "JSON is sent", "application/json", flag="kube-api-content-type"),
    _warned("tracing", "object", "the OTEL_ variables say where spans go"),
    _warned("showHiddenMetricsForVersion", "text", "no metric is hidden"),
    _set("port", "int", table.KUBELET_PORT, "port"),
    _set("tlsCertFile", "text", table.TLS_CERT_FILE, "tls-cert-file"),
    _set("tlsPrivateKeyFile", "text", table.TLS_PRIVATE_KEY_FILE, "tls-private-key-file"),
    _set("authentication.x509.clientCAFile", "text", table.CLIENT_CA_FILE, "client-ca-file"),
    _open("authentication.anonymous.enabled", "bool", table.ANONYMOUS_AUTH, "anonymous-auth"),
    _set("authentication.webhook.enabled", "bool", table.TOKEN_REVIEWS, "authentication-token-webhook"),
    _warned(
        "authentication.webhook.cacheTTL",
        "duration",
        "an answer holds for two minutes",
        "2m0s",
        "2m",
        "0s",
        flag="authentication-token-webhook-cache-ttl",
    ),
    _open("authorization.mode", "text", table.AUTHORIZATION_MODE, "authorization-mode"),
    _warned(
        "authorization.webhook.cacheAuthorizedTTL",
        "duration",
        "an answer holds for five minutes",
        "5m0s",
        "5m",
        "0s",
        flag="authorization-webhook-cache-authorized-ttl",
    ),
    _warned(
        "authorization.webhook.cacheUnauthorizedTTL",
        "duration",
        "a refusal holds for half a minute",
        "30s",
        "0s",
        flag="authorization-webhook-cache-unauthorized-ttl",
    ),
    _set("address", "text", table.KUBELET_ADDRESS, "address"),
    _open("readOnlyPort", "int", table.READ_ONLY_PORT, "read-only-port"),
    _set("clusterDNS", "words", table.CLUSTER_DNS, "cluster-dns"),
    _set("clusterDomain", "text", table.CLUSTER_DOMAIN, "cluster-domain"),
    _warned(
        "rotateCertificates",
        "bool",
        "a certificate that the node itself requested is renewed; any other is used until it expires",
        False,
        flag="rotate-certificates",
    ),
    _set("serverTLSBootstrap", "bool", table.SERVER_TLS_BOOTSTRAP, "rotate-server-certificates"),
    Field(_FLAG_ONLY, "text", "bootstrap-kubeconfig", derived=True),
    Field(_FLAG_ONLY, "text", "cert-dir", warned="certificates are in the state directory"),
    Field(_FLAG_ONLY, "bool", "exit-on-lock-contention", true_for=(False,), refused="the state directory has a lock"),
    _set(_FLAG_ONLY, "duration", table.CONTAINER_GC_MIN_AGE, "minimum-container-ttl-duration"),
    _set(_FLAG_ONLY, "int", table.CONTAINER_GC_PER_CONTAINER, "maximum-dead-containers-per-container"),
    _set(_FLAG_ONLY, "int", table.CONTAINER_GC_IN_ALL, "maximum-dead-containers"),
    Field(
        _FLAG_ONLY, "bool", "experimental-allocatable-ignore-eviction", true_for=(False,), refused="it is subtracted"
    ),
    Field(_FLAG_ONLY, "text", "experimental-mounter-path", refused="the node mounts by itself"),
    Field(_FLAG_ONLY, "text", "v", warned="the log has one level"),
    Field(_FLAG_ONLY, "text", "vmodule", warned="the log has one level"),
    Field(_FLAG_ONLY, "duration", "log-flush-frequency", true_for=("5s",), warned="each line is written at once"),
    Field(_FLAG_ONLY, "text", "lock-file", refused="the state directory has a lock"),
)
"""All fields and flags; `syncpod.cli.kubelet.node_start` computes settings from the derived ones."""

BY_PATH: Final[Mapping[str, Field]] = {each.path: each for each in FIELDS if each.path}
BY_FLAG: Final[Mapping[str, Field]] = {each.flag: each for each in FIELDS if each.flag}


def is_unset(field: Field, value: Any) -> bool:
    """Return whether a kubelet uses the default in place of a value, such as a duration or a port of zero."""
    if field.path and field.form == "duration":
        return parse_go_duration(value) == 0
    return value in ("", [], {}) or (field.path == "port" and value == 0)


def is_true_for(field: Field, value: Any) -> bool:
    """Return whether a node of ours behaves like a kubelet that was given this value."""
    return is_unset(field, value) or any(value == each and type(value) is type(each) for each in field.true_for)
