"""Checks of fields that exist on one operating system only."""

import re
from collections.abc import Iterator

from syncpod.pod.containers import Container
from syncpod.pod.problems import Problem
from syncpod.pod.security import PodSecurityContext, SecurityContext, WindowsSecurityContextOptions
from syncpod.pod.spec import PodSpec
from syncpod.pod.validation import syntax

_LINUX_ALONE = "must not be set with os.name: windows"
_WINDOWS_ALONE = "must not be set with os.name: linux"

_LONGEST_CREDENTIAL_SPEC = 64 * 1024
_LONGEST_DOMAIN = 255
_LONGEST_USER = 104
_NETBIOS_DOMAIN = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NOT_IN_USER = r'"/\:;|=,+*?<>@[]'
_NO_USER = re.compile(r'.*["/\\:;|=,+*?<>@\[\]].*|[. ]*', re.DOTALL)


def check_operating_system(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Check that a pod for one system sets no fields of the other (validateLinux, validateWindows)."""
    name = spec.os.name if spec.os is not None else None
    if spec.os is not None and name is None:
        yield Problem(f"{path}.os.name", "required")
    contexts: list[tuple[str, PodSecurityContext | SecurityContext | None]] = [
        (f"{path}.securityContext", spec.security_context),
        *((f"{here}.securityContext", container.security_context) for here, container in _containers(spec, path)),
    ]
    if name == "windows":
        for field, is_set in _of_linux(spec).items():
            if is_set:
                yield Problem(f"{path}.{field}", _LINUX_ALONE)
    for here, context in contexts:
        for field, described in type(context).model_fields.items() if context is not None else ():
            value = getattr(context, field)
            of_windows = field in ("windows_options", "run_as_non_root")
            if name == "windows" and not of_windows and value not in (None, ()):
                yield Problem(f"{here}.{described.alias}", _LINUX_ALONE)
            if name == "linux" and field == "windows_options" and value is not None:
                yield Problem(f"{here}.{described.alias}", _WINDOWS_ALONE)
    yield from _check_host_processes(spec, path)


def check_windows_options(options: WindowsSecurityContextOptions | None, path: str) -> Iterator[Problem]:
    """Check Windows' options, if there are any (validateWindowsSecurityContextOptions)."""
    if options is None:
        return
    name, credentials, user = options.gmsa_credential_spec_name, options.gmsa_credential_spec, options.run_as_user_name
    if name is not None and (wrong := syntax.dns_subdomain(name)):
        yield Problem(f"{path}.gmsaCredentialSpecName", wrong)
    if credentials is not None and not 0 < len(credentials.encode()) <= _LONGEST_CREDENTIAL_SPEC:
        yield Problem(f"{path}.gmsaCredentialSpec", "must have between 1 byte and 64 KiB")
    if user is not None and (wrong := _windows_user(user)):
        yield Problem(f"{path}.runAsUserName", wrong)


def _containers(spec: PodSpec, path: str) -> Iterator[tuple[str, Container]]:
    for kind, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            yield f"{path}.{kind}[{index}]", container


def _of_linux(spec: PodSpec) -> dict[str, bool]:
    return {
        "hostUsers": spec.host_users is not None,
        "hostPID": spec.host_pid,
        "hostIPC": spec.host_ipc,
        "shareProcessNamespace": spec.share_process_namespace is not None,
        "resources": spec.resources is not None,
    }


def _check_host_processes(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Check that either all containers are host processes or none is (validateWindowsHostProcessPod)."""
    options = spec.security_context and spec.security_context.windows_options
    of_pod = options.host_process if options else None
    chosen = []
    for here, container in _containers(spec, path):
        own_options = container.security_context and container.security_context.windows_options
        own = own_options.host_process if own_options else None
        if of_pod is not None and own is not None and of_pod != own:
            yield Problem(f"{here}.securityContext.windowsOptions.hostProcess", "must agree with the pod's")
        chosen.append(own if own is not None else bool(of_pod))
    if any(chosen):
        if not all(chosen):
            yield Problem(f"{path}.containers", "must all have hostProcess: true, or none of them")
        if not spec.host_network:
            yield Problem(f"{path}.hostNetwork", "must be true where containers have hostProcess: true")


def _windows_user(name: str) -> str:
    """Check a Windows user: an optional domain with a backslash, then the user."""
    domain, backslash, user = name.rpartition("\\")
    if not name.isprintable() or "\\" in domain:
        return "must be a user, perhaps with a domain and one backslash before it, and no control characters"
    if backslash and (
        len(domain) > _LONGEST_DOMAIN or not (_NETBIOS_DOMAIN.fullmatch(domain) or _DNS_DOMAIN.fullmatch(domain))
    ):
        return f"its domain must be a NetBIOS or DNS name of no more than {_LONGEST_DOMAIN} characters"
    if len(user) > _LONGEST_USER or _NO_USER.fullmatch(user):
        return f"its user must be 1 to {_LONGEST_USER} characters, not only dots and blanks, and without {_NOT_IN_USER}"
    return ""
