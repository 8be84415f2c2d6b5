"""The one table of a node's settings: names, help, default and parser of each.

The worker's command line, the kept file, the fields of :class:`syncpod.settings.node.NodeSettings` and the arguments
with which `up` starts a worker are made from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping
from typing import Any, Final, TypeVar

from syncpod.settings import values
from syncpod.settings.setting import Setting

T = TypeVar("T")
_AUTHORIZATION_MODES: Final = ("Webhook", "AlwaysAllow")


def _switch(name: str, text: str) -> Setting[bool]:
    """Return a setting that is off by default; its flag turns it on."""
    return Setting(name, text, values.true_or_false, default="false", switch="true")


def _amount(
    name: str, text: str, parse: values.Parser[T], metavar: str, default: str, default_words: str | None = None
) -> Setting[T]:
    """Return a setting whose default an empty flag restores."""
    return Setting(name, text, parse, default, default_words, metavar=metavar, may_be_none=True)


NODE: Final = Setting("node", "the node's name", values.node_name, default_words="the host's", is_passed_on=True)
MEMORY_DIR: Final = Setting(
    "memory_dir",
    "where it keeps Secrets, on a memory file system",
    values.path("memory directory"),
    has_one_form=True,
    is_passed_on=True,
)
LOG_DIR: Final = Setting(
    "log_dir", "where the pods' logs go", values.path("log directory"), has_one_form=True, is_passed_on=True
)
MANIFEST_DIR: Final = Setting(
    "manifest_dir",
    "a directory of manifests, one pod each, that the node keeps running",
    values.path_or_none("manifest directory"),
    flag="--manifests",
    metavar="DIR",
    may_be_none=True,
    none="--no-manifests",
    none_help="follow no directory of manifests any more; its pods stay as they are",
    has_one_form=True,
    is_passed_on=True,
)
KUBECONFIG: Final = Setting(
    "kubeconfig",
    "the kubeconfig with which the node is part of a Kubernetes cluster",
    values.path_or_none("kubeconfig"),
    metavar="FILE",
    may_be_none=True,
    none="--no-kubeconfig",
    none_help="be part of no cluster any more; its pods stay as they are",
    has_one_form=True,
    is_passed_on=True,
)
KEEP_SECRETS: Final = _switch(
    "keep_secrets",
    "keep copies of the cluster's Secrets and tokens on disk, encrypted, for a reboot without its API server",
)
KUBELET_PORT: Final = Setting(
    "kubelet_port",
    "the port at which the cluster's API server reaches the node, as a kubelet's; 0 = none",
    values.port,
    default="10250",
    metavar="N",
)
KUBELET_ADDRESS: Final = Setting(
    "kubelet_address",
    "where that port is served, and the one without identities",
    values.ip_address,
    default_words="the node's addresses, and the loopback address for the one without identities",
    metavar="IP",
)
ANONYMOUS_AUTH: Final = _switch("anonymous_auth", "accept anonymous requests at that port, as user system:anonymous")
TOKEN_REVIEWS: Final = Setting(
    "token_reviews",
    "do not send clients' tokens at that port to the API server for review: no token identifies a user then",
    values.true_or_false,
    default="true",
    flag="--no-token-reviews",
    switch="false",
)
AUTHORIZATION_MODE: Final = Setting(
    "authorization_mode",
    "what authorizes requests at that port: the API server, or nothing (AlwaysAllow)",
    values.is_second_of(_AUTHORIZATION_MODES),
    default=_AUTHORIZATION_MODES[0],
    choices=_AUTHORIZATION_MODES,
)
READ_ONLY_PORT: Final = Setting(
    "read_only_port",
    "a port at which anybody reads pods, usage and metrics, without TLS; 0 = none",
    values.port,
    default="0",
    metavar="N",
)
PODS_API: Final = _switch("pods_api", "serve the pods, whole, to programs on this machine by the kubelet's Pods API")
SHUTDOWN_GRACE: Final = Setting(
    "shutdown_grace",
    "have the machine's shutdown wait for pods: how long those from a priority on have, as 0=20s,2000000000=10s",
    values.as_it_is,
    variable="SYNCPOD_SHUTDOWN_GRACE_BY_PRIORITY",
    flag="--shutdown-grace-by-priority",
    metavar="TIMES",
    may_be_none=True,
)
SERVER_TLS_BOOTSTRAP: Final = _switch(
    "server_tls_bootstrap", "request the certificate of that port from the cluster, where it must be approved"
)
CLIENT_CA_FILE: Final = Setting(
    "client_ca_file",
    "who may issue the certificates of clients at that port",
    values.path_or_none("client CA file"),
    default_words="the kubeconfig's authority, if it has issued the node's own",
    metavar="FILE",
    has_one_form=True,
)
TLS_CERT_FILE: Final = Setting(
    "tls_cert_file",
    "the certificate of that port",
    values.path_or_none("TLS certificate file"),
    default_words="one that the node makes",
    metavar="FILE",
    has_one_form=True,
)
TLS_PRIVATE_KEY_FILE: Final = Setting(
    "tls_private_key_file",
    "the key of that certificate",
    values.path_or_none("TLS key file"),
    metavar="FILE",
    has_one_form=True,
)
CGROUP_PARENT: Final = Setting(
    "cgroup_parent", "the cgroup above the pods'", values.cgroup, default="syncpod", default_words=""
)
CAPACITY: Final = Setting(
    "capacity", "what pods may request together, as cpu=8,memory=32Gi,pods=110", values.as_it_is, is_passed_on=True
)
RESERVED: Final = Setting(
    "reserved",
    "what the machine keeps for itself, as cpu=500m,memory=1Gi; pods may request so much less",
    values.as_it_is,
    metavar="NAME=AMOUNT,...",
)
NODE_LABELS: Final = Setting(
    "node_labels",
    "labels of the node, which a pod's nodeSelector and node affinity ask for",
    values.as_it_is,
    metavar="KEY=VALUE,...",
    may_be_none=True,
)
NODE_IP: Final = Setting(
    "node_ip",
    "the node's addresses: one, or one of IPv4 and one of IPv6",
    values.ip_addresses,
    default_words="those from which the default routes leave",
    metavar="IP,...",
    may_be_none=True,
)
CLUSTER_DNS: Final = Setting(
    "cluster_dns",
    "the addresses of a cluster's DNS, which pods with dnsPolicy ClusterFirst ask",
    values.nameservers,
    default_words="none: such pods ask the host's resolver",
    metavar="IP,...",
    may_be_none=True,
)
CLUSTER_DOMAIN: Final = Setting(
    "cluster_domain",
    "the domain of a cluster's names, which such pods search first",
    values.domain,
    metavar="DOMAIN",
    may_be_none=True,
)
REGISTER_WITH_TAINTS: Final = Setting(
    "register_with_taints",
    "taints with which the node is registered with its Kubernetes cluster, if it is new there",
    values.as_it_is,
    metavar="KEY=VALUE:EFFECT,...",
    may_be_none=True,
)
POD_CGROUPS: Final = Setting(
    "pod_cgroups",
    "leave the pods' cgroups to the runtime, without limits for pods as a whole",
    values.true_or_false,
    default="true",
    flag="--no-pod-cgroups",
    switch="false",
    is_passed_on=True,
)
SINGLE_PROCESS_OOM_KILL: Final = _switch(
    "single_process_oom_kill",
    "leave the other processes of a container alone if one runs out of memory, as cgroups of version 1 always do",
)
POD_MAX_PIDS: Final = Setting(
    "pod_max_pids",
    "how many processes and threads one pod may have",
    values.pod_pids,
    default="-1",
    default_words="-1, no limit of its own",
    metavar="N",
    is_passed_on=True,
)
ALLOWED_UNSAFE_SYSCTLS: Final = Setting(
    "allowed_unsafe_sysctls",
    "sysctls that pods may set besides the safe ones, as kernel.msgmax,net.core.*",
    values.comma_separated,
)
MAX_PARALLEL_IMAGE_PULLS: Final = Setting(
    "max_parallel_image_pulls", "how many images are pulled at once", values.pulls_at_once, default="1"
)
REGISTRY_AUTH_FILE: Final = Setting(
    "registry_auth_file",
    "the node's own credentials for registries, as docker login writes them",
    values.path_or_none("registry auth file"),
    has_one_form=True,
)
IMAGE_GC_HIGH: Final = _amount(
    "image_gc_high",
    "disk usage in percent from which unused images are removed; 100 = never",
    values.percent,
    "PERCENT",
    "85",
)
IMAGE_GC_LOW: Final = _amount(
    "image_gc_low", "disk usage in percent at which that stops", values.percent, "PERCENT", "80"
)
IMAGE_GC_MIN_AGE: Final = _amount(
    "image_gc_min_age", "images that were pulled more recently are kept", values.duration_seconds, "DURATION", "2m"
)
IMAGE_GC_MAX_AGE: Final = _amount(
    "image_gc_max_age",
    "images unused for longer are removed in any case",
    values.duration_seconds,
    "DURATION",
    "0",
    default_words="0, none",
)
IMAGE_VERIFICATION_POLICY: Final = _amount(
    "image_pull_credentials_verification_policy",
    "which images that are already present a pod still needs credentials for",
    values.as_it_is,
    "POLICY",
    "",
    default_words="NeverVerifyPreloadedImages",
)
IMAGE_VERIFICATION_ALLOWLIST: Final = _amount(
    "preloaded_images_verification_allowlist",
    "images that never need any, as example.com/base/*",
    values.comma_separated,
    "IMAGE,...",
    "",
    default_words="none",
)
CONTAINER_LOG_MAX_SIZE: Final = _amount(
    "container_log_max_size", "size from which a container's log is rotated", values.size_bytes, "SIZE", "10Mi"
)
CONTAINER_LOG_MAX_FILES: Final = _amount(
    "container_log_max_files", "files of one log, including the current one", values.log_files, "N", "5"
)
CONTAINER_GC_PERIOD: Final = _amount(
    "container_gc_period", "how often dead containers are collected", values.period_seconds, "DURATION", "1m"
)
CONTAINER_GC_PER_CONTAINER: Final = _amount(
    "container_gc_per_container",
    "dead instances of each container to keep with their logs, at least 1",
    values.dead_instances,
    "N",
    "1",
)
CONTAINER_GC_IN_ALL: Final = _amount(
    "container_gc_in_all", "dead instances to keep on the node; -1 = no limit", values.number_or_no_limit, "N", "-1"
)
CONTAINER_GC_MIN_AGE: Final = _amount(
    "container_gc_min_age", "a dead container that is younger is kept", values.age, "DURATION", "0s"
)
GONE_PODS_PERIOD: Final = _amount(
    "gone_pods_period", "how often the remains of gone pods are collected", values.period_seconds, "DURATION", "1m"
)
GONE_PODS_MIN_AGE: Final = _amount(
    "gone_pods_min_age", "a pod counts as gone once it has been dead for so long", values.age_seconds, "DURATION", "5m"
)
ORPHANS_PERIOD: Final = _amount(
    "orphans_period", "how often the node looks for pods without a workflow", values.period_seconds, "DURATION", "1m"
)
EVICTION_HARD: Final = _amount(
    "eviction_hard",
    "thresholds at which pods are evicted at once, as memory.available<200Mi",
    values.as_it_is,
    "SIGNAL<AMOUNT,...",
    "",
    default_words="the kubelet's",
)
EVICTION_SOFT: Final = _amount(
    "eviction_soft",
    "thresholds at which pods are evicted after a grace period",
    values.as_it_is,
    "SIGNAL<AMOUNT,...",
    "",
    default_words="none",
)
EVICTION_SOFT_GRACE_PERIOD: Final = _amount(
    "eviction_soft_grace_period",
    "the grace period of each soft threshold, as memory.available=1m30s",
    values.as_it_is,
    "SIGNAL=DURATION,...",
    "",
    default_words="none",
)
EVICTION_MINIMUM_RECLAIM: Final = _amount(
    "eviction_minimum_reclaim",
    "how much an eviction reclaims beyond its threshold, as nodefs.available=500Mi",
    values.as_it_is,
    "SIGNAL=AMOUNT,...",
    "",
    default_words="none",
)
EVICTION_MAX_POD_GRACE_PERIOD: Final = _amount(
    "eviction_max_pod_grace_period",
    "the longest grace period, in seconds, of a pod that is evicted by a soft threshold",
    values.as_it_is,
    "N",
    "0",
)
EVICTION_PRESSURE_TRANSITION_PERIOD: Final = _amount(
    "eviction_pressure_transition_period",
    "how long a pressure condition outlasts its cause",
    values.as_it_is,
    "DURATION",
    "5m",
)
EVICTION_MONITORING_PERIOD: Final = _amount(
    "eviction_monitoring_period",
    "how often memory, disks and processes are measured",
    values.period_seconds,
    "DURATION",
    "10s",
)
RESTART_BACKOFF_MAX: Final = _amount(
    "restart_backoff_max",
    "the longest back-off of a restart, for containers that set none: 1s to 5m",
    values.restart_backoff,
    "DURATION",
    "5m",
)
RUNTIME_ENDPOINT: Final = Setting(
    "runtime_endpoint",
    "the CRI socket, unix:///path",
    values.as_it_is_or_none,
    variable="CONTAINER_RUNTIME_ENDPOINT",
    is_passed_on=True,
)
JOURNAL_AGE: Final = Setting(
    "journal_age",
    "how long the node's journal keeps what happened: 90d, 36h; 0 = for ever",
    values.days_or_duration,
    default="90d",
    default_words="",
    metavar="DURATION",
)
JOURNAL_SIZE: Final = Setting(
    "journal_size",
    "how large the node's journal may become: 256Mi",
    values.journal_bytes,
    default="256Mi",
    default_words="",
    metavar="SIZE",
)
SIGNED: Final = Setting(
    "signed",
    "take only commands that are signed with the key of the state directory",
    values.true_or_false,
    default="false",
    switch="true",
    is_passed_on=True,
)
ENCRYPT: Final = _switch("encrypt", "sign, and encrypt what goes to Temporal with the key of the state directory")
METRICS_ADDRESS: Final = Setting(
    "metrics_address",
    "serve metrics, health and, to its owner, pods there over HTTP",
    values.host_and_port,
    metavar="HOST:PORT",
    may_be_none=True,
    has_one_form=True,
)
LOG_FORMAT: Final = Setting(
    "log_format",
    "json: one object a line, with pod, step and trace",
    values.is_json,
    default=values.LOG_FORMATS[0],
    choices=values.LOG_FORMATS,
)

SETTINGS: Final[tuple[Setting[Any], ...]] = tuple(
    each for each in tuple(globals().values()) if isinstance(each, Setting)
)
"""All of them, in the order above: the worker's help and its arguments have them in this order."""
BY_NAME: Final[Mapping[str, Setting[Any]]] = {each.name: each for each in SETTINGS}
BY_VARIABLE: Final[Mapping[str, Setting[Any]]] = {each.variable: each for each in SETTINGS}


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


def _is_same(setting: Setting[Any], one: str, other: str) -> bool:
    if setting.switch:
        return _is_given(setting, one) == _is_given(setting, other)
    return one == other or sorted(one.split(",")) == sorted(other.split(","))


def _is_given(setting: Setting[Any], text: str) -> bool:
    """Return whether a switch has the value that its flag stands for."""
    return bool(text) and setting.read({setting.variable: text}) == (setting.switch == "true")


def _with(setting: Setting[Any], text: str) -> str:
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


def _argument(setting: Setting[Any], text: str, *, is_set: bool) -> list[str]:
    if setting.switch:
        return [setting.flag] if _is_given(setting, text) else []
    if text:
        return [f"{setting.flag}={text}"]  # one word: a value may begin with a dash, as -1 does
    if setting.may_be_none and is_set:
        return [setting.none or f"{setting.flag}="]
    return []
