"""A Node's status about its runtime, as in the kubelet."""

from __future__ import annotations

from syncpod.kubernetes.node_runtime import Handler, Image, of_runtime


def test_the_fifty_largest_images_are_told_with_five_names_each() -> None:
    images = [Image((f"i{number}@sha256:a",), (f"i{number}:1",), number) for number in range(60)]
    images.append(Image(("d1", "d2", "d3"), ("t1", "t2", "t3"), 1000))
    told = of_runtime(images, [], groups_policy=False)["images"]
    assert len(told) == 50
    assert told[0] == {"names": ["d1", "d2", "d3", "t1", "t2"], "sizeBytes": 1000}
    assert told[1] == {"names": ["i59@sha256:a", "i59:1"], "sizeBytes": 59}
    assert told[-1]["sizeBytes"] == 11


def test_handlers_and_features_are_told_as_the_runtime_has_them() -> None:
    told = of_runtime([], [Handler("", True, False)], groups_policy=True)
    assert told["features"] == {"supplementalGroupsPolicy": True}
    features = {"recursiveReadOnlyMounts": True, "userNamespaces": False}
    assert told["runtimeHandlers"] == [{"name": "", "features": features}]
    assert of_runtime([], [], groups_policy=False)["features"] is None  # containerd 1.6 announces nothing
    assert told["declaredFeatures"] == sorted(told["declaredFeatures"])
