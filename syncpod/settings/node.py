"""The settings of a node's worker: its name, its directories, its limits, and which runtime it uses."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from syncpod.settings import table
from syncpod.settings.directories import (
    STATE_DIR,
    default_state_dir,
    memory_directory,
    require_no_copy,
    require_own_directory,
)
from syncpod.settings.kept import beneath, read_kept_settings
from syncpod.settings.setting import Setting, of, read_fields, settings_of, text_of
from syncpod.settings.table import BY_NAME, BY_VARIABLE
from syncpod.settings.values import SettingsInvalid, absolute_path, true_or_false

ALLOW_FOREIGN_KUBELET: Final = Setting(
    "allow_foreign_kubelet",
    "serve beside a kubelet on the same runtime, although a kubelet kills pods that are not its own",
    true_or_false,
    default="false",
)
"""It is not in the table, since it is not kept: each start that wants it asks for it."""
MACHINE_LOGS: Final = Path("/var/log/pods")
"""The directory of pods' logs on a machine, which a kubelet has too."""


@dataclass(frozen=True)
class ImageGcSettings:
    """When images are removed; names and defaults are those of the kubelet's configuration."""

    high_threshold_percent: int = of(table.IMAGE_GC_HIGH)
    """imageGCHighThresholdPercent: disk usage from which images are removed; 100 = never for lack of space."""
    low_threshold_percent: int = of(table.IMAGE_GC_LOW)
    """imageGCLowThresholdPercent: disk usage at which removal stops."""
    minimum_age_seconds: float = of(table.IMAGE_GC_MIN_AGE)
    """imageMinimumGCAge: images that were pulled more recently are kept."""
    maximum_age_seconds: float = of(table.IMAGE_GC_MAX_AGE)
    """imageMaximumGCAge: images unused for longer are removed even from an empty disk; 0 = none are."""


@dataclass(frozen=True)
class LogSettings:
    """How much of a container's log is kept; names and defaults are those of the kubelet's configuration."""

    max_bytes: int = of(table.CONTAINER_LOG_MAX_SIZE)
    """containerLogMaxSize: size from which a log is rotated."""
    max_files: int = of(table.CONTAINER_LOG_MAX_FILES)
    """containerLogMaxFiles: files of one instance, including the current one; at least 2."""


@dataclass(frozen=True)
class JournalSettings:
    """How much the node's journal keeps."""

    age: timedelta = of(table.JOURNAL_AGE)
    """Older records are removed; zero = no limit of age."""
    max_bytes: int = of(table.JOURNAL_SIZE)
    """Size of the file above which the oldest records are removed."""


@dataclass(frozen=True)
class ImagePullSettings:
    """How images are pulled, and who may then use them; names and defaults are those of the kubelet's configuration."""

    at_once: int = of(table.MAX_PARALLEL_IMAGE_PULLS)
    """maxParallelImagePulls; 1 = one after the other (serializeImagePulls)."""
    registry_auth_file: Path | None = of(table.REGISTRY_AUTH_FILE)
    """The node's own registry credentials, as ``docker login`` writes them; absolute."""
    verification_policy: str = of(table.IMAGE_VERIFICATION_POLICY)
    """imagePullCredentialsVerificationPolicy, "" = the kubelet's default."""
    verification_allowlist: tuple[str, ...] = of(table.IMAGE_VERIFICATION_ALLOWLIST)
    """preloadedImagesVerificationAllowlist."""


@dataclass(frozen=True)
class PortAccess:
    """The address of the kubelet's port, and the access to it. The defaults are the kubelet's: no anonymous clients."""

    address: str = of(table.KUBELET_ADDRESS)
    """The IP address of the kubelet's port and of the `read_only` port; "" = the node's address and the loopback
    address."""
    anonymous: bool = of(table.ANONYMOUS_AUTH)
    """Clients without credentials are system:anonymous, and not refused."""
    reviews_tokens: bool = of(table.TOKEN_REVIEWS)
    """Tokens of clients are checked by the API server (TokenReview)."""
    always_allow: bool = of(table.AUTHORIZATION_MODE)
    """Every authenticated client may do everything."""
    read_only: int = of(table.READ_ONLY_PORT)
    """A port at which every client may read, without TLS; 0 = none."""

    @property
    def needs_api_server(self) -> bool:
        """Whether clients are authenticated or authorized by the API server."""
        return self.reviews_tokens or not self.always_allow


CLOSED: Final = PortAccess()
"""The defaults: the API server authenticates tokens and authorizes every request."""


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The settings of one node's worker."""

    node: str = of(table.NODE)
    """The node's name, a DNS subdomain: by default the host name in lower case."""
    state_dir: Path
    """Absolute; mode 0700; one live worker holds it."""
    memory_dir: Path = of(table.MEMORY_DIR)
    """Absolute; mode 0700; holds Secrets, on a memory file system so that they never reach a disk."""
    log_dir: Path = of(table.LOG_DIR)
    """Absolute; the pods' logs, where crictl and log agents look."""
    manifest_dir: Path | None = of(table.MANIFEST_DIR)
    """Absolute; a directory of static pod manifests, one pod per file (the kubelet's staticPodPath)."""
    kubeconfig: Path | None = of(table.KUBECONFIG)
    """Absolute; how the node reaches the API server of the Kubernetes cluster that it is part of."""
    keep_secrets: bool = of(table.KEEP_SECRETS)
    """Copies of the cluster's Secrets and tokens are kept on disk, encrypted."""
    kubelet_port: int = of(table.KUBELET_PORT)
    """The kubelet's port, served at the node's addresses in its cluster; 0 = none."""
    port_access: PortAccess
    pods_api: bool = of(table.PODS_API)
    """The pods are served, whole, to programs on the machine (the kubelet's gate PodsAPI)."""
    shutdown_grace: str = of(table.SHUTDOWN_GRACE)
    """How long the machine's shutdown waits for pods of at least a priority: ``0=20s,2000000000=10s``; "" = not at
    all."""
    server_tls_bootstrap: bool = of(table.SERVER_TLS_BOOTSTRAP)
    """The certificate of the kubelet's port is requested from the cluster (the kubelet's serverTLSBootstrap)."""
    client_ca_file: Path | None = of(table.CLIENT_CA_FILE)
    """Absolute; the authorities of client certificates at the kubelet's port; None = the kubeconfig's."""
    tls_cert_file: Path | None = of(table.TLS_CERT_FILE)
    """Absolute; the certificate of the kubelet's port; None = the node makes one."""
    tls_private_key_file: Path | None = of(table.TLS_PRIVATE_KEY_FILE)
    """Absolute; the key of `tls_cert_file`."""
    cgroup_parent: str = of(table.CGROUP_PARENT)
    """The parent cgroup of all pods, its parts separated by slashes."""
    capacity: str = of(table.CAPACITY)
    """The node's capacity of the resources for which it differs from the machine's: ``cpu=8,memory=32Gi,pods=110``."""
    reserved: str = of(table.RESERVED)
    """Resources reserved for the machine (the kubelet's kubeReserved and systemReserved): ``cpu=500m,memory=1Gi``."""
    node_labels: str = of(table.NODE_LABELS)
    """Labels of the node besides those that every node has: ``disk=ssd,example.com/rack=7``."""
    node_ip: tuple[str, ...] = of(table.NODE_IP)
    """The node's addresses, the first being the preferred one; none = those from which the default routes leave."""
    cluster_dns: tuple[str, ...] = of(table.CLUSTER_DNS)
    """The addresses of a cluster's DNS; none = pods with dnsPolicy ClusterFirst have the host's resolver."""
    cluster_domain: str = of(table.CLUSTER_DOMAIN)
    """The DNS domain of a cluster, such as ``cluster.local``; "" = pods search no domain of a cluster."""
    register_with_taints: str = of(table.REGISTER_WITH_TAINTS)
    """Taints of the node's Node object when it is first registered: ``dedicated=edge:NoSchedule``."""
    pod_cgroups: bool = of(table.POD_CGROUPS)
    """Give each pod a cgroup with limits, where possible (the kubelet's cgroupsPerQOS)."""
    single_process_oom_kill: bool = of(table.SINGLE_PROCESS_OOM_KILL)
    """The kernel kills one process of a container that runs out of memory, not the whole container (the kubelet's
    singleProcessOOMKill). With cgroups of version 1 the kernel always kills only one."""
    pod_max_pids: int = of(table.POD_MAX_PIDS)
    """How many processes and threads a pod may have (the kubelet's podPidsLimit); -1 = as many as all pods together."""
    allowed_unsafe_sysctls: tuple[str, ...] = of(table.ALLOWED_UNSAFE_SYSCTLS)
    """Sysctls that pods may set besides the safe ones: names, or prefixes that end in ``*``."""
    image_gc: ImageGcSettings
    logs: LogSettings
    image_pulls: ImagePullSettings
    restart_backoff_max: float = of(table.RESTART_BACKOFF_MAX)
    """The longest back-off of a restart in seconds, for containers that set none (maxContainerRestartPeriod)."""
    journal: JournalSettings
    runtime_endpoint: str | None = of(table.RUNTIME_ENDPOINT)
    """The CRI socket, ``unix:///path``; None = try the well-known ones."""
    allow_foreign_kubelet: bool
    """Serve even if a kubelet uses the same runtime, although a kubelet kills pods that it does not know."""
    signed: bool = of(table.SIGNED)
    """Accept only commands that are signed with a key of the state directory."""
    metrics_address: str = of(table.METRICS_ADDRESS)
    """``host:port`` at which metrics are served over HTTP; "" = they are not."""
    json_log: bool = of(table.LOG_FORMAT)
    """Write the worker's log as one JSON object a line."""
    encrypt: bool = of(table.ENCRYPT)
    """Encrypt what goes to Temporal with a key of the state directory; then commands are signed too."""
    adopt_cluster: bool = False
    """Serve on the given Temporal cluster although the node's pods are on another cluster; has a flag but no
    variable."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The settings that are not defaults, as text by their variables' names: the node keeps them for its next start."""

    def texts(self) -> dict[str, str]:
        """Return the texts of which a worker makes these settings, by variable.

        They are those that were given, and the values themselves of the settings that are passed on.
        """
        passed = {name: each for name, each in settings_of(NodeSettings).items() if each.is_passed_on}
        return {**self.given, **{each.variable: text_of(getattr(self, name)) for name, each in passed.items()}}

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
    if allow_foreign_kubelet is None:
        allow_foreign_kubelet = ALLOW_FOREIGN_KUBELET.read(environ)
    log_dir = table.LOG_DIR.read(given, str(_default_log_dir(state, environ)))
    return read_fields(
        NodeSettings,
        given,
        node=table.NODE.read(given, socket.gethostname().lower()),
        state_dir=state,
        memory_dir=_own("memory directory", memory_directory(state, given), table.MEMORY_DIR),
        log_dir=_own("log directory", log_dir, table.LOG_DIR),
        port_access=read_fields(PortAccess, given),
        image_gc=_image_gc(given),
        logs=read_fields(LogSettings, given),
        image_pulls=read_fields(ImagePullSettings, given),
        journal=read_fields(JournalSettings, given),
        allow_foreign_kubelet=allow_foreign_kubelet,
        adopt_cluster=adopt_cluster,
        given=_given(state, given),
    )


def _state_dir(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the state directory. It is checked before anything in it is read."""
    named = given or environ.get(STATE_DIR)
    state = absolute_path("state directory", named) if named else default_state_dir(environ)
    require_own_directory("state directory", state, STATE_DIR)
    require_no_copy(state)
    return state


def _own(what: str, path: Path, setting: Setting[Path]) -> Path:
    require_own_directory(what, path, setting.variable)
    return path


def _default_log_dir(state: Path, environ: Mapping[str, str]) -> Path:
    """Return ``/var/log/pods`` for root's default state directory, else ``pods`` below the state directory.

    Workers with other state directories may have pods of the same names.
    """
    is_default = os.geteuid() == 0 and state == default_state_dir(environ)
    return MACHINE_LOGS if is_default else state / "pods"


def _as_text(given: object) -> str | None:
    """Return a flag's value as the text of its variable."""
    return None if given is None else text_of(given)


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
    signed = table.SIGNED.variable
    if not table.ENCRYPT.read(given):
        return given
    if given.get(signed) and not table.SIGNED.read(given):
        raise SettingsInvalid(f"{signed}={given[signed]}: encrypted data is signed too, so leave it out")
    return {**given, signed: "true"}


def _given(state: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from their defaults, and are therefore kept for the node's next start."""
    memory = table.MEMORY_DIR.variable
    kept = {name: each for name, each in BY_VARIABLE.items() if given.get(name)}
    if memory_directory(state, given) == memory_directory(state, {**given, memory: ""}):
        kept.pop(memory, None)  # a default directory in memory may be gone after a reboot, so it is chosen again
    return {name: text_of(each.read(given)) if each.has_one_form else given[name] for name, each in kept.items()}


def _image_gc(given: Mapping[str, str]) -> ImageGcSettings:
    found = read_fields(ImageGcSettings, given)
    if found.low_threshold_percent >= found.high_threshold_percent:
        raise SettingsInvalid(
            f"{table.IMAGE_GC_LOW}={found.low_threshold_percent}: must be less than {table.IMAGE_GC_HIGH}, "
            f"which is {found.high_threshold_percent}"
        )
    if 0 < found.maximum_age_seconds <= found.minimum_age_seconds:
        raise SettingsInvalid(
            f"{table.IMAGE_GC_MAX_AGE}: must be 0, or more than {table.IMAGE_GC_MIN_AGE}, "
            f"which is {found.minimum_age_seconds:g} s"
        )
    return found
