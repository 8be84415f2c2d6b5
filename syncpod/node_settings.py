"""Settings of a node: what its worker is called, where it keeps things, and what it may share a runtime with.

One place for the worker, the agent and the command line, so that they look in the same directories. Each setting comes
from a flag, else from the environment, else from a default; a wrong one is refused in one sentence. Connection settings
of Temporal are not here: they are the ``temporal`` CLI's own (:mod:`syncpod.temporal.plugin`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.go_durations import parse_go_duration
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.mountinfo import read_mounts

NODE: Final = "SYNCPOD_NODE"
STATE_DIR: Final = "SYNCPOD_STATE_DIR"
LOG_DIR: Final = "SYNCPOD_LOG_DIR"
MEMORY_DIR: Final = "SYNCPOD_MEMORY_DIR"
MANIFEST_DIR: Final = "SYNCPOD_MANIFEST_DIR"
CGROUP_PARENT: Final = "SYNCPOD_CGROUP_PARENT"
CAPACITY: Final = "SYNCPOD_CAPACITY"
POD_CGROUPS: Final = "SYNCPOD_POD_CGROUPS"
ALLOWED_UNSAFE_SYSCTLS: Final = "SYNCPOD_ALLOWED_UNSAFE_SYSCTLS"
IMAGE_GC_HIGH: Final = "SYNCPOD_IMAGE_GC_HIGH"
IMAGE_GC_LOW: Final = "SYNCPOD_IMAGE_GC_LOW"
IMAGE_GC_MIN_AGE: Final = "SYNCPOD_IMAGE_GC_MIN_AGE"
IMAGE_GC_MAX_AGE: Final = "SYNCPOD_IMAGE_GC_MAX_AGE"
CONTAINER_LOG_MAX_SIZE: Final = "SYNCPOD_CONTAINER_LOG_MAX_SIZE"
CONTAINER_LOG_MAX_FILES: Final = "SYNCPOD_CONTAINER_LOG_MAX_FILES"
MAX_PARALLEL_IMAGE_PULLS: Final = "SYNCPOD_MAX_PARALLEL_IMAGE_PULLS"
REGISTRY_AUTH_FILE: Final = "SYNCPOD_REGISTRY_AUTH_FILE"
IMAGE_VERIFICATION_POLICY: Final = "SYNCPOD_IMAGE_PULL_CREDENTIALS_VERIFICATION_POLICY"
IMAGE_VERIFICATION_ALLOWLIST: Final = "SYNCPOD_PRELOADED_IMAGES_VERIFICATION_ALLOWLIST"
ALLOW_FOREIGN_KUBELET: Final = "SYNCPOD_ALLOW_FOREIGN_KUBELET"
RUNTIME_ENDPOINT: Final = "CONTAINER_RUNTIME_ENDPOINT"

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CGROUP_PART = re.compile(r"[A-Za-z0-9._-]+")
_SIZE = re.compile(r"([0-9]+)(Ki|Mi|Gi|k|M|G|)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_IN_MEMORY = ("tmpfs", "ramfs")


class SettingsInvalid(ValueError):
    """A setting has a wrong value; the text says which, and what would be right."""


@dataclass(frozen=True)
class ImageGcSettings:
    """When images are removed; names and defaults are those of the kubelet's configuration."""

    high_threshold_percent: int = 85
    """imageGCHighThresholdPercent: how full the images' disk has to be; 100 = none is removed for want of space."""
    low_threshold_percent: int = 80
    """imageGCLowThresholdPercent: how full it then may stay."""
    minimum_age_seconds: float = 120.0
    """imageMinimumGCAge: what was pulled later stays."""
    maximum_age_seconds: float = 0.0
    """imageMaximumGCAge: what is unused for longer goes, however empty the disk is; 0 = nothing does."""


@dataclass(frozen=True)
class LogSettings:
    """How much of a container's log is kept; names and defaults are those of the kubelet's configuration."""

    max_bytes: int = 10 * 2**20
    """containerLogMaxSize: size from which a log is rotated."""
    max_files: int = 5
    """containerLogMaxFiles: files of one instance, the growing one included; at least 2."""


@dataclass(frozen=True)
class ImagePullSettings:
    """How images are pulled, and who may use them then; names and defaults are those of the kubelet's configuration."""

    at_once: int = 1
    """maxParallelImagePulls; 1 = one after the other (serializeImagePulls)."""
    registry_auth_file: Path | None = None
    """The node's own credentials for registries, as ``docker login`` writes them; absolute."""
    verification_policy: str = ""
    """imagePullCredentialsVerificationPolicy, "" = the usual one; from the environment alone."""
    verification_allowlist: tuple[str, ...] = ()
    """preloadedImagesVerificationAllowlist; from the environment alone."""


@dataclass(frozen=True)
class NodeSettings:
    """What one node's worker is told."""

    node: str
    """The node's name, a DNS subdomain: by default the host's name in lower case."""
    state_dir: Path
    """Absolute; 0700; held by one live worker at a time."""
    memory_dir: Path
    """Absolute; 0700; on a memory file system, so that what is in it never reaches a disk: Secrets."""
    log_dir: Path
    """Absolute; the pods' logs, where crictl and log agents look."""
    manifest_dir: Path | None
    """Absolute; a directory of manifests, one pod each, that the node is to have (the kubelet's staticPodPath)."""
    cgroup_parent: str
    """Name of the cgroup above the pods', its parts separated by slashes."""
    capacity: str
    """What pods may request together, where it is not what the machine has: ``cpu=8,memory=32Gi,pods=110``."""
    pod_cgroups: bool
    """Give each pod a cgroup with limits, where that can be done (the kubelet's cgroupsPerQOS)."""
    allowed_unsafe_sysctls: tuple[str, ...]
    """Names, or beginnings of names with a ``*`` behind them, that pods may set besides the safe ones."""
    image_gc: ImageGcSettings
    """From the environment alone."""
    logs: LogSettings
    """From the environment alone."""
    image_pulls: ImagePullSettings
    runtime_endpoint: str | None
    """The CRI socket, as ``unix:///path``; None = look where runtimes are usually found."""
    allow_foreign_kubelet: bool
    """Serve even where a kubelet uses the same runtime, and may kill what it does not know."""


def node_settings(
    environ: Mapping[str, str],
    *,
    node: str | None = None,
    state_dir: str | None = None,
    memory_dir: str | None = None,
    log_dir: str | None = None,
    manifest_dir: str | None = None,
    cgroup_parent: str | None = None,
    capacity: str | None = None,
    pod_cgroups: bool | None = None,
    allowed_unsafe_sysctls: str | None = None,
    max_parallel_image_pulls: str | None = None,
    registry_auth_file: str | None = None,
    runtime_endpoint: str | None = None,
    allow_foreign_kubelet: bool | None = None,
) -> NodeSettings:
    """Return the node's settings: what is given, else what `environ` says, else the defaults.

    Defaults: state in ``/var/lib/syncpod`` as root, else under ``$XDG_STATE_HOME/syncpod``; logs in ``pods`` below the
    state, but for root's default state in ``/var/log/pods``. Raises SettingsInvalid.
    """
    usual = default_state_dir(environ)
    manifests = manifest_dir or environ.get(MANIFEST_DIR)
    state = _directory("state directory", state_dir or environ.get(STATE_DIR), usual)
    # Beside another state directory there may be other workers, with pods of the same names.
    is_the_machines = os.geteuid() == 0 and state == usual
    return NodeSettings(
        node=_node_name(node or environ.get(NODE) or socket.gethostname().lower()),
        state_dir=state,
        memory_dir=memory_directory(state, {**environ, **({MEMORY_DIR: memory_dir} if memory_dir else {})}),
        log_dir=_directory(
            "log directory",
            log_dir or environ.get(LOG_DIR),
            Path("/var/log/pods") if is_the_machines else state / "pods",
        ),
        manifest_dir=_directory("manifest directory", manifests, Path()) if manifests else None,
        cgroup_parent=_cgroup_parent(cgroup_parent or environ.get(CGROUP_PARENT) or "syncpod"),
        capacity=capacity or environ.get(CAPACITY, ""),
        pod_cgroups=_flag(POD_CGROUPS, environ.get(POD_CGROUPS, "true")) if pod_cgroups is None else pod_cgroups,
        allowed_unsafe_sysctls=_list(allowed_unsafe_sysctls or environ.get(ALLOWED_UNSAFE_SYSCTLS, "")),
        image_gc=_image_gc(environ),
        logs=_logs(environ),
        image_pulls=_image_pulls(environ, max_parallel_image_pulls, registry_auth_file),
        runtime_endpoint=runtime_endpoint or environ.get(RUNTIME_ENDPOINT) or None,
        allow_foreign_kubelet=(
            _flag(ALLOW_FOREIGN_KUBELET, environ.get(ALLOW_FOREIGN_KUBELET, ""))
            if allow_foreign_kubelet is None
            else allow_foreign_kubelet
        ),
    )


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return where state is kept unless told otherwise."""
    return Path("/var/lib/syncpod") if os.geteuid() == 0 else _private_home(environ)


def memory_directory(state_dir: Path, environ: Mapping[str, str]) -> Path:
    """Return where the node of a state directory keeps what must not reach a disk; nothing is made.

    It is the one that is named, else one of this state directory alone, on the first memory file system of the user's
    runtime directory (not as root), /run (as root) and /dev/shm; without any, below the state directory. Worker and
    command line, asked alike, find the same. Raises SettingsInvalid.
    """
    if named := environ.get(MEMORY_DIR):
        return _directory("memory directory", named, state_dir)
    user = os.geteuid()
    own = hashlib.sha256(os.path.realpath(state_dir).encode()).hexdigest()[:12]
    private = "/run" if user == 0 else environ.get("XDG_RUNTIME_DIR", "")
    if private and Path(private).is_dir() and is_in_memory(Path(private)):
        return Path(private) / f"syncpod-{own}"
    shared = Path("/dev/shm")
    if shared.is_dir() and is_in_memory(shared):
        return shared / f"syncpod-{user}-{own}"
    return state_dir / "memory"


def is_in_memory(path: Path) -> bool:
    """Say whether a path, or the nearest directory above it that is there, lies on a memory file system. Blocks."""
    there = next(place for place in (path, *path.parents) if place.exists())
    number = there.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        mounts = read_mounts()
    except OSError:
        return False
    return next((mount.file_system for mount in mounts if mount.device == device), None) in _IN_MEMORY


def make_memory_directory(path: Path) -> None:
    """Make the memory directory, 0700, where it is not there yet.

    Its parent may be everybody's, so what is there is taken only if it is a directory, no link, and ours, and is then
    closed to others. Raises SettingsInvalid.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        require_own_memory_directory(path)
        path.chmod(0o700)
    except OSError as error:
        raise SettingsInvalid(f"memory directory {path}: cannot be made: {error.strerror} ({MEMORY_DIR})") from None


def require_own_memory_directory(path: Path) -> None:
    """Raise SettingsInvalid where a memory directory is there, and is no directory of this user's."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SettingsInvalid(
            f"memory directory {path}: is there, and is not a directory of this user's: remove it, or name another in "
            f"{MEMORY_DIR}"
        )


def _private_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".local/state") / (
        "syncpod"
    )


def _node_name(name: str) -> str:
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise SettingsInvalid(
            f"node name {name!r}: must be at most 253 lower-case letters, digits, '-' and '.', "
            f"beginning and ending with a letter or digit (--node or {NODE})"
        )
    return name


def _directory(what: str, given: str | None, default: Path) -> Path:
    path = Path(given).expanduser() if given else default
    if not path.is_absolute():
        raise SettingsInvalid(f"{what} {given!r}: must be an absolute path")
    return path


def _cgroup_parent(parent: str) -> str:
    parts = parent.strip("/").split("/")
    if not all(_CGROUP_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise SettingsInvalid(
            f"cgroup parent {parent!r}: must be names of letters, digits, '.', '_' and '-' separated by '/'"
        )
    return "/".join(parts)


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _image_pulls(environ: Mapping[str, str], at_once: str | None, auth_file: str | None) -> ImagePullSettings:
    number = at_once or environ.get(MAX_PARALLEL_IMAGE_PULLS) or "1"
    if not re.fullmatch("[1-9][0-9]{0,3}", number):
        raise SettingsInvalid(
            f"{MAX_PARALLEL_IMAGE_PULLS}={number!r}: must be a whole number from 1 (--max-parallel-image-pulls)"
        )
    file = auth_file or environ.get(REGISTRY_AUTH_FILE)
    return ImagePullSettings(
        at_once=int(number),
        registry_auth_file=_directory("registry auth file", file, Path()) if file else None,
        verification_policy=environ.get(IMAGE_VERIFICATION_POLICY, ""),
        verification_allowlist=_list(environ.get(IMAGE_VERIFICATION_ALLOWLIST, "")),
    )


def _image_gc(environ: Mapping[str, str]) -> ImageGcSettings:
    usual = ImageGcSettings()
    found = ImageGcSettings(
        high_threshold_percent=_percent(IMAGE_GC_HIGH, environ, usual.high_threshold_percent),
        low_threshold_percent=_percent(IMAGE_GC_LOW, environ, usual.low_threshold_percent),
        minimum_age_seconds=_duration(IMAGE_GC_MIN_AGE, environ, usual.minimum_age_seconds),
        maximum_age_seconds=_duration(IMAGE_GC_MAX_AGE, environ, usual.maximum_age_seconds),
    )
    if found.low_threshold_percent >= found.high_threshold_percent:
        raise SettingsInvalid(
            f"{IMAGE_GC_LOW}: must be less than the {found.high_threshold_percent} of {IMAGE_GC_HIGH}, "
            f"and is {found.low_threshold_percent}"
        )
    if 0 < found.maximum_age_seconds <= found.minimum_age_seconds:
        raise SettingsInvalid(
            f"{IMAGE_GC_MAX_AGE}: must be 0, or more than the {found.minimum_age_seconds:g} s of {IMAGE_GC_MIN_AGE}"
        )
    return found


def _logs(environ: Mapping[str, str]) -> LogSettings:
    usual = LogSettings()
    size = environ.get(CONTAINER_LOG_MAX_SIZE) or str(usual.max_bytes)
    files = environ.get(CONTAINER_LOG_MAX_FILES) or str(usual.max_files)
    read = _SIZE.fullmatch(size)
    if read is None or not int(read[1]):
        raise SettingsInvalid(f"{CONTAINER_LOG_MAX_SIZE}={size!r}: must be a size such as 10Mi")
    if not files.isdecimal() or not files.isascii() or int(files) < 2:
        raise SettingsInvalid(f"{CONTAINER_LOG_MAX_FILES}={files!r}: must be a whole number, at least 2")
    return LogSettings(int(read[1]) * _FACTORS[read[2]], int(files))


def _percent(name: str, environ: Mapping[str, str], usual: int) -> int:
    text = environ.get(name) or str(usual)
    if not text.isdecimal() or not text.isascii() or int(text) > 100:
        raise SettingsInvalid(f"{name}={text!r}: must be a whole number from 0 to 100")
    return int(text)


def _duration(name: str, environ: Mapping[str, str], usual: float) -> float:
    """Read a duration as the kubelet's configuration has it; in seconds."""
    text = environ.get(name)
    if not text:
        return usual
    try:
        return parse_go_duration(text) / 1e9
    except ValueError:
        raise SettingsInvalid(f"{name}={text!r}: must be a duration such as 90s, 2m or 1h30m") from None


def _flag(name: str, text: str) -> bool:
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise SettingsInvalid(f"{name}={text!r}: must be true or false")


@dataclass(frozen=True)
class WorkerRecord:
    """What a node's worker leaves in its state directory while it serves, for people and for the command line."""

    pid: int
    identity: str
    """``<node>/<machine>/<boot>``, as the server and the UI show it."""
    node: str
    endpoint: str
    """The runtime's socket."""
    runtime: str
    """The runtime's name and version."""
    address: str
    """The Temporal server's."""
    namespace: str
    task_queue: str
    boot: int
    """Which life of the worker on this node."""
    memory_dir: str = ""
    """Where it reads Secrets; "" = one of an earlier version, which reads none."""
    manifest_dir: str = ""
    """The directory of manifests that it follows; "" = none."""


_RECORD = "worker.json"


def write_worker_record(state_dir: Path, record: WorkerRecord) -> None:
    """Say in the state directory that this worker serves. Atomic, readable by its owner only."""
    replace_file(state_dir / _RECORD, json.dumps(asdict(record), indent=2) + "\n", durable=True)


def read_worker_record(state_dir: Path) -> WorkerRecord | None:
    """Return what the worker of this state directory last said, or None. It may have died since: see its pid."""
    try:
        said = json.loads((state_dir / _RECORD).read_text())
        return WorkerRecord(**{name: said[name] for name in WorkerRecord.__dataclass_fields__ if name in said})
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, KeyError, TypeError):
        return None


def remove_worker_record(state_dir: Path) -> None:
    """Take it back: the worker no longer serves."""
    (state_dir / _RECORD).unlink(missing_ok=True)
