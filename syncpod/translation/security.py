"""Security contexts: the user of a container, its privileges and its confinement.

Mirrors securitycontext/util.go, kuberuntime/security_context.go, kuberuntime/helpers.go and util/util.go, v1.36.
"""

from pathlib import PurePosixPath
from typing import Literal

from protos.cri.v1.api_pb2 import (
    Capability,
    Int64Value,
    LinuxContainerSecurityContext,
    LinuxSandboxSecurityContext,
    NamespaceOption,
    SecurityProfile,
    SELinuxOption,
)
from syncpod.cri.port import ImageStatus
from syncpod.pod import (
    AppArmorProfile,
    Capabilities,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from syncpod.pod import SELinuxOptions as PodSELinuxOptions
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext

MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
"""Paths that are hidden from containers, unless procMount is Unmasked. The machine's own paths are added."""
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""Paths that are read-only in containers, unless procMount is Unmasked."""

_LARGEST_USER_ID = 2**31 - 1


def namespace_options(pod: Pod, target_id: str = "") -> NamespaceOption:
    """Return the pod's namespaces: the node's if the pod shares them, else its own.

    Each container has its own pid namespace, unless the pod shares one; with ``target_id`` it joins that container's.
    The pid mode is always set, since an unset one means the sandbox's namespace (NamespacesForPod;
    kuberuntime_container_linux.go, generateLinuxContainerConfig).
    """
    spec = pod.spec
    pid: Literal["NODE", "POD", "CONTAINER", "TARGET"] = "CONTAINER"
    if spec.host_pid:
        pid = "NODE"
    elif spec.share_process_namespace:
        pid = "POD"
    elif target_id:
        pid = "TARGET"
    return NamespaceOption(
        network=_node_or_pod(spec.host_network),
        ipc=_node_or_pod(spec.host_ipc),
        pid=pid,
        target_id=target_id if pid == "TARGET" else "",
    )


def sandbox_security_context(pod: Pod) -> LinuxSandboxSecurityContext:
    """Return the sandbox's security context: with the profiles RuntimeDefault, and privileged if any container is.

    Mirrors generatePodSandboxLinuxConfig. The namespaces are always set, since defaulting gives every pod a security
    context; the kubelet omits them for a pod without one.
    """
    security = pod.spec.security_context or PodSecurityContext()
    containers = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    return LinuxSandboxSecurityContext(
        namespace_options=namespace_options(pod),
        privileged=any(each.security_context is not None and each.security_context.privileged for each in containers),
        seccomp=SecurityProfile(profile_type=SecurityProfile.RuntimeDefault),
        run_as_user=_wrapped(security.run_as_user),
        run_as_group=_wrapped(security.run_as_group),
        supplemental_groups=_groups(security),
        supplemental_groups_policy=_groups_policy(security),
        selinux_options=_selinux(security.se_linux_options),
    )


def container_security_context(
    pod: Pod, container: Container, node: NodeContext, image: ImageStatus | None, target_id: str, path: str
) -> LinuxContainerSecurityContext:
    """Return the container's security context; its own settings override the pod's.

    Without runAsUser the container has the image's user, or uid 0 if the image names none (getImageUser). ``path`` is
    the container's path in the pod. Raises :class:`ContainerConfigError` (determineEffectiveSecurityContext).
    """
    pod_security = pod.spec.security_context or PodSecurityContext()
    security = effective_security_context(pod, container)
    image_uid, image_user = _image_user(image)
    user = security.run_as_user if security.run_as_user is not None else image_uid
    apparmor, apparmor_name = _apparmor(security.app_armor_profile, path)
    unmasked = security.proc_mount == "Unmasked"
    return LinuxContainerSecurityContext(
        capabilities=_capabilities(security.capabilities),
        privileged=bool(security.privileged),
        namespace_options=namespace_options(pod, target_id),
        selinux_options=_selinux(security.se_linux_options),
        run_as_user=_wrapped(user),
        run_as_group=_wrapped(security.run_as_group),
        run_as_username=image_user if security.run_as_user is None else "",
        readonly_rootfs=bool(security.read_only_root_filesystem),
        supplemental_groups=_groups(pod_security),
        supplemental_groups_policy=_groups_policy(pod_security),
        no_new_privs=security.allow_privilege_escalation is False,
        masked_paths=() if unmasked else (*MASKED_PATHS, *node.host.masked_paths),
        readonly_paths=() if unmasked else READONLY_PATHS,
        seccomp=_seccomp(security.seccomp_profile, node, path),
        apparmor=apparmor,
        apparmor_profile=apparmor_name,
    )


def effective_security_context(pod: Pod, container: Container) -> SecurityContext:
    """Return the container's security context, with the pod's value for each unset field."""
    pod_security = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    inherited = {
        name: getattr(pod_security, name)
        for name in (
            "se_linux_options",
            "run_as_user",
            "run_as_group",
            "run_as_non_root",
            "seccomp_profile",
            "app_armor_profile",
        )
        if getattr(own, name) is None
    }
    return own.model_copy(update=inherited)


def verify_run_as_non_root(pod: Pod, container: Container, image: ImageStatus | None) -> None:
    """Raise :class:`ContainerConfigError`, in the kubelet's words, if runAsNonRoot is set and the user may be root.

    Only a numeric user counts: a user name in the image proves nothing (security_context_others.go,
    verifyRunAsNonRoot).
    """
    security = effective_security_context(pod, container)
    if not security.run_as_non_root:
        return
    meta = pod.metadata
    where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    if security.run_as_user is not None:
        if security.run_as_user == 0:
            raise ContainerConfigError(f"container's runAsUser breaks non-root policy {where}")
        return
    uid, username = _image_user(image)
    if uid is None:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({username}), "
            f"cannot verify user is non-root {where}"
        )
    if uid == 0:
        raise ContainerConfigError(f"container has runAsNonRoot and image will run as root {where}")
    if not 0 <= uid <= _LARGEST_USER_ID:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({_LARGEST_USER_ID})): "
            f"must be between 0 and {_LARGEST_USER_ID}, inclusive {where}"
        )


def _image_user(image: ImageStatus | None) -> tuple[int | None, str]:
    """Return the image's user as a number or as a name; an image with neither runs as 0."""
    if image is not None and image.uid is not None:
        return image.uid, ""
    if image is not None and image.username:
        return None, image.username
    return 0, ""


def _node_or_pod(of_the_node: bool) -> str:
    return "NODE" if of_the_node else "POD"


def _capabilities(capabilities: Capabilities | None) -> Capability | None:
    """Return the added and dropped capabilities, named as in a pod spec.

    Difference: a ``CAP_`` prefix is removed; the kubelet passes it on, and containerd 1.6 then ignores the capability.
    """
    if capabilities is None:
        return None
    added, dropped = ([name.removeprefix("CAP_") for name in names] for names in (capabilities.add, capabilities.drop))
    return Capability(add_capabilities=added, drop_capabilities=dropped)


def _groups(security: PodSecurityContext) -> tuple[int, ...]:
    return ((security.fs_group,) if security.fs_group is not None else ()) + security.supplemental_groups


def _groups_policy(security: PodSecurityContext) -> str:
    return security.supplemental_groups_policy or "Merge"


def _wrapped(number: int | None) -> Int64Value | None:
    return None if number is None else Int64Value(value=number)


def _selinux(options: PodSELinuxOptions | None) -> SELinuxOption | None:
    if options is None:
        return None
    return SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _seccomp(profile: SeccompProfile | None, node: NodeContext, path: str) -> SecurityProfile:
    """Return the seccomp profile; without one it is Unconfined, the kubelet's default (seccompDefault off)."""
    match profile.type if profile is not None else None:
        case "RuntimeDefault":
            return SecurityProfile(profile_type=SecurityProfile.RuntimeDefault)
        case "Localhost":
            assert profile is not None
            return SecurityProfile(
                profile_type=SecurityProfile.Localhost, localhost_ref=_local_profile(profile, node, path)
            )
        case _:
            return SecurityProfile(profile_type=SecurityProfile.Unconfined)


def _local_profile(profile: SeccompProfile, node: NodeContext, path: str) -> str:
    """Return the file of a Localhost profile, below ``seccomp`` in the state directory."""
    relative = PurePosixPath(profile.localhost_profile or "")
    if not relative.parts or relative.is_absolute() or ".." in relative.parts:
        raise ContainerConfigError(
            f"{path}.securityContext.seccompProfile.localhostProfile: must be a path below {node.state_dir}/seccomp"
        )
    return str(node.state_dir / "seccomp" / relative)


def _apparmor(profile: AppArmorProfile | None, path: str) -> tuple[SecurityProfile | None, str]:
    """Return the AppArmor profile, and its older form for runtimes without the newer field."""
    match profile.type if profile is not None else None:
        case "RuntimeDefault":
            return SecurityProfile(profile_type=SecurityProfile.RuntimeDefault), "runtime/default"
        case "Unconfined":
            return SecurityProfile(profile_type=SecurityProfile.Unconfined), "unconfined"
        case "Localhost":
            assert profile is not None
            if not profile.localhost_profile:
                raise ContainerConfigError(
                    f"{path}.securityContext.appArmorProfile.localhostProfile: required for type Localhost"
                )
            return (
                SecurityProfile(profile_type=SecurityProfile.Localhost, localhost_ref=profile.localhost_profile),
                f"localhost/{profile.localhost_profile}",
            )
        case _:
            return None, ""
