"""The changes of an update in words, without values of labels and annotations."""

from typing import Any

from syncpod.pod import admit_pod, pod_changes


def pod(image: str = "a:1", memory: str = "64Mi", **metadata: Any) -> Any:
    container = {"name": "app", "image": image, "resources": {"limits": {"memory": memory}}}
    meta = {"name": "web", **metadata}
    return admit_pod({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})


def test_each_change_is_named() -> None:
    assert pod_changes(pod(), pod()) == []
    assert pod_changes(pod(), pod("a:2", "128Mi", labels={"tier": "front"}, annotations={"note": "secret"})) == [
        "image of app a:1 -> a:2",
        "memory limit of app 64Mi -> 128Mi",
        "memory request of app 64Mi -> 128Mi",
        "labels tier",
        "annotations note",
    ]
