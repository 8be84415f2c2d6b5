"""The host name and domain of a pod, and its /etc/hosts."""

from syncpod.pod import Pod
from syncpod.translation import SandboxConfigError

_HOSTNAME_LIMIT = 63
_KERNEL_LIMIT = 64
"""The kernel's limit of a host name in characters, without the terminating NUL."""

_HEADER = "# Kubernetes-managed hosts file.\n"
_HEADER_HOST_NETWORK = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def hostname_and_domain(pod: Pod, cluster_domain: str = "") -> tuple[str, str]:
    """Return the pod's short host name, and its domain (``""`` without a subdomain).

    Names are cut to 63 characters, then a trailing ``-`` or ``.`` is removed (kubelet_pods.go, v1.36,
    GeneratePodHostNameAndDomain). The domain ends with the cluster's. Difference: without a cluster's domain it is
    ``<subdomain>.<namespace>.svc``; the kubelet would leave a trailing dot.
    """
    spec = pod.spec
    if spec.hostname_override is not None:
        return _cut(spec.hostname_override, "spec.hostnameOverride"), ""
    hostname = _cut(spec.hostname, "spec.hostname") if spec.hostname else _cut(pod.metadata.name, "metadata.name")
    if not spec.subdomain:
        return hostname, ""
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc"
    return hostname, f"{domain}.{cluster_domain}" if cluster_domain else domain


def kernel_hostname(pod: Pod, cluster_domain: str = "") -> str:
    """Return the host name to set in the kernel: the short one, or with setHostnameAsFQDN the full one.

    Raises :class:`SandboxConfigError` if the full name has more than 64 characters (util_unix.go, v1.36,
    GetNodenameForKernel).
    """
    hostname, domain = hostname_and_domain(pod, cluster_domain)
    if not (domain and pod.spec.set_hostname_as_fqdn):
        return hostname
    whole = f"{hostname}.{domain}"
    if len(whole) > _KERNEL_LIMIT:
        raise SandboxConfigError(
            f"spec.setHostnameAsFQDN: {whole} has {len(whole)} characters, and the kernel takes {_KERNEL_LIMIT}"
        )
    return whole


def hosts_file(pod: Pod, pod_ips: tuple[str, ...], hosts_of_node: str, cluster_domain: str = "") -> str:
    """Return the pod's /etc/hosts: the node's with hostNetwork, else local names and the pod's own; then hostAliases.

    ``hosts_of_node`` is the text of the node's /etc/hosts. The name of a pod with a subdomain ends with
    ``cluster_domain``. Mirrors kubelet_pods.go, v1.36, makeHostsMount.
    """
    if pod.spec.host_network:
        text = _HEADER_HOST_NETWORK + hosts_of_node
    else:
        hostname, domain = hostname_and_domain(pod, cluster_domain)
        own_names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
        text = _HEADER + _LOCAL + "".join(f"{ip}\t{own_names}\n" for ip in pod_ips)
    if pod.spec.host_aliases:
        text += "\n# Entries added by HostAliases.\n"
        text += "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in pod.spec.host_aliases)
    return text


def _cut(name: str, path: str) -> str:
    if len(name) <= _HOSTNAME_LIMIT:
        return name
    cut = name[:_HOSTNAME_LIMIT].rstrip("-.")
    if not cut:
        raise SandboxConfigError(
            f"{path}: {name!r} leaves no host name after cutting it to {_HOSTNAME_LIMIT} characters"
        )
    return cut
