"""DNS settings of a pod: dnsPolicy, dnsConfig, and the limits of resolvers.

Mirrors network/dns/dns.go, v1.36. If no cluster DNS is set, ClusterFirst falls back to the host's resolver, as in a
kubelet. Difference: a kubelet then emits the event MissingClusterDNS for its node, and at each sandbox of a pod with
this policy. It is the default policy, so nearly every pod of a node without a cluster would have the event. Here the
node's workflow has one such event for each start of its worker, and a pod has it only with ClusterFirstWithHostNet. A
pod of a Kubernetes cluster has the event as under a kubelet.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from protos.cri.v1.api_pb2 import DNSConfig
from syncpod.pod import Pod
from syncpod.pod.origin import is_of_cluster
from syncpod.translation.context import NO_CLUSTER_DNS, ClusterDns, Resolver

_MISSING = "MissingClusterDNS"
_CLUSTER_OPTIONS = ("ndots:5",)
_SERVERS_LIMIT = 3
_SEARCHES_LIMIT = 32
_SEARCH_CHARS_LIMIT = 2048
_SEARCH_NAME_LIMIT = 253
"""Maximum characters of one search domain; glibc 2.28 aborts above 255."""


@dataclass(frozen=True)
class DnsEvent:
    """A warning event for the pod, emitted when its sandbox is made."""

    reason: str
    message: str


def parse_resolv_conf(text: str) -> Resolver:
    """Parse a resolv.conf: nameservers add up, the last search line counts, options override by name (parseResolvConf).

    Raises :class:`ValueError` for a nameserver line without an address.
    """
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        keyword, *values = line.split() or ("",)
        if keyword == "nameserver":
            if not values:
                raise ValueError("a nameserver line has no address")
            servers.append(values[0])
        elif keyword == "search":
            searches = tuple(domain.removesuffix(".") for domain in values if domain != ".")
        elif keyword == "options":
            options.update({option.partition(":")[0]: option for option in values})
    return Resolver(tuple(servers), searches, tuple(options.values()))


def pod_dns(pod: Pod, host: Resolver, cluster: ClusterDns = NO_CLUSTER_DNS) -> tuple[DNSConfig, tuple[DnsEvent, ...]]:
    """Return the sandbox's DNS config, and the events to emit (GetPodDNS).

    ``host`` is the host's current resolver: the kubelet reads resolv.conf for each sandbox. Difference: options keep
    their order; in the kubelet it is the random order of a Go map.
    """
    spec = pod.spec
    events: list[DnsEvent] = []
    asks_cluster = spec.dns_policy == "ClusterFirstWithHostNet" or (
        spec.dns_policy == "ClusterFirst" and not spec.host_network
    )
    base = Resolver() if spec.dns_policy == "None" else host
    if asks_cluster and cluster.servers:
        base = Resolver(cluster.servers, _cluster_searches(pod, host, cluster.domain), _CLUSTER_OPTIONS)
    elif asks_cluster and is_of_cluster(pod.metadata):
        events.append(_of_kubelet(pod))
    elif spec.dns_policy == "ClusterFirstWithHostNet":
        events.append(
            DnsEvent(
                _MISSING,
                f'There is no cluster DNS: policy "{spec.dns_policy}" falls back to "Default", that of the host.',
            )
        )
    servers, searches, options = list(base.servers), list(base.searches), list(base.options)
    if spec.dns_config is not None:
        servers = _unique([*servers, *spec.dns_config.nameservers])
        searches = _unique([*searches, *spec.dns_config.searches])
        by_name = {option.partition(":")[0]: option for option in options}
        for option in spec.dns_config.options:
            by_name[option.name] = f"{option.name}:{option.value}" if option.value else option.name
        options = list(by_name.values())

    applied_servers = servers[:_SERVERS_LIMIT]
    if applied_servers != servers:
        events.append(_too_many("Nameserver", "nameservers", "nameserver", applied_servers))
    applied_searches = _searches_within_limits(searches)
    if applied_searches != searches:
        events.append(_too_many("Search Line", "search paths", "search", applied_searches))
    return DNSConfig(servers=applied_servers, searches=applied_searches, options=options), tuple(events)


def _cluster_searches(pod: Pod, host: Resolver, domain: str) -> tuple[str, ...]:
    """Return the domains to search: those of the namespace, of all Services, of the cluster, and then of the host."""
    if not domain:
        return host.searches
    namespace = pod.metadata.namespace or "default"
    return tuple(_unique([f"{namespace}.svc.{domain}", f"svc.{domain}", domain, *host.searches]))


def _of_kubelet(pod: Pod) -> DnsEvent:
    meta = pod.metadata
    return DnsEvent(
        _MISSING,
        f'pod: "{meta.name}_{meta.namespace or "default"}({meta.uid})". kubelet does not have ClusterDNS IP configured '
        'and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    )


def _searches_within_limits(searches: list[str]) -> list[str]:
    """Drop the domains that resolvers reject: those after the 32nd, long ones, and the last ones of a long line."""
    kept = [domain for domain in searches[:_SEARCHES_LIMIT] if len(domain) <= _SEARCH_NAME_LIMIT]
    while len(" ".join(kept)) > _SEARCH_CHARS_LIMIT:
        kept.pop()
    return kept


def _too_many(what: str, plural: str, line: str, applied: list[str]) -> DnsEvent:
    return DnsEvent(
        "DNSConfigForming",
        f"{what} limits were exceeded, some {plural} have been omitted, "
        f"the applied {line} line is: {' '.join(applied)}",
    )


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
