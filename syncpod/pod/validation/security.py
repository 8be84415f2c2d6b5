"""Checks of security contexts."""

from collections.abc import Iterator

from syncpod.pod.problems import Problem
from syncpod.pod.security import AppArmorProfile, PodSecurityContext, SeccompProfile, SecurityContext
from syncpod.pod.spec import PodSpec
from syncpod.pod.validation import syntax
from syncpod.pod.validation.operating_system import check_windows_options

_LARGEST_ID = 2**31 - 1
_LONGEST_PROFILE = 4095
_NET_PREFIX = "net."
_IPC_PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_IPC_NAMES = ("kernel.sem",)


def check_pod_security_context(context: PodSecurityContext | None, spec: PodSpec, path: str) -> Iterator[Problem]:
    """Check a pod's security context, if there is one."""
    if context is None:
        return
    ids = [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
        *((f"supplementalGroups[{index}]", group) for index, group in enumerate(context.supplemental_groups)),
    ]
    yield from _check_ids(ids, path)
    yield from _check_sysctls(context, spec, f"{path}.sysctls")
    yield from check_windows_options(context.windows_options, f"{path}.windowsOptions")
    yield from _check_profiles(context.seccomp_profile, context.app_armor_profile, path)


def check_security_context(context: SecurityContext | None, path: str, *, own_users: bool) -> Iterator[Problem]:
    """Check a container's security context, if there is one; `own_users` is True if the pod has hostUsers: false."""
    if context is None:
        return
    yield from _check_ids([("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)], path)
    if context.proc_mount == "Unmasked" and not own_users:
        yield Problem(f"{path}.procMount", "may be Unmasked only with hostUsers: false")
    if context.allow_privilege_escalation is False:
        here = f"{path}.allowPrivilegeEscalation"
        if context.privileged:
            yield Problem(here, "must not be false in a privileged container")
        if context.capabilities and "CAP_SYS_ADMIN" in context.capabilities.add:
            yield Problem(here, "must not be false with the capability CAP_SYS_ADMIN")
    yield from check_windows_options(context.windows_options, f"{path}.windowsOptions")
    yield from _check_profiles(context.seccomp_profile, context.app_armor_profile, path)


def _check_ids(ids: list[tuple[str, int | None]], path: str) -> Iterator[Problem]:
    for name, value in ids:
        if value is not None and not 0 <= value <= _LARGEST_ID:
            yield Problem(f"{path}.{name}", f"must be between 0 and {_LARGEST_ID}")


def _check_sysctls(context: PodSecurityContext, spec: PodSpec, path: str) -> Iterator[Problem]:
    seen = set()
    for index, sysctl in enumerate(context.sysctls):
        here = f"{path}[{index}].name"
        name = syntax.dotted_sysctl(sysctl.name)
        if not sysctl.name:
            yield Problem(here, "required")
        elif wrong := syntax.sysctl_name(sysctl.name):
            yield Problem(here, wrong)
        elif name in seen:
            yield Problem(here, f"{sysctl.name} is there twice")
        elif spec.host_network and name.startswith(_NET_PREFIX):
            yield Problem(here, "must not be set with hostNetwork: true, since it would apply to the whole node")
        elif spec.host_ipc and (name in _IPC_NAMES or name.startswith(_IPC_PREFIXES)):
            yield Problem(here, "must not be set with hostIPC: true, since it would apply to the whole node")
        seen.add(name)


def _check_profiles(seccomp: SeccompProfile | None, app_armor: AppArmorProfile | None, path: str) -> Iterator[Problem]:
    for name, profile in (("seccompProfile", seccomp), ("appArmorProfile", app_armor)):
        if profile is None:
            continue
        here = f"{path}.{name}"
        if profile.type is None:
            yield Problem(f"{here}.type", "required")
        elif profile.type != "Localhost":
            if profile.localhost_profile is not None:
                yield Problem(f"{here}.localhostProfile", "may be set only with type Localhost")
        elif not profile.localhost_profile:
            yield Problem(f"{here}.localhostProfile", "required with type Localhost")
        elif name == "seccompProfile" and (wrong := syntax.descending(profile.localhost_profile)):
            yield Problem(f"{here}.localhostProfile", wrong)
        elif profile.localhost_profile.strip() != profile.localhost_profile:
            yield Problem(f"{here}.localhostProfile", "must not begin or end with white space")
        elif len(profile.localhost_profile) > _LONGEST_PROFILE:
            yield Problem(f"{here}.localhostProfile", f"must be no more than {_LONGEST_PROFILE} characters")
