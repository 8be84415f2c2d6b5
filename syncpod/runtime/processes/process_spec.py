"""Makes a process specification from a container's config, and refuses features that this runtime lacks.

An impossible field is refused with a sentence that names an alternative, and never silently ignored. Settings are
accepted and ignored only if the pod works without them: masked and read-only paths, the default seccomp and AppArmor
profiles, SELinux relabelling, and shared namespaces, since there is no isolation here.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

from protos.cri.v1 import api_pb2
from syncpod.runtime.host import DEFAULT_PATH, Host, home_of
from syncpod.runtime.images.config import OwnImage
from syncpod.runtime.images.inventory import Image
from syncpod.runtime.port import PAUSE, Mount, ProcessSpec, User
from syncpod.runtime.processes.accounts import Account, Accounts, ImageAccounts, MachineAccounts, image_user
from syncpod.runtime.processes.capabilities import NAMES
from syncpod.runtime.refusals import invalid, unsupported

_RESOLV_CONF: Final = "/etc/resolv.conf"
_SERVERS_LIMIT: Final = 3
"""Maximum number of name servers that resolvers read from a resolv.conf, and that CRI clients pass on."""
_FIRST_REALTIME: Final = api_pb2.SIGNAL_SIGRTMIN
_LAST_REALTIME: Final = api_pb2.SIGNAL_SIGRTMAX
_OLD_NAMES: Final = {"SIGCLD": signal.SIGCHLD, "SIGPOLL": signal.SIGIO, "SIGIOT": signal.SIGABRT}


def check_sandbox(config: api_pb2.PodSandboxConfig, host: Host, path: str) -> None:
    """Refuse a sandbox that this runtime cannot make. Raises Refusal."""
    if host.isolation == "simulated":
        return
    linux = config.linux
    if linux.security_context.namespace_options.network != api_pb2.NODE:
        for index, mapping in enumerate(config.port_mappings):
            if mapping.host_port:
                raise unsupported(
                    f"{path}.port_mappings[{index}].host_port",
                    "host ports need spec.hostNetwork: true, since pods share the machine's network; "
                    "without a host port the pod is reached at its own address",
                )
    if (
        host.isolation == "plain"
        and config.HasField("dns_config")
        and not is_machines_own(config.dns_config, _resolver())
    ):
        raise unsupported(
            f"{path}.dns_config",
            "pods have the machine's resolver, since mount namespaces are closed to this user: "
            "remove spec.dnsConfig and dnsPolicy, or run as root",
        )
    if linux.sysctls:
        raise unsupported(
            f"{path}.linux.sysctls", "cannot be set for one pod, since pods share the machine's kernel: remove them"
        )
    _check_user_namespace(linux.security_context.namespace_options, f"{path}.linux.security_context")
    _check_profiles(linux.security_context, f"{path}.linux.security_context")


def _resolver() -> str:
    try:
        return Path(_RESOLV_CONF).read_text(errors="replace")
    except OSError:
        return ""  # resolvers treat it as empty


def resolv_conf(config: api_pb2.DNSConfig) -> str:
    """Return the text of a resolv.conf for the config."""
    lines = [f"search {' '.join(config.searches)}"] if config.searches else []
    lines += [f"nameserver {server}" for server in config.servers]
    lines += [f"options {' '.join(config.options)}"] if config.options else []
    return "".join(f"{line}\n" for line in lines)


def is_machines_own(config: api_pb2.DNSConfig, machines: str) -> bool:
    """Return whether a config has the content of the machine's resolv.conf; clients may leave out some entries."""
    servers: list[str] = []
    searches: set[str] = set()
    options: set[str] = set()
    for line in machines.splitlines():
        keyword, *values = line.split() or [""]
        if keyword == "nameserver":
            servers += values[:1]
        elif keyword == "search":
            searches = {value.rstrip(".") for value in values}
        elif keyword == "options":
            options |= set(values)
    wanted = list(config.servers)
    return (
        wanted == servers[: max(len(wanted), min(len(servers), _SERVERS_LIMIT))]
        and {value.rstrip(".") for value in config.searches} <= searches
        and set(config.options) <= options
    )


def check_container(
    config: api_pb2.ContainerConfig, host: Host, *, privileged_sandbox: bool, of_own_files: bool, path: str
) -> None:
    """Refuse a container that this runtime cannot make; limits are checked by `cgroups`. Raises Refusal.

    `of_own_files` is True if its image was loaded.
    """
    security = config.linux.security_context
    security_path = f"{path}.linux.security_context"
    if security.privileged and not privileged_sandbox:
        raise invalid(f"{security_path}.privileged", "no privileged container allowed in a sandbox that is not")
    for field, names in (
        ("add_capabilities", security.capabilities.add_capabilities),
        ("drop_capabilities", security.capabilities.drop_capabilities),
    ):
        for index, name in enumerate(names):
            if name.upper() != "ALL" and name.upper().removeprefix("CAP_") not in NAMES:
                raise invalid(f"{security_path}.capabilities.{field}[{index}]", f'there is no capability "{name}"')
    if host.isolation == "simulated":
        return
    if config.devices or config.CDI_devices:
        raise unsupported(f"{path}.devices", "cannot be given: containers see the machine's own; remove them")
    if security.capabilities.add_ambient_capabilities:
        raise unsupported(f"{security_path}.capabilities.add_ambient_capabilities", "cannot be kept: remove them")
    if security.capabilities.add_capabilities and not host.root:
        raise unsupported(f"{security_path}.capabilities.add_capabilities", "need root: remove them, or run as root")
    if security.readonly_rootfs and host.isolation == "plain":
        raise unsupported(
            f"{security_path}.readonly_rootfs",
            "needs mount namespaces, which are closed to this user: remove readOnlyRootFilesystem, or run as root",
        )
    if of_own_files and host.isolation == "plain":
        raise unsupported(
            f"{path}.image",
            "it was loaded and has files of its own, which need mount namespaces, and those are closed to this user: "
            "run as root, or remove the image, so that its name stands for the machine's programs",
        )
    _check_user_namespace(security.namespace_options, security_path)
    _check_profiles(security, security_path)
    for index, mount in enumerate(config.mounts):
        _check_mount(mount, f"{path}.mounts[{index}]")


def _check_user_namespace(options: api_pb2.NamespaceOption, path: str) -> None:
    if options.HasField("userns_options") and options.userns_options.mode != api_pb2.NODE:
        raise unsupported(
            f"{path}.namespace_options.userns_options", "pods share the machine's users: remove spec.hostUsers: false"
        )


def _check_profiles(
    security: api_pb2.LinuxSandboxSecurityContext | api_pb2.LinuxContainerSecurityContext, path: str
) -> None:
    if security.seccomp.profile_type == api_pb2.SecurityProfile.Localhost or security.seccomp_profile_path.startswith(
        "localhost/"
    ):
        raise unsupported(f"{path}.seccomp", "seccomp profiles are not applied here: remove the one of type Localhost")
    localhost = isinstance(security, api_pb2.LinuxContainerSecurityContext) and security.apparmor_profile.startswith(
        "localhost/"
    )
    if localhost or security.apparmor.profile_type == api_pb2.SecurityProfile.Localhost:
        raise unsupported(
            f"{path}.apparmor", "AppArmor profiles are not applied here: remove the one of type Localhost"
        )
    selinux = security.selinux_options
    if selinux.user or selinux.role or selinux.type or selinux.level:
        raise unsupported(f"{path}.selinux_options", "SELinux labels are not applied here: remove them")


def _check_mount(mount: api_pb2.Mount, path: str) -> None:
    if mount.HasField("image"):
        raise unsupported(f"{path}.image", "images have no content here that could be mounted: remove it")
    if mount.propagation != api_pb2.PROPAGATION_PRIVATE:
        raise unsupported(f"{path}.propagation", "only private mounts are supported: remove mountPropagation")
    if mount.uidMappings or mount.gidMappings:
        raise unsupported(f"{path}.uidMappings", "id-mapped mounts are not supported: remove them")
    if mount.mount_options:
        raise unsupported(f"{path}.mount_options", "further options are not supported: remove them")


def arguments(config: api_pb2.ContainerConfig, image: Image, host: Host, path: str) -> tuple[str, ...]:
    """Return the command line: the config's command and args; without a command, the image's entry point and args.

    The entry point of an image without files is its name: a program of the host, or the built-in `pause`. `busybox` has
    no entry point, like the real image; its default command is a shell. Raises Refusal.
    """
    given = (*config.command, *config.args)
    if image.content is not None and not config.command:
        own = image.content.config
        given = (*own.entrypoint, *(config.args or own.command))
        if not given:
            raise invalid(f"{path}.command", "no command specified, and the image names none: give the container one")
    if config.command or image.content is not None or (given and host.isolation == "simulated"):
        return given
    name = image.reference.short_name
    if name == "busybox":
        busybox = shutil.which("busybox", path=host.search_path)
        return given or ((busybox, "sh") if busybox else ("sh",))
    if name == PAUSE[0].rpartition("/")[2]:
        return PAUSE
    if shutil.which(name, path=host.search_path) or host.isolation == "simulated":
        return (name, *given)
    raise invalid(
        f"{path}.command",
        f'no command specified: an image stands for a program of this machine, and there is none called "{name}"'
        f"{' that could take the args' if given else ''}; give the container a command, or load the image "
        "with `syncpod load`",
    )


def user(
    security: api_pb2.LinuxContainerSecurityContext, host: Host, path: str, image: OwnImage | None = None
) -> User | None:
    """Return the process's user; None = the server's user. Raises Refusal.

    Names and group memberships are the image's, as in containerd, or the machine's if the image has no files. If the
    server is not root, its user stands for the image's root.
    """
    accounts = accounts_of(image)
    account, asked = _account(security, host, path, image, accounts)
    gid = security.run_as_group.value if security.HasField("run_as_group") else account.gid
    if host.isolation == "simulated":
        return None
    if not host.root:
        _require_own_user(security, host, path, account, gid, asked)
        return None
    merge = security.supplemental_groups_policy == api_pb2.Merge
    groups = tuple(security.supplemental_groups)
    if image is None and account.uid == 0 and gid == 0 and merge and not groups:
        return None
    memberships = accounts.groups_of(account, gid) if merge else ()
    return User(account.uid, gid, tuple(dict.fromkeys((*memberships, *groups))))


def _account(
    security: api_pb2.LinuxContainerSecurityContext,
    host: Host,
    path: str,
    image: OwnImage | None,
    accounts: Accounts,
) -> tuple[Account, str]:
    """Return the account of the process's user, and the field that sets it. Raises Refusal."""
    if security.run_as_username:
        field = f"{path}.run_as_username"
        named = accounts.named(security.run_as_username)
        if named is None:
            raise invalid(field, f'no user "{security.run_as_username}" {accounts.where}')
        return named, field
    field = f"{path}.run_as_user"
    if security.HasField("run_as_user"):
        return accounts.numbered(security.run_as_user.value), field
    if image is not None and image.config.user:
        field = "config.image"
        try:
            found, gid = image_user(image.config.user, accounts)
        except LookupError as problem:
            raise invalid(field, f'is to run as user "{image.config.user}": {problem.args[0]}') from problem
        stands_for_server = found.uid == 0 and not host.root
        return accounts.numbered(host.uid) if stands_for_server else replace(found, gid=gid), field
    return accounts.numbered(0 if image is not None and host.root else host.uid), field


def _require_own_user(
    security: api_pb2.LinuxContainerSecurityContext, host: Host, path: str, account: Account, gid: int, asked: str
) -> None:
    """Refuse every user and group except the server's own: only root could use others. Raises Refusal."""
    if account.uid != host.uid:
        raise unsupported(
            asked, f"only root can run as user {account.uid}: remove runAsUser, or run the runtime as root"
        )
    if gid != host.gid and security.HasField("run_as_group"):
        raise unsupported(f"{path}.run_as_group", f"only root can run as group {gid}: remove it, or run as root")
    foreign = [group for group in security.supplemental_groups if group not in host.groups]
    if foreign:
        raise unsupported(
            f"{path}.supplemental_groups",
            f"this user is not a member of group {foreign[0]}, which only root could change: remove it, or run as root",
        )
    if security.supplemental_groups_policy != api_pb2.Merge:
        raise unsupported(f"{path}.supplemental_groups_policy", "only root can leave groups: remove Strict")


def accounts_of(image: OwnImage | None) -> Accounts:
    """Return the accounts in which a container's users and groups are looked up."""
    return MachineAccounts() if image is None else ImageAccounts(image.root)


def environment(
    config: api_pb2.ContainerConfig, host: Host, runs_as: User | None, hostname: str, image: OwnImage | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the environment: the config's variables override the image's, which override the defaults.

    The defaults are PATH, HOSTNAME, HOME and, on a terminal, TERM; PATH is the server's, unless the image has its own
    files. A container without its own host name gets the machine's, as in containerd.
    """
    if image is None:
        variables = {"PATH": host.search_path, "HOME": home_of(runs_as.uid) if runs_as else host.home}
    else:
        uid = runs_as.uid if runs_as else host.uid
        variables = {"PATH": DEFAULT_PATH, "HOME": ImageAccounts(image.root).numbered(uid).home}
    variables["HOSTNAME"] = hostname or os.uname().nodename
    if config.tty:
        variables["TERM"] = "xterm"
    variables |= dict(image.config.environment) if image is not None else {}
    variables |= {each.key: each.value.decode("utf-8", "surrogateescape") for each in config.envs}
    return tuple(variables.items())


def capabilities(names: object) -> tuple[str, ...]:
    """Return capabilities in the kernel's spelling: CAP_CHOWN, or ALL."""
    assert isinstance(names, (list, tuple))
    plain = (name.upper().removeprefix("CAP_") for name in names)
    return tuple(name if name == "ALL" else f"CAP_{name}" for name in plain)


def wanted_mounts(config: api_pb2.ContainerConfig) -> tuple[Mount, ...]:
    """Return the mounts of a config, in its order, with symbolic links in host paths resolved."""
    return tuple(
        Mount(each.container_path, os.path.realpath(each.host_path), each.readonly, each.recursive_read_only)
        for each in config.mounts
    )


def mounts(config: api_pb2.ContainerConfig, resolv_conf: Path) -> tuple[Mount, ...]:
    """Return all mounts for a start; a missing host path becomes a directory, as in containerd.

    `resolv_conf` comes first if the sandbox has one. Raises OSError if a directory cannot be made.
    """
    wanted = wanted_mounts(config)
    for mount in wanted:
        if not os.path.lexists(mount.host_path):
            Path(mount.host_path).mkdir(mode=0o755, parents=True)
    return (*([Mount(_RESOLV_CONF, str(resolv_conf))] if resolv_conf.exists() else ()), *wanted)


def process_spec(
    config: api_pb2.ContainerConfig,
    host: Host,
    *,
    id: str,
    arguments: tuple[str, ...],
    log_path: str,
    hostname: str,
    cgroup_procs: tuple[str, ...],
    resolv_conf: Path,
    sandbox: api_pb2.PodSandbox,
    image: OwnImage | None,
) -> ProcessSpec:
    """Return the specification for a container that was checked when it was made. Raises Refusal and OSError."""
    security = config.linux.security_context
    runs_as = user(security, host, "config.linux.security_context", image)
    simulated = host.isolation == "simulated"
    return ProcessSpec(
        id=id,
        arguments=arguments,
        environment=environment(config, host, runs_as, hostname, image),
        working_directory=config.working_dir or (image.config.working_directory if image else ""),
        user=runs_as,
        terminal=config.tty,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        log_path=log_path,
        hostname=hostname,
        mounts=() if simulated else mounts(config, resolv_conf),
        read_only_root=security.readonly_rootfs,
        no_new_privileges=security.no_new_privs,
        added_capabilities=capabilities(tuple(security.capabilities.add_capabilities)),
        dropped_capabilities=capabilities(tuple(security.capabilities.drop_capabilities)),
        oom_score_adj=_oom_score_adj(config.linux, host),
        cgroup_procs=cgroup_procs,
        script=dict(sandbox.annotations) if simulated else {},
        name=config.metadata.name,
        attempt=config.metadata.attempt,
        pod_uid=sandbox.metadata.uid,
        root=str(image.root) if image else "",
    )


def _oom_score_adj(linux: api_pb2.LinuxContainerConfig, host: Host) -> int:
    """Return the container's oom_score_adj, at least the lowest that we may set.

    The default is 0, not the supervisor's.
    """
    return max(linux.resources.oom_score_adj, host.lowest_oom_score_adj)


def stop_signal(wanted: int) -> int:
    """Return this machine's number of a CRI signal; SIGTERM for the default."""
    if wanted == api_pb2.SIGNAL_RUNTIME_DEFAULT:
        return signal.SIGTERM
    if wanted > api_pb2.SIGNAL_SIGRTMIN + 15:
        return signal.SIGRTMAX - (_LAST_REALTIME - wanted)
    if wanted >= _FIRST_REALTIME:
        return signal.SIGRTMIN + (wanted - _FIRST_REALTIME)
    name = api_pb2.Signal.Name(wanted).removeprefix("SIGNAL_")
    return _OLD_NAMES[name] if name in _OLD_NAMES else signal.Signals[name]
