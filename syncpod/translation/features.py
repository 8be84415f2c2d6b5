"""Refuses pods that need features that the runtime does not have.

A runtime silently ignores fields that it does not know. So a feature that the runtime does not announce is refused, by
name. A field that the embedded runtime would refuse on every machine is refused here too, because only this module can
name the field's path in the manifest.
"""

import json
import re
from collections.abc import Iterator

from syncpod.cri.port import RuntimeHandler, RuntimeStatus, RuntimeVersion
from syncpod.pod import Pod, PodSecurityContext, SecurityContext

_IMAGE_VOLUMES = {"containerd": (2, 1), "cri-o": (1, 33)}
"""The first version of each runtime that mounts images. Runtimes do not announce this feature, and older versions mount
something else."""

_ANNOUNCES_NOTHING = RuntimeStatus(
    runtime_ready=True,
    network_ready=True,
    runtime_message="",
    network_message="",
    supplemental_groups_policy=False,
    user_namespaces_host_network=False,
    mount_options=False,
    runtime_handlers=(),
    info={},
)
_DEFAULT = "RuntimeDefault"
EMBEDDED = "syncpod-embedded"
"""The name of our own runtime."""


def needs_details(pod: Pod) -> bool:
    """Return whether :func:`refusals` needs the runtime's version and verbose status for this pod."""
    return any(volume.image is not None for volume in pod.spec.volumes) or any(_what_embedded_refuses(pod))


def depends_on_runtime(pod: Pod) -> bool:
    """Return whether :func:`refusals` refuses this pod for some runtimes."""
    return bool(pod.spec.runtime_class_name or needs_details(pod) or refusals(pod, _ANNOUNCES_NOTHING))


def mounts_images(version: RuntimeVersion | None) -> bool:
    """Return whether a runtime of this name and version can mount an image or a directory in it."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version.version) if version is not None else None
    if version is None or numbers is None or version.name not in _IMAGE_VOLUMES:
        return False
    return (int(numbers[1]), int(numbers[2])) >= _IMAGE_VOLUMES[version.name]


def refusals(pod: Pod, status: RuntimeStatus, version: RuntimeVersion | None = None) -> tuple[str, ...]:
    """Return one sentence, with the field's path, for each feature that this runtime ignores or refuses.

    Empty means that the pod can run as written. A handler's name is checked only if the runtime announces handlers;
    older runtimes refuse an unknown handler themselves. ``version`` and a verbose ``status`` are needed if
    :func:`needs_details` returns True.
    """
    wanted = pod.spec.runtime_class_name or ""
    handler = next((each for each in status.runtime_handlers if each.name == wanted), None)
    return (
        *_handler_refusals(wanted, handler, status),
        *_supplemental_groups_refusals(pod, status),
        *_user_namespace_refusals(pod, handler),
        *_recursive_read_only_refusals(pod, handler),
        *_image_volume_refusals(pod, version),
        *(_what_embedded_refuses(pod) if runs_processes(status, version) else ()),
    )


def warnings(pod: Pod, *, applies_seccomp: bool) -> tuple[str, ...]:
    """Return one sentence, with the field's path, for each field that this runtime accepts but does not apply.

    The pod works without these fields, so it runs. A seccomp profile of type Localhost is not among them: the embedded
    runtime refuses it.
    """
    if applies_seccomp:
        return ()
    spec = pod.spec
    contexts: list[tuple[str, PodSecurityContext | SecurityContext | None]] = [("spec", spec.security_context)]
    for group, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        contexts += [(f"spec.{group}[{index}]", each.security_context) for index, each in enumerate(containers)]
    return tuple(
        f"{path}.securityContext.seccompProfile: has no effect here: the embedded runtime applies no seccomp profile"
        for path, context in contexts
        if context is not None and context.seccomp_profile is not None and context.seccomp_profile.type == _DEFAULT
    )


def _handler_refusals(wanted: str, handler: RuntimeHandler | None, status: RuntimeStatus) -> Iterator[str]:
    if handler is None and status.runtime_handlers:
        known = ", ".join(sorted(each.name for each in status.runtime_handlers if each.name)) or "only its default"
        yield f"spec.runtimeClassName: the runtime has no handler {wanted!r}; it has {known}"


def _supplemental_groups_refusals(pod: Pod, status: RuntimeStatus) -> Iterator[str]:
    security = pod.spec.security_context
    strict = security is not None and security.supplemental_groups_policy == "Strict"
    if strict and not status.supplemental_groups_policy:
        yield (
            "spec.securityContext.supplementalGroupsPolicy: the runtime does not announce Strict, "
            "and would add the image's groups all the same"
        )


def _user_namespace_refusals(pod: Pod, handler: RuntimeHandler | None) -> Iterator[str]:
    if pod.spec.host_users is not False:
        return
    if handler is None or not handler.user_namespaces:
        yield "spec.hostUsers: the runtime does not announce user namespaces, and would run the pod without"
    else:
        yield "spec.hostUsers: user namespaces are not supported by this version"


def _recursive_read_only_refusals(pod: Pod, handler: RuntimeHandler | None) -> Iterator[str]:
    if handler is None or not handler.recursive_read_only_mounts:
        for path in _recursive_read_only_mounts(pod):
            yield f"{path}.recursiveReadOnly: the runtime does not announce recursive read-only mounts"


def _image_volume_refusals(pod: Pod, version: RuntimeVersion | None) -> Iterator[str]:
    if mounts_images(version):
        return
    runtime = f"{version.name} {version.version}" if version is not None else "the runtime"
    for index, volume in enumerate(pod.spec.volumes):
        if volume.image is not None:
            here = f"spec.volumes[{index}].image"
            yield f"{here}: {runtime} cannot mount images; containerd can from 2.1, CRI-O from 1.33"


def runs_processes(status: RuntimeStatus, version: RuntimeVersion | None) -> bool:
    """Return whether this is the embedded runtime and its processes are real, not simulated."""
    if version is None or version.name != EMBEDDED:
        return False
    try:
        return bool(json.loads(status.info.get("config", "{}")).get("isolation") != "simulated")
    except (ValueError, AttributeError):
        return True


def _what_embedded_refuses(pod: Pod) -> Iterator[str]:
    """Yield a sentence for each field of the pod that the embedded runtime refuses on every machine.

    The runtime's own checks are in `syncpod/runtime/processes/process_spec.py`.
    """
    spec = pod.spec
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for at, container in enumerate(containers):
            here = f"spec.{kind}[{at}]"
            for index, port in enumerate(container.ports):
                if port.host_port and not spec.host_network:
                    yield (
                        f"{here}.ports[{index}].hostPort: host ports need spec.hostNetwork: true, since pods share the "
                        "machine's network; without a host port the pod is reached at its own address"
                    )
            if container.volume_devices:
                yield f"{here}.volumeDevices: block volumes need containerd or CRI-O: a process here sees every device"
            for index, mount in enumerate(container.volume_mounts):
                if mount.mount_propagation not in (None, "", "None"):
                    yield f"{here}.volumeMounts[{index}].mountPropagation: only private mounts are supported: remove it"
    if spec.security_context is not None and spec.security_context.sysctls:
        yield (
            "spec.securityContext.sysctls: cannot be set for one pod, since pods share the machine's kernel: remove "
            "them"
        )


def recursive_read_only_handlers(status: RuntimeStatus) -> tuple[str, ...]:
    """Return the names of the handlers that announce recursive read-only mounts, for :class:`NodeContext`."""
    handlers: tuple[RuntimeHandler, ...] = status.runtime_handlers
    return tuple(handler.name for handler in handlers if handler.recursive_read_only_mounts)


def _recursive_read_only_mounts(pod: Pod) -> list[str]:
    spec = pod.spec
    kinds = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    return [
        f"spec.{kind}[{index}].volumeMounts[{place}]"
        for kind, containers in kinds
        for index, container in enumerate(containers)
        for place, mount in enumerate(container.volume_mounts)
        if mount.recursive_read_only == "Enabled"
    ]
