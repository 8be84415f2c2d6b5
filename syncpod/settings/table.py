"""The one table of a node's settings: the variable of each, its flag, and whether the node keeps it for its next start.

The worker's command line, the kept file, and the arguments with which `up` starts a worker are made from it. A new
setting is a row here, a field of :class:`syncpod.settings.node.NodeSettings`, and an option of `up` if it has one.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final

from syncpod.settings.values import flag as is_true
from syncpod.settings.variables import (
    ALLOWED_UNSAFE_SYSCTLS,
    ANONYMOUS_AUTH,
    AUTHORIZATION_MODE,
    CAPACITY,
    CGROUP_PARENT,
    CLIENT_CA_FILE,
    CLUSTER_DNS,
    CLUSTER_DOMAIN,
    CONTAINER_GC_IN_ALL,
    CONTAINER_GC_MIN_AGE,
    CONTAINER_GC_PER_CONTAINER,
    CONTAINER_GC_PERIOD,
    CONTAINER_LOG_MAX_FILES,
    CONTAINER_LOG_MAX_SIZE,
    ENCRYPT,
    EVICTION_HARD,
    EVICTION_MAX_POD_GRACE_PERIOD,
    EVICTION_MINIMUM_RECLAIM,
    EVICTION_MONITORING_PERIOD,
    EVICTION_PRESSURE_TRANSITION_PERIOD,
    EVICTION_SOFT,
    EVICTION_SOFT_GRACE_PERIOD,
    GONE_PODS_MIN_AGE,
    GONE_PODS_PERIOD,
    IMAGE_GC_HIGH,
    IMAGE_GC_LOW,
    IMAGE_GC_MAX_AGE,
    IMAGE_GC_MIN_AGE,
    IMAGE_VERIFICATION_ALLOWLIST,
    IMAGE_VERIFICATION_POLICY,
    JOURNAL_AGE,
    JOURNAL_SIZE,
    KEEP_SECRETS,
    KUBECONFIG,
    KUBELET_ADDRESS,
    KUBELET_PORT,
    LOG_DIR,
    LOG_FORMAT,
    MANIFEST_DIR,
    MAX_PARALLEL_IMAGE_PULLS,
    MEMORY_DIR,
    METRICS_ADDRESS,
    NODE,
    NODE_IP,
    NODE_LABELS,
    ORPHANS_PERIOD,
    POD_CGROUPS,
    POD_MAX_PIDS,
    PODS_API,
    READ_ONLY_PORT,
    REGISTER_WITH_TAINTS,
    REGISTRY_AUTH_FILE,
    RESERVED,
    RESTART_BACKOFF_MAX,
    RUNTIME_ENDPOINT,
    SERVER_TLS_BOOTSTRAP,
    SHUTDOWN_GRACE,
    SIGNED,
    SINGLE_PROCESS_OOM_KILL,
    TLS_CERT_FILE,
    TLS_PRIVATE_KEY_FILE,
    TOKEN_REVIEWS,
)

LOG_FORMATS: Final = ("text", "json")
AUTHORIZATION_MODES: Final = ("Webhook", "AlwaysAllow")


@dataclass(frozen=True)
class Setting:
    """One setting that a flag or a variable gives, and that the node keeps for its next start."""

    name: str
    """The name as an argument of `node_settings`, such as `manifest_dir`."""
    variable: str
    help: str
    """The help of the worker's command line, without the variable's name."""
    flag: str
    """The flag, such as ``--node-labels``."""
    default: str = ""
    """The default in words, for the help; "" = the help names none."""
    metavar: str | None = None
    """The placeholder of the value in the help; None = the flag's name in capitals."""
    switch: str = ""
    """The value that the flag stands for, "true" or "false"; "" = the flag takes a value as its argument."""
    choices: tuple[str, ...] | None = None
    may_be_none: bool = False
    """Whether an empty value of the flag removes the value that was set before."""
    none: str = ""
    """A flag without an argument that also removes the value, such as ``--no-manifests``; "" = there is no such
    flag."""
    none_help: str = ""


def _amount(metavar: str, name: str, variable: str, text: str, default: str) -> Setting:
    """Return a setting whose default an empty flag restores; the flag is made from `name`."""
    return Setting(
        name, variable, text, f"--{name.replace('_', '-')}", default=default, metavar=metavar, may_be_none=True
    )


SETTINGS: Final = (
    Setting("node", NODE, "the node's name", "--node", default="the host's"),
    Setting("memory_dir", MEMORY_DIR, "where it keeps Secrets, on a memory file system", "--memory-dir"),
    Setting("log_dir", LOG_DIR, "where the pods' logs go", "--log-dir"),
    Setting(
        "manifest_dir",
        MANIFEST_DIR,
        "a directory of manifests, one pod each, that the node keeps running",
        "--manifests",
        metavar="DIR",
        may_be_none=True,
        none="--no-manifests",
        none_help="follow no directory of manifests any more; its pods stay as they are",
    ),
    Setting(
        "kubeconfig",
        KUBECONFIG,
        "the kubeconfig with which the node is part of a Kubernetes cluster",
        "--kubeconfig",
        metavar="FILE",
        may_be_none=True,
        none="--no-kubeconfig",
        none_help="be part of no cluster any more; its pods stay as they are",
    ),
    Setting(
        "keep_secrets",
        KEEP_SECRETS,
        "keep copies of the cluster's Secrets and tokens on disk, encrypted, for a reboot without its API server",
        "--keep-secrets",
        switch="true",
    ),
    Setting(
        "kubelet_port",
        KUBELET_PORT,
        "the port at which the cluster's API server reaches the node, as a kubelet's; 0 = none",
        "--kubelet-port",
        metavar="N",
        default="10250",
    ),
    Setting(
        "kubelet_address",
        KUBELET_ADDRESS,
        "where that port is served, and the one without identities",
        "--kubelet-address",
        metavar="IP",
        default="the node's addresses, and the loopback address for the one without identities",
    ),
    Setting(
        "anonymous_auth",
        ANONYMOUS_AUTH,
        "accept anonymous requests at that port, as user system:anonymous",
        "--anonymous-auth",
        switch="true",
    ),
    Setting(
        "token_reviews",
        TOKEN_REVIEWS,
        "do not send clients' tokens at that port to the API server for review: no token identifies a user then",
        "--no-token-reviews",
        switch="false",
    ),
    Setting(
        "authorization_mode",
        AUTHORIZATION_MODE,
        "what authorizes requests at that port: the API server, or nothing (AlwaysAllow)",
        "--authorization-mode",
        default=AUTHORIZATION_MODES[0],
        choices=AUTHORIZATION_MODES,
    ),
    Setting(
        "read_only_port",
        READ_ONLY_PORT,
        "a port at which anybody reads pods, usage and metrics, without TLS; 0 = none",
        "--read-only-port",
        metavar="N",
        default="0",
    ),
    Setting(
        "pods_api",
        PODS_API,
        "serve the pods, whole, to programs on this machine by the kubelet's Pods API",
        "--pods-api",
        switch="true",
    ),
    Setting(
        "shutdown_grace",
        SHUTDOWN_GRACE,
        "have the machine's shutdown wait for pods: how long those from a priority on have, as 0=20s,2000000000=10s",
        "--shutdown-grace-by-priority",
        metavar="TIMES",
        may_be_none=True,
    ),
    Setting(
        "server_tls_bootstrap",
        SERVER_TLS_BOOTSTRAP,
        "request the certificate of that port from the cluster, where it must be approved",
        "--server-tls-bootstrap",
        switch="true",
    ),
    Setting(
        "client_ca_file",
        CLIENT_CA_FILE,
        "who may issue the certificates of clients at that port",
        "--client-ca-file",
        metavar="FILE",
        default="the kubeconfig's authority, if it has issued the node's own",
    ),
    Setting(
        "tls_cert_file",
        TLS_CERT_FILE,
        "the certificate of that port",
        "--tls-cert-file",
        metavar="FILE",
        default="one that the node makes",
    ),
    Setting(
        "tls_private_key_file",
        TLS_PRIVATE_KEY_FILE,
        "the key of that certificate",
        "--tls-private-key-file",
        metavar="FILE",
    ),
    Setting("cgroup_parent", CGROUP_PARENT, "the cgroup above the pods'", "--cgroup-parent"),
    Setting("capacity", CAPACITY, "what pods may request together, as cpu=8,memory=32Gi,pods=110", "--capacity"),
    Setting(
        "reserved",
        RESERVED,
        "what the machine keeps for itself, as cpu=500m,memory=1Gi; pods may request so much less",
        "--reserved",
        metavar="NAME=AMOUNT,...",
    ),
    Setting(
        "node_labels",
        NODE_LABELS,
        "labels of the node, which a pod's nodeSelector and node affinity ask for",
        "--node-labels",
        metavar="KEY=VALUE,...",
        may_be_none=True,
    ),
    Setting(
        "node_ip",
        NODE_IP,
        "the node's addresses: one, or one of IPv4 and one of IPv6",
        "--node-ip",
        metavar="IP,...",
        default="those from which the default routes leave",
        may_be_none=True,
    ),
    Setting(
        "cluster_dns",
        CLUSTER_DNS,
        "the addresses of a cluster's DNS, which pods with dnsPolicy ClusterFirst ask",
        "--cluster-dns",
        metavar="IP,...",
        default="none: such pods ask the host's resolver",
        may_be_none=True,
    ),
    Setting(
        "cluster_domain",
        CLUSTER_DOMAIN,
        "the domain of a cluster's names, which such pods search first",
        "--cluster-domain",
        metavar="DOMAIN",
        may_be_none=True,
    ),
    Setting(
        "register_with_taints",
        REGISTER_WITH_TAINTS,
        "taints with which the node is registered with its Kubernetes cluster, if it is new there",
        "--register-with-taints",
        metavar="KEY=VALUE:EFFECT,...",
        may_be_none=True,
    ),
    Setting(
        "pod_cgroups",
        POD_CGROUPS,
        "leave the pods' cgroups to the runtime, without limits for pods as a whole",
        "--no-pod-cgroups",
        switch="false",
    ),
    Setting(
        "single_process_oom_kill",
        SINGLE_PROCESS_OOM_KILL,
        "leave the other processes of a container alone if one runs out of memory, as cgroups of version 1 always do",
        "--single-process-oom-kill",
        switch="true",
    ),
    Setting(
        "pod_max_pids",
        POD_MAX_PIDS,
        "how many processes and threads one pod may have",
        "--pod-max-pids",
        metavar="N",
        default="-1, no limit of its own",
    ),
    Setting(
        "allowed_unsafe_sysctls",
        ALLOWED_UNSAFE_SYSCTLS,
        "sysctls that pods may set besides the safe ones, as kernel.msgmax,net.core.*",
        "--allowed-unsafe-sysctls",
    ),
    Setting(
        "max_parallel_image_pulls",
        MAX_PARALLEL_IMAGE_PULLS,
        "how many images are pulled at once",
        "--max-parallel-image-pulls",
        default="1",
    ),
    Setting(
        "registry_auth_file",
        REGISTRY_AUTH_FILE,
        "the node's own credentials for registries, as docker login writes them",
        "--registry-auth-file",
    ),
    _amount(
        "PERCENT",
        "image_gc_high",
        IMAGE_GC_HIGH,
        "disk usage in percent from which unused images are removed; 100 = never",
        "85",
    ),
    _amount("PERCENT", "image_gc_low", IMAGE_GC_LOW, "disk usage in percent at which that stops", "80"),
    _amount("DURATION", "image_gc_min_age", IMAGE_GC_MIN_AGE, "images that were pulled more recently are kept", "2m"),
    _amount(
        "DURATION", "image_gc_max_age", IMAGE_GC_MAX_AGE, "images unused for longer are removed in any case", "0, none"
    ),
    _amount(
        "POLICY",
        "image_pull_credentials_verification_policy",
        IMAGE_VERIFICATION_POLICY,
        "which images that are already present a pod still needs credentials for",
        "NeverVerifyPreloadedImages",
    ),
    _amount(
        "IMAGE,...",
        "preloaded_images_verification_allowlist",
        IMAGE_VERIFICATION_ALLOWLIST,
        "images that never need any, as example.com/base/*",
        "none",
    ),
    _amount(
        "SIZE", "container_log_max_size", CONTAINER_LOG_MAX_SIZE, "size from which a container's log is rotated", "10Mi"
    ),
    _amount(
        "N", "container_log_max_files", CONTAINER_LOG_MAX_FILES, "files of one log, including the current one", "5"
    ),
    _amount("DURATION", "container_gc_period", CONTAINER_GC_PERIOD, "how often dead containers are collected", "1m"),
    _amount(
        "N",
        "container_gc_per_container",
        CONTAINER_GC_PER_CONTAINER,
        "dead instances of each container to keep with their logs, at least 1",
        "1",
    ),
    _amount("N", "container_gc_in_all", CONTAINER_GC_IN_ALL, "dead instances to keep on the node; -1 = no limit", "-1"),
    _amount("DURATION", "container_gc_min_age", CONTAINER_GC_MIN_AGE, "a dead container that is younger is kept", "0s"),
    _amount("DURATION", "gone_pods_period", GONE_PODS_PERIOD, "how often the remains of gone pods are collected", "1m"),
    _amount(
        "DURATION",
        "gone_pods_min_age",
        GONE_PODS_MIN_AGE,
        "a pod counts as gone once it has been dead for so long",
        "5m",
    ),
    _amount("DURATION", "orphans_period", ORPHANS_PERIOD, "how often the node looks for pods without a workflow", "1m"),
    _amount(
        "SIGNAL<AMOUNT,...",
        "eviction_hard",
        EVICTION_HARD,
        "thresholds at which pods are evicted at once, as memory.available<200Mi",
        "the kubelet's",
    ),
    _amount(
        "SIGNAL<AMOUNT,...",
        "eviction_soft",
        EVICTION_SOFT,
        "thresholds at which pods are evicted after a grace period",
        "none",
    ),
    _amount(
        "SIGNAL=DURATION,...",
        "eviction_soft_grace_period",
        EVICTION_SOFT_GRACE_PERIOD,
        "the grace period of each soft threshold, as memory.available=1m30s",
        "none",
    ),
    _amount(
        "SIGNAL=AMOUNT,...",
        "eviction_minimum_reclaim",
        EVICTION_MINIMUM_RECLAIM,
        "how much an eviction reclaims beyond its threshold, as nodefs.available=500Mi",
        "none",
    ),
    _amount(
        "N",
        "eviction_max_pod_grace_period",
        EVICTION_MAX_POD_GRACE_PERIOD,
        "the longest grace period, in seconds, of a pod that is evicted by a soft threshold",
        "0",
    ),
    _amount(
        "DURATION",
        "eviction_pressure_transition_period",
        EVICTION_PRESSURE_TRANSITION_PERIOD,
        "how long a pressure condition outlasts its cause",
        "5m",
    ),
    _amount(
        "DURATION",
        "eviction_monitoring_period",
        EVICTION_MONITORING_PERIOD,
        "how often memory, disks and processes are measured",
        "10s",
    ),
    _amount(
        "DURATION",
        "restart_backoff_max",
        RESTART_BACKOFF_MAX,
        "the longest back-off of a restart, for containers that set none: 1s to 5m",
        "5m",
    ),
    Setting("runtime_endpoint", RUNTIME_ENDPOINT, "the CRI socket, unix:///path", "--runtime-endpoint"),
    Setting(
        "journal_age",
        JOURNAL_AGE,
        "how long the node's journal keeps what happened: 90d, 36h; 0 = for ever",
        "--journal-age",
        metavar="DURATION",
    ),
    Setting(
        "journal_size", JOURNAL_SIZE, "how large the node's journal may become: 256Mi", "--journal-size", metavar="SIZE"
    ),
    Setting(
        "signed",
        SIGNED,
        "take only commands that are signed with the key of the state directory",
        "--signed",
        switch="true",
    ),
    Setting(
        "encrypt",
        ENCRYPT,
        "sign, and encrypt what goes to Temporal with the key of the state directory",
        "--encrypt",
        switch="true",
    ),
    Setting(
        "metrics_address",
        METRICS_ADDRESS,
        "serve metrics, health and, to its owner, pods there over HTTP",
        "--metrics-address",
        metavar="HOST:PORT",
        may_be_none=True,
    ),
    Setting(
        "log_format",
        LOG_FORMAT,
        "json: one object a line, with pod, step and trace",
        "--log-format",
        default="text",
        choices=LOG_FORMATS,
    ),
)
BY_NAME: Final[Mapping[str, Setting]] = {each.name: each for each in SETTINGS}
BY_VARIABLE: Final[Mapping[str, Setting]] = {each.variable: each for each in SETTINGS}


def first_difference(there: Mapping[str, str], wanted: Mapping[str, str], *, apart_from: Container[str] = ()) -> str:
    """Return the first setting with two values, as ``with --node-labels a=b, not without --node-labels``; "" = none.

    Both are texts by variable; the names in `apart_from` are not compared. Items of a list may come in any order, and
    switches in any of their words. Raises SettingsInvalid for a switch that is neither true nor false.
    """
    for setting in SETTINGS:
        one, other = there.get(setting.variable, ""), wanted.get(setting.variable, "")
        if setting.name not in apart_from and not _is_same(setting, one, other):
            return f"{_with(setting, one)}, not {_with(setting, other)}"
    return ""


def _is_same(setting: Setting, one: str, other: str) -> bool:
    if setting.switch:
        return _is_given(setting, one) == _is_given(setting, other)
    return one == other or sorted(one.split(",")) == sorted(other.split(","))


def _is_given(setting: Setting, text: str) -> bool:
    """Return whether a switch has the value that its flag stands for."""
    return bool(text) and is_true(setting.variable, text) == (setting.switch == "true")


def _with(setting: Setting, text: str) -> str:
    if setting.switch:
        return f"{'with' if _is_given(setting, text) else 'without'} {setting.flag}"
    return f"with {setting.flag} {shlex.quote(text)}" if text else f"without {setting.flag}"


def as_arguments(texts: Mapping[str, str], otherwise: Mapping[str, str]) -> list[str]:
    """Return a worker's arguments for these values by variable.

    `otherwise` has the values that the worker would find without arguments, in its environment and its kept file. If a
    setting that may be none has a value only there, the arguments remove it. Raises SettingsInvalid for a switch that
    is neither true nor false.
    """
    return [
        word
        for each in SETTINGS
        for word in _argument(each, texts.get(each.variable, ""), is_set=bool(otherwise.get(each.variable)))
    ]


def _argument(setting: Setting, text: str, *, is_set: bool) -> list[str]:
    if setting.switch:
        return [setting.flag] if _is_given(setting, text) else []
    if text:
        return [f"{setting.flag}={text}"]  # one word: a value may begin with a dash, as -1 does
    if setting.may_be_none and is_set:
        return [setting.none or f"{setting.flag}="]
    return []
