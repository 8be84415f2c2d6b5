"""The settings of a node's worker: its name, its directories, its limits, and which runtime it uses."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from syncpod.settings import variables as v
from syncpod.settings.directories import default_state_dir, memory_directory, require_no_copy, require_own_directory
from syncpod.settings.kept import beneath, read_kept_settings
from syncpod.settings.table import AUTHORIZATION_MODES, BY_NAME, BY_VARIABLE, LOG_FORMATS
from syncpod.settings.values import (
    SettingsInvalid,
    absolute_path,
    comma_separated,
    days_or_duration,
    domain,
    duration_seconds,
    flag,
    host_and_port,
    ip_addresses,
    nameservers,
    percent,
    size_bytes,
)

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CGROUP_PART = re.compile(r"[A-Za-z0-9._-]+")
_PATHS: Final[tuple[str, ...]] = (
    *(v.MEMORY_DIR, v.LOG_DIR, v.MANIFEST_DIR, v.KUBECONFIG, v.REGISTRY_AUTH_FILE),
    *(v.CLIENT_CA_FILE, v.TLS_CERT_FILE, v.TLS_PRIVATE_KEY_FILE),
)
MACHINE_LOGS: Final = Path("/var/log/pods")
"""The directory of pods' logs on a machine, which a kubelet has too."""
_SMALLEST_JOURNAL: Final = 2**20
_KUBELETS_BACKOFF_MAX: Final = 300.0


@dataclass(frozen=True)
class ImageGcSettings:
    """When images are removed; names and defaults are those of the kubelet's configuration."""

    high_threshold_percent: int = 85
    """imageGCHighThresholdPercent: disk usage from which images are removed; 100 = never for lack of space."""
    low_threshold_percent: int = 80
    """imageGCLowThresholdPercent: disk usage at which removal stops."""
    minimum_age_seconds: float = 120.0
    """imageMinimumGCAge: images that were pulled more recently are kept."""
    maximum_age_seconds: float = 0.0
    """imageMaximumGCAge: images unused for longer are removed even from an empty disk; 0 = none are."""


@dataclass(frozen=True)
class LogSettings:
    """How much of a container's log is kept; names and defaults are those of the kubelet's configuration."""

    max_bytes: int = 10 * 2**20
    """containerLogMaxSize: size from which a log is rotated."""
    max_files: int = 5
    """containerLogMaxFiles: files of one instance, including the current one; at least 2."""


@dataclass(frozen=True)
class JournalSettings:
    """How much the node's journal keeps."""

    age: timedelta = timedelta(days=90)
    """Older records are removed; zero = no limit of age."""
    max_bytes: int = 256 * 2**20
    """Size of the file above which the oldest records are removed."""


@dataclass(frozen=True)
class ImagePullSettings:
    """How images are pulled, and who may then use them; names and defaults are those of the kubelet's configuration."""

    at_once: int = 1
    """maxParallelImagePulls; 1 = one after the other (serializeImagePulls)."""
    registry_auth_file: Path | None = None
    """The node's own registry credentials, as ``docker login`` writes them; absolute."""
    verification_policy: str = ""
    """imagePullCredentialsVerificationPolicy, "" = the kubelet's default."""
    verification_allowlist: tuple[str, ...] = ()
    """preloadedImagesVerificationAllowlist."""


@dataclass(frozen=True)
class PortAccess:
    """The address of the kubelet's port, and the access to it. The defaults are the kubelet's: no anonymous clients."""

    address: str = ""
    """The IP address of the kubelet's port and of the `read_only` port; "" = the node's address and the loopback
    address."""
    anonymous: bool = False
    """Clients without credentials are system:anonymous, and not refused."""
    reviews_tokens: bool = True
    """Tokens of clients are checked by the API server (TokenReview)."""
    always_allow: bool = False
    """Every authenticated client may do everything."""
    read_only: int = 0
    """A port at which every client may read, without TLS; 0 = none."""

    @property
    def needs_api_server(self) -> bool:
        """Whether clients are authenticated or authorized by the API server."""
        return self.reviews_tokens or not self.always_allow


CLOSED: Final = PortAccess()
"""The defaults: the API server authenticates tokens and authorizes every request."""


@dataclass(frozen=True)
class NodeSettings:
    """The settings of one node's worker."""

    node: str
    """The node's name, a DNS subdomain: by default the host name in lower case."""
    state_dir: Path
    """Absolute; mode 0700; one live worker holds it."""
    memory_dir: Path
    """Absolute; mode 0700; holds Secrets, on a memory file system so that they never reach a disk."""
    log_dir: Path
    """Absolute; the pods' logs, where crictl and log agents look."""
    manifest_dir: Path | None
    """Absolute; a directory of static pod manifests, one pod per file (the kubelet's staticPodPath)."""
    kubeconfig: Path | None
    """Absolute; how the node reaches the API server of the Kubernetes cluster that it is part of."""
    keep_secrets: bool
    """Copies of the cluster's Secrets and tokens are kept on disk, encrypted."""
    kubelet_port: int
    """The kubelet's port, served at the node's addresses in its cluster; 0 = none."""
    port_access: PortAccess
    pods_api: bool
    """The pods are served, whole, to programs on the machine (the kubelet's gate PodsAPI)."""
    shutdown_grace: str
    """How long the machine's shutdown waits for pods of at least a priority: ``0=20s,2000000000=10s``; "" = not at
    all."""
    server_tls_bootstrap: bool
    """The certificate of the kubelet's port is requested from the cluster (the kubelet's serverTLSBootstrap)."""
    client_ca_file: Path | None
    """Absolute; the authorities of client certificates at the kubelet's port; None = the kubeconfig's."""
    tls_cert_file: Path | None
    """Absolute; the certificate of the kubelet's port; None = the node makes one."""
    tls_private_key_file: Path | None
    """Absolute; the key of `tls_cert_file`."""
    cgroup_parent: str
    """The parent cgroup of all pods, its parts separated by slashes."""
    capacity: str
    """The node's capacity of the resources for which it differs from the machine's: ``cpu=8,memory=32Gi,pods=110``."""
    reserved: str
    """Resources reserved for the machine (the kubelet's kubeReserved and systemReserved): ``cpu=500m,memory=1Gi``."""
    node_labels: str
    """Labels of the node besides those that every node has: ``disk=ssd,example.com/rack=7``."""
    node_ip: tuple[str, ...]
    """The node's addresses, the first being the preferred one; none = those from which the default routes leave."""
    cluster_dns: tuple[str, ...]
    """The addresses of a cluster's DNS; none = pods with dnsPolicy ClusterFirst have the host's resolver."""
    cluster_domain: str
    """The DNS domain of a cluster, such as ``cluster.local``; "" = pods search no domain of a cluster."""
    register_with_taints: str
    """Taints of the node's Node object when it is first registered: ``dedicated=edge:NoSchedule``."""
    pod_cgroups: bool
    """Give each pod a cgroup with limits, where possible (the kubelet's cgroupsPerQOS)."""
    single_process_oom_kill: bool
    """The kernel kills one process of a container that runs out of memory, not the whole container (the kubelet's
    singleProcessOOMKill). With cgroups of version 1 the kernel always kills only one."""
    pod_max_pids: int
    """How many processes and threads a pod may have (the kubelet's podPidsLimit); -1 = as many as all pods together."""
    allowed_unsafe_sysctls: tuple[str, ...]
    """Sysctls that pods may set besides the safe ones: names, or prefixes that end in ``*``."""
    image_gc: ImageGcSettings
    logs: LogSettings
    image_pulls: ImagePullSettings
    restart_backoff_max: float
    """The longest back-off of a restart in seconds, for containers that set none (maxContainerRestartPeriod)."""
    journal: JournalSettings
    runtime_endpoint: str | None
    """The CRI socket, ``unix:///path``; None = try the well-known ones."""
    allow_foreign_kubelet: bool
    """Serve even if a kubelet uses the same runtime, although a kubelet kills pods that it does not know."""
    signed: bool = False
    """Accept only commands that are signed with a key of the state directory."""
    metrics_address: str = ""
    """``host:port`` at which metrics are served over HTTP; "" = they are not."""
    json_log: bool = False
    """Write the worker's log as one JSON object a line."""
    encrypt: bool = False
    """Encrypt what goes to Temporal with a key of the state directory; then commands are signed too."""
    adopt_cluster: bool = False
    """Serve on the given Temporal cluster although the node's pods are on another cluster; has a flag but no
    variable."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The settings that are not defaults, as text by their variables' names: the node keeps them for its next start."""

    @property
    def serves_kubelet_port(self) -> bool:
        """Whether the kubelet's port is served: in a cluster, or if no client needs the API server's check."""
        return self.kubelet_port > 0 and (self.kubeconfig is not None or not self.port_access.needs_api_server)

    @property
    def serves_metrics(self) -> bool:
        """Whether metrics are served: at their own address, at the kubelet's port, or at its read-only port."""
        return bool(self.metrics_address or self.serves_kubelet_port or self.port_access.read_only)


def node_settings(
    environ: Mapping[str, str],
    *,
    state_dir: str | None = None,
    allow_foreign_kubelet: bool | None = None,
    adopt_cluster: bool = False,
    **flags: str | bool | None,
) -> NodeSettings:
    """Return the node's settings.

    A setting has the value of its flag, else of its variable in `environ`, else of the last start, else its default.
    `flags` has the values of flags by the settings' names in the table; None or no value = the flag is not given.
    Raises SettingsInvalid.
    """
    state = _state_dir(state_dir, environ)
    texts = {BY_NAME[name].variable: _as_text(given) for name, given in flags.items()}
    given = _signed_if_encrypted(_all_given(state, environ, texts))
    try:
        return _read(state, given, environ, allow_foreign_kubelet, adopt_cluster=adopt_cluster)
    except SettingsInvalid as wrong:
        raise SettingsInvalid(_as_typed(str(wrong), texts)) from None


def _as_typed(sentence: str, texts: Mapping[str, str | None]) -> str:
    """Return a sentence about a variable; if a flag gave the value, the sentence names the flag instead."""
    variable, sign, rest = sentence.partition("=")
    setting = BY_VARIABLE.get(variable)
    if not sign or setting is None or not texts.get(variable):
        return sentence
    return f"{setting.flag}={rest}".removesuffix(f" ({setting.flag})")


def _read(
    state: Path,
    given: Mapping[str, str],
    environ: Mapping[str, str],
    allow_foreign_kubelet: bool | None,
    *,
    adopt_cluster: bool,
) -> NodeSettings:
    """Return the settings from texts by variable. Raises SettingsInvalid."""
    return NodeSettings(
        node=_node_name(given.get(v.NODE) or socket.gethostname().lower()),
        state_dir=state,
        memory_dir=_memory_dir(state, given),
        log_dir=_log_dir(state, given, environ),
        manifest_dir=_absolute_or_none("manifest directory", given.get(v.MANIFEST_DIR)),
        kubeconfig=_absolute_or_none("kubeconfig", given.get(v.KUBECONFIG)),
        keep_secrets=flag(v.KEEP_SECRETS, given.get(v.KEEP_SECRETS, "")),
        kubelet_port=_port(v.KUBELET_PORT, given.get(v.KUBELET_PORT) or "10250"),
        port_access=_port_access(given),
        pods_api=flag(v.PODS_API, given.get(v.PODS_API, "")),
        shutdown_grace=given.get(v.SHUTDOWN_GRACE, ""),
        server_tls_bootstrap=flag(v.SERVER_TLS_BOOTSTRAP, given.get(v.SERVER_TLS_BOOTSTRAP, "")),
        client_ca_file=_absolute_or_none("client CA file", given.get(v.CLIENT_CA_FILE)),
        tls_cert_file=_absolute_or_none("TLS certificate file", given.get(v.TLS_CERT_FILE)),
        tls_private_key_file=_absolute_or_none("TLS key file", given.get(v.TLS_PRIVATE_KEY_FILE)),
        cgroup_parent=_cgroup_parent(given.get(v.CGROUP_PARENT) or "syncpod"),
        capacity=given.get(v.CAPACITY, ""),
        reserved=given.get(v.RESERVED, ""),
        node_labels=given.get(v.NODE_LABELS, ""),
        node_ip=ip_addresses(v.NODE_IP, given.get(v.NODE_IP, "")),
        cluster_dns=nameservers(v.CLUSTER_DNS, given.get(v.CLUSTER_DNS, "")),
        cluster_domain=domain(v.CLUSTER_DOMAIN, given.get(v.CLUSTER_DOMAIN, "")),
        register_with_taints=given.get(v.REGISTER_WITH_TAINTS, ""),
        pod_cgroups=flag(v.POD_CGROUPS, given.get(v.POD_CGROUPS, "true")),
        single_process_oom_kill=flag(v.SINGLE_PROCESS_OOM_KILL, given.get(v.SINGLE_PROCESS_OOM_KILL, "false")),
        pod_max_pids=_pod_max_pids(given.get(v.POD_MAX_PIDS) or "-1"),
        allowed_unsafe_sysctls=comma_separated(given.get(v.ALLOWED_UNSAFE_SYSCTLS, "")),
        image_gc=_image_gc(given),
        logs=_logs(given),
        image_pulls=_image_pulls(given),
        restart_backoff_max=_restart_backoff_max(given),
        journal=_journal(given),
        runtime_endpoint=given.get(v.RUNTIME_ENDPOINT) or None,
        allow_foreign_kubelet=_flag(v.ALLOW_FOREIGN_KUBELET, allow_foreign_kubelet, environ),
        metrics_address=host_and_port(v.METRICS_ADDRESS, given.get(v.METRICS_ADDRESS, "")),
        json_log=_is_json(given.get(v.LOG_FORMAT, "")),
        signed=flag(v.SIGNED, given.get(v.SIGNED, "")),
        encrypt=flag(v.ENCRYPT, given.get(v.ENCRYPT, "")),
        adopt_cluster=adopt_cluster,
        given=_given(state, given),
    )


def _state_dir(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the state directory. It is checked before anything in it is read."""
    state = absolute_path("state directory", given or environ.get(v.STATE_DIR), default_state_dir(environ))
    require_own_directory("state directory", state, v.STATE_DIR)
    require_no_copy(state)
    return state


def _memory_dir(state: Path, given: Mapping[str, str]) -> Path:
    memory = memory_directory(state, given)
    require_own_directory("memory directory", memory, v.MEMORY_DIR)
    return memory


def _log_dir(state: Path, given: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    logs = absolute_path("log directory", given.get(v.LOG_DIR), _default_log_dir(state, environ))
    require_own_directory("log directory", logs, v.LOG_DIR)
    return logs


def _as_text(given: object) -> str | None:
    """Return a flag's value as the text of its variable."""
    return str(given).lower() if isinstance(given, bool) else None if given is None else str(given)


def _all_given(state: Path, environ: Mapping[str, str], flags: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values that are set, by variable: a flag's, else the environment's, else the kept one.

    An empty flag is ignored. But if its setting may be none, an empty flag removes the earlier value.
    """
    given = beneath(read_kept_settings(state).variables, environ)
    return given | {
        name: text for name, text in flags.items() if text or (text is not None and BY_VARIABLE[name].may_be_none)
    }


def _signed_if_encrypted(given: dict[str, str]) -> dict[str, str]:
    """Return the settings with signing turned on if they encrypt.

    Raises SettingsInvalid if they also turn signing off.
    """
    if not flag(v.ENCRYPT, given.get(v.ENCRYPT, "")):
        return given
    if given.get(v.SIGNED) and not flag(v.SIGNED, given[v.SIGNED]):
        raise SettingsInvalid(f"{v.SIGNED}={given[v.SIGNED]}: encrypted data is signed too, so leave it out")
    return {**given, v.SIGNED: "true"}


def _given(state: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from their defaults, and are therefore kept for the node's next start."""
    default_memory = memory_directory(state, {**given, v.MEMORY_DIR: ""})
    # A default directory in memory may be gone after a reboot, so it is chosen again.
    is_default = memory_directory(state, given) == default_memory
    kept = {name: given[name] for name in BY_VARIABLE if given.get(name) and not (name == v.MEMORY_DIR and is_default)}
    # Each value in one form, so that two texts of one value are not taken for a change.
    paths = {name: str(Path(kept[name]).expanduser()) for name in _PATHS if name in kept}
    address = {name: host_and_port(name, kept[name]) for name in (v.METRICS_ADDRESS,) if name in kept}
    return {**kept, **paths, **address}


def _default_log_dir(state: Path, environ: Mapping[str, str]) -> Path:
    """Return ``/var/log/pods`` for root's default state directory, else ``pods`` below the state directory.

    Workers with other state directories may have pods of the same names.
    """
    is_default = os.geteuid() == 0 and state == default_state_dir(environ)
    return MACHINE_LOGS if is_default else state / "pods"


def _absolute_or_none(what: str, path: str | None) -> Path | None:
    return absolute_path(what, path, Path()) if path else None


def _flag(name: str, given: bool | None, environ: Mapping[str, str]) -> bool:
    return flag(name, environ.get(name, "")) if given is None else given


def _node_name(name: str) -> str:
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise SettingsInvalid(
            f"node name {name!r}: must be at most 253 lower-case letters, digits, '-' and '.', "
            f"and must begin and end with a letter or digit (--node or {v.NODE})"
        )
    return name


def _cgroup_parent(parent: str) -> str:
    parts = parent.strip("/").split("/")
    if not all(_CGROUP_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise SettingsInvalid(
            f"cgroup parent {parent!r}: must be names of letters, digits, '.', '_' and '-' separated by '/'"
        )
    return "/".join(parts)


def _pod_max_pids(number: str) -> int:
    """Return the limit of a pod's processes. Difference: for a kubelet, 0 and every negative number mean no limit."""
    if not re.fullmatch("-1|[1-9][0-9]{0,6}", number):
        raise SettingsInvalid(
            f"{v.POD_MAX_PIDS}={number!r}: must be a whole number from 1, or -1 for no limit (--pod-max-pids)"
        )
    return int(number)


def _port(name: str, number: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", number, re.ASCII) or int(number) > 65535:
        raise SettingsInvalid(
            f"{name}={number!r}: must be a port from 1 to 65535, or 0 for none ({BY_VARIABLE[name].flag})"
        )
    return int(number)


def _port_access(given: Mapping[str, str]) -> PortAccess:
    """Return who is let in at the kubelet's port. Raises SettingsInvalid."""
    address, mode = given.get(v.KUBELET_ADDRESS, "").strip(), given.get(v.AUTHORIZATION_MODE) or AUTHORIZATION_MODES[0]
    if mode not in AUTHORIZATION_MODES:
        raise SettingsInvalid(f"{v.AUTHORIZATION_MODE}={mode!r}: must be Webhook or AlwaysAllow (--authorization-mode)")
    try:
        address = address and str(ipaddress.ip_address(address))
    except ValueError:
        raise SettingsInvalid(f"{v.KUBELET_ADDRESS}={address!r}: must be an IP address (--kubelet-address)") from None
    return PortAccess(
        address=address,
        anonymous=flag(v.ANONYMOUS_AUTH, given.get(v.ANONYMOUS_AUTH, "")),
        reviews_tokens=flag(v.TOKEN_REVIEWS, given.get(v.TOKEN_REVIEWS, "true")),
        always_allow=mode == AUTHORIZATION_MODES[1],
        read_only=_port(v.READ_ONLY_PORT, given.get(v.READ_ONLY_PORT) or "0"),
    )


def _is_json(log_format: str) -> bool:
    """Say whether the worker's log is JSON."""
    chosen = log_format.strip() or "text"
    if chosen not in LOG_FORMATS:
        raise SettingsInvalid(f"{v.LOG_FORMAT}={chosen!r}: must be text or json (--log-format)")
    return chosen == "json"


def _restart_backoff_max(environ: Mapping[str, str]) -> float:
    seconds = duration_seconds(v.RESTART_BACKOFF_MAX, environ, _KUBELETS_BACKOFF_MAX)
    if not 1 <= seconds <= _KUBELETS_BACKOFF_MAX:
        raise SettingsInvalid(f"{v.RESTART_BACKOFF_MAX}={environ[v.RESTART_BACKOFF_MAX]!r}: must be between 1s and 5m")
    return seconds


def _image_pulls(environ: Mapping[str, str]) -> ImagePullSettings:
    number = environ.get(v.MAX_PARALLEL_IMAGE_PULLS) or "1"
    if not re.fullmatch("[1-9][0-9]{0,3}", number):
        raise SettingsInvalid(
            f"{v.MAX_PARALLEL_IMAGE_PULLS}={number!r}: must be a whole number from 1 (--max-parallel-image-pulls)"
        )
    return ImagePullSettings(
        at_once=int(number),
        registry_auth_file=_absolute_or_none("registry auth file", environ.get(v.REGISTRY_AUTH_FILE)),
        verification_policy=environ.get(v.IMAGE_VERIFICATION_POLICY, ""),
        verification_allowlist=comma_separated(environ.get(v.IMAGE_VERIFICATION_ALLOWLIST, "")),
    )


def _image_gc(environ: Mapping[str, str]) -> ImageGcSettings:
    default = ImageGcSettings()
    found = ImageGcSettings(
        high_threshold_percent=percent(v.IMAGE_GC_HIGH, environ, default.high_threshold_percent),
        low_threshold_percent=percent(v.IMAGE_GC_LOW, environ, default.low_threshold_percent),
        minimum_age_seconds=duration_seconds(v.IMAGE_GC_MIN_AGE, environ, default.minimum_age_seconds),
        maximum_age_seconds=duration_seconds(v.IMAGE_GC_MAX_AGE, environ, default.maximum_age_seconds),
    )
    if found.low_threshold_percent >= found.high_threshold_percent:
        raise SettingsInvalid(
            f"{v.IMAGE_GC_LOW}={found.low_threshold_percent}: must be less than {v.IMAGE_GC_HIGH}, "
            f"which is {found.high_threshold_percent}"
        )
    if 0 < found.maximum_age_seconds <= found.minimum_age_seconds:
        raise SettingsInvalid(
            f"{v.IMAGE_GC_MAX_AGE}: must be 0, or more than {v.IMAGE_GC_MIN_AGE}, "
            f"which is {found.minimum_age_seconds:g} s"
        )
    return found


def _journal(environ: Mapping[str, str]) -> JournalSettings:
    default = JournalSettings()
    found = JournalSettings(
        days_or_duration(v.JOURNAL_AGE, environ, default.age), size_bytes(v.JOURNAL_SIZE, environ, default.max_bytes)
    )
    if found.max_bytes < _SMALLEST_JOURNAL:
        raise SettingsInvalid(
            f"{v.JOURNAL_SIZE}={environ.get(v.JOURNAL_SIZE, '')!r}: must be at least 1Mi (--journal-size)"
        )
    return found


def _logs(environ: Mapping[str, str]) -> LogSettings:
    default = LogSettings()
    files = environ.get(v.CONTAINER_LOG_MAX_FILES) or str(default.max_files)
    if not files.isdecimal() or not files.isascii() or int(files) < 2:
        raise SettingsInvalid(f"{v.CONTAINER_LOG_MAX_FILES}={files!r}: must be a whole number, at least 2")
    return LogSettings(size_bytes(v.CONTAINER_LOG_MAX_SIZE, environ, default.max_bytes), int(files))
