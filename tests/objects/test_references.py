"""What a pod refers to, and where it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syncpod.objects import ObjectRef, Reference, references, resolve
from syncpod.pod import Pod
from tests.objects.objects import config_map, ref, secret, store_in


def pod(namespace: str = "prod", **spec: Any) -> Pod:
    return Pod.model_validate({"metadata": {"name": "web", "namespace": namespace}, "spec": spec}, extra="forbid")


WHOLE = pod(
    imagePullSecrets=[{"name": "registry"}, {"name": ""}],
    volumes=[
        {"name": "v1", "configMap": {"name": "c1", "optional": True}},
        {"name": "v2", "secret": {"secretName": "s1", "items": [{"key": "k", "path": "p"}]}},
        {"name": "v3", "emptyDir": {}},
        {
            "name": "v4",
            "projected": {
                "sources": [
                    {"downwardAPI": {"items": []}},
                    {"configMap": {"name": "c2"}},
                    {"secret": {"name": "s2", "optional": True}},
                ]
            },
        },
    ],
    initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "s3", "optional": False}}]}],
    containers=[
        {
            "name": "c",
            "envFrom": [{"prefix": "X_", "configMapRef": {"name": "c3", "optional": True}}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k1"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k2", "optional": True}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }
    ],
    ephemeralContainers=[{"name": "e", "envFrom": [{"configMapRef": {"name": "c4"}}]}],
)


def test_every_reference_to_an_object_is_found_in_manifest_order() -> None:
    def at(kind: str, name: str, path: str, use: Any, *, optional: bool = False, key: str | None = None) -> Reference:
        return Reference(ref(kind, name, "prod"), optional, key, f"spec.{path}", use)

    assert references(WHOLE) == (
        at("Secret", "registry", "imagePullSecrets[0]", "pull", optional=True),
        at("ConfigMap", "c1", "volumes[0].configMap", "volume", optional=True),
        at("Secret", "s1", "volumes[1].secret", "volume"),
        at("ConfigMap", "c2", "volumes[3].projected.sources[1].configMap", "volume"),
        at("Secret", "s2", "volumes[3].projected.sources[2].secret", "volume", optional=True),
        at("Secret", "s3", "initContainers[0].envFrom[0].secretRef", "env"),
        at("ConfigMap", "c3", "containers[0].envFrom[0].configMapRef", "env", optional=True),
        at("ConfigMap", "c1", "containers[0].env[1].valueFrom.configMapKeyRef", "env", key="k1"),
        at("Secret", "s1", "containers[0].env[2].valueFrom.secretKeyRef", "env", optional=True, key="k2"),
        at("ConfigMap", "c4", "ephemeralContainers[0].envFrom[0].configMapRef", "env"),
    )


def test_a_pod_that_names_nothing_refers_to_nothing() -> None:
    assert references(pod(containers=[{"name": "c"}])) == ()


def test_a_pod_without_a_namespace_refers_to_the_default_one() -> None:
    [found] = references(pod("", imagePullSecrets=[{"name": "x"}]))
    assert found.ref == ObjectRef("Secret", "default", "x")


def test_existing_references_are_resolved_and_missing_ones_left_out(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put(config_map("c1", "prod", data={"k1": "v"}))
    store.put(config_map("c2", "default", data={"another": "namespace"}))
    store.put(secret("s1", "prod", stringData={"k2": "w"}))
    store.put(secret("unused", "prod"))
    assert resolve(store, WHOLE) == {
        ref("ConfigMap", "c1", "prod"): {"k1": b"v"},
        ref("Secret", "s1", "prod"): {"k2": b"w"},
    }


def test_references_are_printed_as_by_the_kubelet_and_can_be_sorted() -> None:
    assert [str(ref()), str(ref("Secret", "b"))] == ['configmap "a"', 'secret "b"']
    assert sorted([ref("Secret", "a"), ref(name="b"), ref(name="a")]) == [ref(name="a"), ref(name="b"), ref("Secret")]
