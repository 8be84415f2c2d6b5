"""The OOM scores of containers: the order in which the kernel kills them when the node's memory runs out."""

from syncpod.lifecycle.phase import is_critical
from syncpod.lifecycle.qos import pod_qos
from syncpod.pod import Container, Pod, parse_quantity
from syncpod.pod.amounts import containers_amounts

_GUARANTEED = -997
_BEST_EFFORT = 1000
_RANGE = 1000
_ZERO = parse_quantity("0")


def oom_score_adj(pod: Pod, container: Container, memory_bytes: int) -> int:
    """Return the container's oom_score_adj, -997 to 1000: the more memory it requests, the later it is killed.

    ``memory_bytes`` is the node's. A burstable container gets 3 to 999, and a sidecar is never killed before the main
    container that requests least. The excess of the pod-level request over the containers' is divided equally
    (qos/policy.go, v1.36, GetContainerOOMScoreAdjust). The class `system-node-critical` counts only for a pod that is
    static, or critical by its priority (types/pod_update.go, IsNodeCriticalPod). Otherwise the kernel would spare a pod
    that the node itself evicts like any other.
    """
    if pod.spec.priority_class_name == "system-node-critical" and is_critical(pod):
        return _GUARANTEED
    match pod_qos(pod):
        case "Guaranteed":
            return _GUARANTEED
        case "BestEffort":
            return _BEST_EFFORT
    requested = _memory_request(container)
    if container.restart_policy == "Always" and any(init.name == container.name for init in pod.spec.init_containers):
        requested = max(requested, min(_memory_request(main) for main in pod.spec.containers))
    score = _RANGE - _RANGE * (requested + _share_of_the_rest(pod)) // memory_bytes
    return min(max(score, _RANGE + _GUARANTEED), _BEST_EFFORT - 1)


def _share_of_the_rest(pod: Pod) -> int:
    """Return each container's share, in bytes, of the memory that the pod-level request has beyond its containers'.

    kubelet/qos/helpers.go, v1.36, remainingPodMemReqPerContainer.
    """
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    requested = parse_quantity(whole.get("memory", "0")).value()
    if not requested:
        return 0
    of_containers = containers_amounts(pod.spec, "requests").get("memory", _ZERO).value()
    return (requested - of_containers) // (len(pod.spec.containers) + len(pod.spec.init_containers))


def _memory_request(container: Container) -> int:
    return parse_quantity(container.resources.requests.get("memory", "0")).value()
