"""The /etc/hosts that the node keeps for a pod's containers (kubelet_pods.go, v1.36, makeHostsMount)."""

from syncpod.pod import Pod
from syncpod.translation.hostname import hostname_and_domain

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


def hosts_file(pod: Pod, pod_ips: tuple[str, ...], hosts_of_node: str, cluster_domain: str = "") -> str:
    """Return the file's text: the node's own for a pod on its network, else local names and the pod's, then aliases.

    ``hosts_of_node`` is the text of the node's /etc/hosts; only a pod with hostNetwork gets it. The name of a pod with
    a subdomain ends with ``cluster_domain``.
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
