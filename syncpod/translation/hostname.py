"""The host name of a pod, and the domain it may have."""

from syncpod.pod import Pod
from syncpod.translation.config_error import SandboxConfigError

_HOSTNAME_LIMIT = 63
_KERNEL_LIMIT = 64
"""Characters of the kernel's node name, without the closing zero."""


def hostname_and_domain(pod: Pod) -> tuple[str, str]:
    """Return the pod's short host name, and its domain (``""`` without a subdomain).

    Names longer than 63 are cut there, and a ``-`` or ``.`` that then ends them is taken off (kubelet_pods.go, v1.36,
    GeneratePodHostNameAndDomain). Difference: without a cluster there is no cluster domain, so the domain is
    ``<subdomain>.<namespace>.svc``, where the kubelet would leave a dot at the end.
    """
    spec = pod.spec
    if spec.hostname_override is not None:
        return _cut(spec.hostname_override, "spec.hostnameOverride"), ""
    hostname = _cut(spec.hostname, "spec.hostname") if spec.hostname else _cut(pod.metadata.name, "metadata.name")
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc" if spec.subdomain else ""
    return hostname, domain


def kernel_hostname(pod: Pod) -> str:
    """Return what the kernel is told: the short name, or with setHostnameAsFQDN the whole one.

    Raises :class:`SandboxConfigError` for a whole name above 64 characters (util_unix.go, v1.36, GetNodenameForKernel).
    """
    hostname, domain = hostname_and_domain(pod)
    if not (domain and pod.spec.set_hostname_as_fqdn):
        return hostname
    whole = f"{hostname}.{domain}"
    if len(whole) > _KERNEL_LIMIT:
        raise SandboxConfigError(
            f"spec.setHostnameAsFQDN: {whole} has {len(whole)} characters, and the kernel takes {_KERNEL_LIMIT}"
        )
    return whole


def _cut(name: str, path: str) -> str:
    if len(name) <= _HOSTNAME_LIMIT:
        return name
    cut = name[:_HOSTNAME_LIMIT].rstrip("-.")
    if not cut:
        raise SandboxConfigError(
            f"{path}: {name!r} leaves no host name after cutting it to {_HOSTNAME_LIMIT} characters"
        )
    return cut
