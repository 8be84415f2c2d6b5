"""Checks of requests, limits and resize policies."""

from collections.abc import Iterator, Mapping

from syncpod.pod.amounts import HUGE_PAGES, containers_amounts, containers_text
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.resources import ContainerResizePolicy, ResourceRequirements
from syncpod.pod.spec import PodSpec
from syncpod.pod.validation import syntax

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_POD_RESOURCES = ("cpu", "memory")

_LARGEST = 2**63 - 1
"""The maximum of any amount: CRI has 64-bit numbers."""
_MOST_CPUS = _LARGEST // 100_000
"""The maximum of CPU, so that a quota in microseconds per 100 ms fits 64 bits too."""


def check_resources(
    resources: ResourceRequirements, path: str, *, claims: frozenset[str], whole_pod: bool = False
) -> Iterator[Problem]:
    """Check names and amounts, and that no request exceeds its limit."""
    for kind, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name, text in amounts.items():
            if kind == "requests" and resources.limits.get(name) == text:
                continue  # Reported already: a missing request is set from its limit.
            here = f"{path}.{kind}[{name[:80]}]"
            if wrong := _resource_name(name, whole_pod) or _amount(name, text):
                yield Problem(here, wrong)
    yield from _check_requests_within_limits(resources.requests, resources.limits, path)
    seen: set[tuple[str, str]] = set()
    named: set[str] = set()  # a claim as a whole includes each of its requests
    for index, claim in enumerate(resources.claims):
        here = f"{path}.claims[{index}]"
        if whole_pod:
            yield Problem(here, "must not be set for the pod as a whole")
        elif claim.name not in claims:
            yield Problem(f"{here}.name", f"{claim.name!r} is not in spec.resourceClaims")
        elif claim.request and (wrong := syntax.dns_label(claim.request)):
            yield Problem(f"{here}.request", wrong)
        elif seen & {(claim.name, claim.request), (claim.name, "")} or (not claim.request and claim.name in named):
            yield Problem(here, "is there twice")
        named.add(claim.name)
        seen.add((claim.name, claim.request))


def check_resize_policy(
    policies: tuple[ContainerResizePolicy, ...], path: str, pod_restart_policy: str | None
) -> Iterator[Problem]:
    """Check that each resource is named once, and that no policy restarts containers of a pod that never restarts."""
    seen = set()
    for index, policy in enumerate(policies):
        here = f"{path}[{index}]"
        if policy.resource_name not in _POD_RESOURCES:
            yield Problem(f"{here}.resourceName", "must be cpu or memory")
        elif policy.resource_name in seen:
            yield Problem(f"{here}.resourceName", f"{policy.resource_name} is there twice")
        seen.add(policy.resource_name)
        if policy.restart_policy is None:
            yield Problem(f"{here}.restartPolicy", "required")
        elif policy.restart_policy == "RestartContainer" and pod_restart_policy == "Never":
            yield Problem(f"{here}.restartPolicy", "must be NotRequired in a pod whose restartPolicy is Never")


def check_pod_resources(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Check pod-level resources, by themselves and against those of the containers.

    Mirrors validation.go, v1.36, validatePodResources and validatePodResourceConsistency: the pod requests at least as
    much as its containers together, and no main container's limit exceeds the pod's.
    """
    whole = spec.resources
    if whole is None:
        return
    yield from check_resources(whole, path, claims=frozenset(), whole_pod=True)
    for name, amount in containers_amounts(spec, "requests").items():
        if name.startswith(HUGE_PAGES) and name in whole.limits:
            continue  # The limit, which is equal, is checked below.
        if name in whole.requests and amount > parse_quantity(whole.requests[name]):
            text = containers_text(spec, "requests")[name]
            yield Problem(f"{path}.requests[{name[:80]}]", f"must be no less than its containers' {text} together")
    for name, amount in containers_amounts(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in whole.limits and amount > parse_quantity(whole.limits[name]):
            text = containers_text(spec, "limits")[name]
            yield Problem(f"{path}.limits[{name[:80]}]", f"must be no less than its containers' {text} together")
    for index, container in enumerate(spec.containers):
        for name, text in container.resources.limits.items():
            if name in whole.limits and parse_quantity(text) > parse_quantity(whole.limits[name]):
                here = f"spec.containers[{index}].resources.limits[{name[:80]}]"
                yield Problem(here, f"must be no more than the pod's limit of {whole.limits[name]}")


def _resource_name(name: str, whole_pod: bool) -> str:
    if wrong := syntax.qualified_name(name):
        return wrong
    if name.startswith(HUGE_PAGES):
        return "" if _page_size(name) else "must name a page size, such as hugepages-2Mi"
    known = _POD_RESOURCES if whole_pod else _CONTAINER_RESOURCES
    if name in known or ("/" in name and not whole_pod and not name.startswith("requests.")):
        return ""
    return (
        f"unknown resource; it may be {', '.join(known)} or {'hugepages-<size>' if whole_pod else 'example.com/name'}"
    )


def _page_size(name: str) -> int:
    try:
        return parse_quantity(name.removeprefix(HUGE_PAGES)).value()
    except ValueError:
        return 0


def _amount(name: str, text: str) -> str:
    quantity = parse_quantity(text)
    if quantity.number < 0:
        return "must not be negative"
    largest = _MOST_CPUS if name == "cpu" else _LARGEST
    if quantity.number > largest:
        return f"must be no more than {largest}"
    if "/" in name and quantity.number.denominator != 1:
        return "must be a whole number"
    if name.startswith(HUGE_PAGES) and quantity.value() % _page_size(name):
        return f"must be a multiple of {name.removeprefix(HUGE_PAGES)}"
    return ""


def _check_requests_within_limits(
    requests: Mapping[str, str], limits: Mapping[str, str], path: str
) -> Iterator[Problem]:
    for name, text in requests.items():
        here = f"{path}.requests[{name[:80]}]"
        overcommits = "/" not in name and not name.startswith(HUGE_PAGES)
        if name not in limits:
            if not overcommits:
                yield Problem(f"{path}.limits[{name[:80]}]", "required, since this resource is requested")
        elif parse_quantity(text) > parse_quantity(limits[name]):
            yield Problem(here, f"must be no more than the limit of {limits[name]}")
        elif not overcommits and parse_quantity(text) != parse_quantity(limits[name]):
            yield Problem(here, f"must be equal to the limit of {limits[name]}")
    names = {*requests, *limits}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield Problem(path, "huge pages need cpu or memory beside them")
