"""DNS: the host's resolv.conf, the pod's settings, and the resolvers' limits."""

import dataclasses
from typing import Any

import pytest

from syncpod.translation.context import ClusterDns, Resolver
from syncpod.translation.dns import parse_resolv_conf, pod_dns
from tests.translation.translation import HOST, NODE, make_pod, sandbox

RESOLV_CONF = """\
# nameserver 192.0.2.1
; nameserver 192.0.2.2
nameserver 192.0.2.53
 nameserver\t2001:db8::53  trailing
search first.example
search example.org. . sub.example.org
options ndots:2 rotate
options ndots:5
domain ignored.example
"""


def test_resolv_conf_collects_servers_keeps_the_last_search_and_overrides_options() -> None:
    assert parse_resolv_conf(RESOLV_CONF) == Resolver(
        servers=("192.0.2.53", "2001:db8::53"),
        searches=("example.org", "sub.example.org"),
        options=("ndots:5", "rotate"),
    )


def test_a_nameserver_without_an_address_is_an_error() -> None:
    with pytest.raises(ValueError, match="nameserver"):
        parse_resolv_conf("nameserver\n")


def dns(spec: dict[str, Any], host: Resolver = HOST.resolver) -> tuple[Resolver, list[str]]:
    config, events = pod_dns(make_pod(spec), host)
    return Resolver(tuple(config.servers), tuple(config.searches), tuple(config.options)), [
        event.reason for event in events
    ]


MORE = {"nameservers": ["192.0.2.53", "192.0.2.54"], "searches": ["example.org", "b"], "options": [{"name": "edns0"}]}

CASES: dict[str, tuple[dict[str, Any], Resolver, list[str]]] = {
    "the host's, by default policy": ({"dnsPolicy": "Default"}, HOST.resolver, []),
    "the host's, for want of a cluster's": ({}, HOST.resolver, []),
    "the host's, on the host's network": ({"hostNetwork": True}, HOST.resolver, []),
    "the host's, on the host's network, for want of a cluster's": (
        {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        HOST.resolver,
        ["MissingClusterDNS"],
    ),
    "the pod's on top, each once": (
        {"dnsPolicy": "Default", "dnsConfig": MORE},
        Resolver(("192.0.2.53", "192.0.2.54"), ("example.org", "b"), ("ndots:2", "edns0")),
        [],
    ),
    "the pod's alone": (
        {"dnsPolicy": "None", "dnsConfig": MORE},
        Resolver(("192.0.2.53", "192.0.2.54"), ("example.org", "b"), ("edns0",)),
        [],
    ),
    "the pod's options over the host's": (
        {"dnsPolicy": "Default", "dnsConfig": {"options": [{"name": "ndots", "value": "7"}]}},
        Resolver(("192.0.2.53",), ("example.org",), ("ndots:7",)),
        [],
    ),
    "three servers at most": (
        {"dnsPolicy": "Default", "dnsConfig": {"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]}},
        Resolver(("192.0.2.53", "192.0.2.1", "192.0.2.2"), ("example.org",), ("ndots:2",)),
        ["DNSConfigForming"],
    ),
    "no domain that a resolver dies of": (
        {"dnsPolicy": "None", "dnsConfig": {"searches": ["a" * 254, "b"]}},
        Resolver((), ("b",), ()),
        ["DNSConfigForming"],
    ),
    "thirty-two domains at most": (
        {"dnsPolicy": "None", "dnsConfig": {"searches": [f"d{index}" for index in range(33)]}},
        Resolver((), tuple(f"d{index}" for index in range(32)), ()),
        ["DNSConfigForming"],
    ),
    "2048 characters at most": (
        {"dnsPolicy": "None", "dnsConfig": {"searches": [f"{index:0200}" for index in range(11)]}},
        Resolver((), tuple(f"{index:0200}" for index in range(10)), ()),
        ["DNSConfigForming"],
    ),
}


@pytest.mark.parametrize(("spec", "resolver", "events"), CASES.values(), ids=CASES)
def test_the_dns_config_of_a_pod(spec: dict[str, Any], resolver: Resolver, events: list[str]) -> None:
    """Row 122: a pod has the event MissingClusterDNS only if it requests cluster DNS by a non-default policy."""
    assert dns(spec) == (resolver, events)


def test_the_warning_about_omitted_nameservers_lists_those_applied() -> None:
    """Row 122: the event names them."""
    _, events = pod_dns(make_pod({"dnsPolicy": "Default"}), Resolver(servers=("a", "b", "c", "d")))
    assert events[0].message == (
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: a b c"
    )


CLUSTER = ClusterDns(("10.96.0.10",), "cluster.local")
SEARCHES = ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org")

IN_A_CLUSTER: dict[str, tuple[dict[str, Any], Resolver]] = {
    "the cluster's, by default": ({}, Resolver(("10.96.0.10",), SEARCHES, ("ndots:5",))),
    "the cluster's, on the host's network, if that is asked for": (
        {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        Resolver(("10.96.0.10",), SEARCHES, ("ndots:5",)),
    ),
    "the host's, on the host's network": ({"hostNetwork": True}, HOST.resolver),
    "the host's, by policy": ({"dnsPolicy": "Default"}, HOST.resolver),
    "the pod's alone": ({"dnsPolicy": "None", "dnsConfig": MORE}, CASES["the pod's alone"][1]),
    "the pod's on top": (
        {"dnsConfig": MORE},
        Resolver(("10.96.0.10", "192.0.2.53", "192.0.2.54"), (*SEARCHES, "b"), ("ndots:5", "edns0")),
    ),
}


@pytest.mark.parametrize(("spec", "resolver"), IN_A_CLUSTER.values(), ids=IN_A_CLUSTER)
def test_the_dns_config_of_a_pod_where_there_is_a_cluster_dns(spec: dict[str, Any], resolver: Resolver) -> None:
    """Row 122: GetPodDNS."""
    config, events = pod_dns(make_pod(spec), HOST.resolver, CLUSTER)
    found = Resolver(tuple(config.servers), tuple(config.searches), tuple(config.options))
    assert (found, events) == (resolver, ())


def test_without_the_clusters_domain_the_hosts_are_searched_alone() -> None:
    config, _ = pod_dns(make_pod({}), HOST.resolver, ClusterDns(("10.96.0.10",)))
    assert tuple(config.searches) == HOST.resolver.searches


def test_the_full_host_name_of_a_pod_ends_with_the_clusters_domain() -> None:
    pod = make_pod({"hostname": "front", "subdomain": "sites", "setHostnameAsFQDN": True})
    node = dataclasses.replace(NODE, cluster_dns=CLUSTER)
    assert sandbox(pod, node=node).hostname == "front.sites.default.svc.cluster.local"


def test_a_pod_of_a_kubernetes_cluster_says_that_there_is_no_cluster_dns_in_the_kubelets_words() -> None:
    """Row 122: only pods that would use it have the event."""
    annotations = {"kubernetes.io/config.source": "kubernetes"}
    made = make_pod({}, annotations=annotations)
    config, events = pod_dns(made, HOST.resolver)
    assert tuple(config.servers) == HOST.resolver.servers
    assert [each.reason for each in events] == ["MissingClusterDNS"]
    assert events[0].message == (
        f'pod: "web_default({made.metadata.uid})". kubelet does not have ClusterDNS IP configured and cannot create '
        'Pod using "ClusterFirst" policy. Falling back to "Default" policy.'
    )
    for spec in ({"dnsPolicy": "Default"}, {"hostNetwork": True}):
        assert pod_dns(make_pod(spec, annotations=annotations), HOST.resolver)[1] == ()
