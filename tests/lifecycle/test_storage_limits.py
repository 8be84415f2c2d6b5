"""Storage limits of a pod, and the first one that it exceeds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.storage_limits import Excess, StorageUsage, storage_excess, storage_limits
from syncpod.pod import ObjectMeta, Pod

MI = 2**20


def pod(
    containers: dict[str, str | None],
    volumes: dict[str, dict[str, Any]] | None = None,
    init: dict[str, str | None] | None = None,
    sidecars: dict[str, str | None] | None = None,
    **spec: Any,
) -> Pod:
    """A pod of containers with these limits of ephemeral-storage; sidecars come before other init containers."""

    def limited(name: str, limit: str | None, **fields: Any) -> dict[str, Any]:
        resources = {} if limit is None else {"limits": {"ephemeral-storage": limit}}
        return {"name": name, "image": "x", "resources": resources, **fields}

    return Pod.model_validate(
        {
            "metadata": {"name": "web"},
            "spec": {
                "containers": [limited(*each) for each in containers.items()],
                "initContainers": [
                    *(limited(*each, restartPolicy="Always") for each in (sidecars or {}).items()),
                    *(limited(*each) for each in (init or {}).items()),
                ],
                "volumes": [{"name": name, **source} for name, source in (volumes or {}).items()],
                **spec,
            },
        }
    )


def message(of: Pod, usage: StorageUsage) -> str:
    excess = storage_excess(storage_limits(of), usage)
    return excess.message if excess else ""


CACHE = {"cache": {"emptyDir": {"sizeLimit": "1Mi"}}}
FROM_A_FILE = ObjectMeta(name="web", annotations={"kubernetes.io/config.source": "file"})
IN_MEMORY = {"cache": {"emptyDir": {"sizeLimit": "1Mi", "medium": "Memory"}}}


def test_a_pod_without_limits_is_never_over_a_limit() -> None:
    without = pod({"web": None}, {"cache": {"emptyDir": {}}, "host": {"hostPath": {"path": "/"}}})
    assert not storage_limits(without)
    everything = StorageUsage(volumes={"cache": 2**60}, layers={"web": 2**60}, logs={"web": 2**60}, others=2**60)
    assert storage_excess(storage_limits(without), everything) is None


def test_a_volume_may_reach_its_size_limit_but_not_exceed_it() -> None:
    """Row 118: emptyDirEviction, by the sizeLimit."""
    web = pod({"web": None}, CACHE)
    assert storage_excess(storage_limits(web), StorageUsage(volumes={"cache": MI})) is None
    assert storage_excess(storage_limits(web), StorageUsage(volumes={"cache": MI + 1})) == Excess(
        'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ', "emptydirfs.limit"
    )


def test_a_memory_volume_has_its_own_limit_and_does_not_count_for_the_pods() -> None:
    web = pod({"web": "1Mi"}, IN_MEMORY)
    assert message(web, StorageUsage(volumes={"cache": MI}, layers={"web": MI})) == ""
    assert message(web, StorageUsage(volumes={"cache": MI + 1})).startswith("Usage of EmptyDir volume")


def test_a_containers_limit_covers_its_writable_layer_and_logs() -> None:
    """Row 118: containerEphemeralStorageLimitEviction."""
    web = pod({"web": "1Mi", "other": "1Gi"})
    assert message(web, StorageUsage(layers={"web": MI // 2}, logs={"web": MI // 2})) == ""
    said = 'Container web exceeded its local ephemeral storage limit "1Mi". '
    assert message(web, StorageUsage(layers={"web": MI // 2}, logs={"web": MI // 2 + 1})) == said


def test_a_sidecars_limit_is_enforced() -> None:
    web = pod({"web": "1Gi"}, sidecars={"proxy": "1Mi"})
    assert message(web, StorageUsage(layers={"proxy": 2 * MI})).startswith("Container proxy exceeded")


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (pod({"a": "512Mi", "b": "512Mi"}), "1Gi"),
        (pod({"a": "1G", "b": None}), "1G"),
        (pod({"a": "1Gi"}, sidecars={"s": "1Gi"}), "2Gi"),
        (pod({"a": "1Gi"}, init={"i": "3Gi"}), "3Gi"),
        (pod({"a": "1Gi"}, sidecars={"s": "1Gi"}, init={"i": "3Gi"}), "4Gi"),
        (pod({"a": None}, init={"i": "1Gi"}), "1Gi"),
        (pod({"a": "1Gi"}, overhead={"ephemeral-storage": "512Mi"}), "1536Mi"),
        (pod({"a": "0"}), "0"),
    ],
)
def test_the_pods_limit_is_the_sum_of_its_containers_limits(of: Pod, text: str) -> None:
    limit = storage_limits(of).pod
    assert limit is not None
    assert limit.text == text
    said = f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
    assert message(of, StorageUsage(others=limit.bytes)) == ""
    assert message(of, StorageUsage(others=limit.bytes + 1)) == said


def test_the_pods_limit_covers_all_its_disk_usage() -> None:
    """Row 118: podEphemeralStorageLimitEviction."""
    volumes: dict[str, dict[str, Any]] = {
        "scratch": {"emptyDir": {}},
        "settings": {"configMap": {"name": "settings"}},
        "fast": {"emptyDir": {"medium": "Memory"}},
        "keys": {"secret": {"secretName": "keys"}},
        "host": {"hostPath": {"path": "/"}},
    }
    assert storage_limits(pod({"web": "4Ki"}, volumes)).on_disk == ("scratch", "settings")
    usage = StorageUsage(
        volumes={"scratch": 1024, "settings": 1024}, layers={"web": 1024}, logs={"web": 1023}, others=1
    )
    assert message(pod({"web": "4Ki"}, volumes), usage) == ""
    assert message(pod({"web": "4095"}, volumes), usage).startswith("Pod ephemeral local storage usage")


def test_the_volume_limit_is_checked_before_the_pods() -> None:
    web = pod({"web": "1Mi"}, CACHE)
    usage = StorageUsage(volumes={"cache": 2 * MI}, layers={"web": 2 * MI})
    assert message(web, usage).startswith("Usage of EmptyDir volume")
    assert message(web, StorageUsage(layers={"web": 2 * MI})).startswith("Pod ephemeral local storage usage")


@pytest.mark.parametrize("size", [None, "0"])
def test_a_volume_without_a_size_is_not_limited(size: str | None) -> None:
    assert not storage_limits(pod({"web": None}, {"cache": {"emptyDir": {"sizeLimit": size} if size else {}}}))


@pytest.mark.parametrize(
    "spared",
    [
        pod({"web": "1Mi"}, CACHE, priority=2_000_000_000),
        pod({"web": "1Mi"}, CACHE).model_copy(update={"metadata": FROM_A_FILE}),
    ],
    ids=["critical", "static"],
)
def test_a_critical_or_static_pod_is_never_evicted(spared: Pod) -> None:
    """Row 118: critical pods are exempt."""
    assert not storage_limits(spared)


sizes = st.integers(0, 4 * MI)
limits = st.none() | st.integers(0, 4 * MI).map(str)


@given(
    st.dictionaries(st.sampled_from("abc"), limits, min_size=1),
    st.dictionaries(st.sampled_from(["v", "w"]), st.tuples(limits, st.booleans())),
    st.dictionaries(st.sampled_from(["v", "w", "x"]), sizes),
    st.dictionaries(st.sampled_from("abcz"), sizes),
    st.dictionaries(st.sampled_from("abcz"), sizes),
    sizes,
)
def test_more_usage_never_ends_an_excess(
    containers: dict[str, str | None],
    volumes: dict[str, tuple[str | None, bool]],
    used: dict[str, int],
    layers: dict[str, int],
    logs: dict[str, int],
    others: int,
) -> None:
    sources = {
        name: {"emptyDir": {**({"sizeLimit": size} if size else {}), "medium": "Memory" if memory else ""}}
        for name, (size, memory) in volumes.items()
    }
    held = storage_limits(pod(containers, sources))
    usage = StorageUsage(volumes=used, layers=layers, logs=logs, others=others)
    if storage_excess(held, usage) is not None:
        more = {name: size + 1 for name, size in used.items()}
        assert storage_excess(held, StorageUsage(volumes=more, layers=layers, logs=logs, others=others)) is not None
        return
    for name, limit in held.volumes.items():
        assert used.get(name, 0) <= limit.bytes
    for name, limit in held.containers.items():
        assert layers.get(name, 0) + logs.get(name, 0) <= limit.bytes
    if held.pod is not None:
        assert sum(layers.values()) + sum(logs.values()) <= held.pod.bytes
