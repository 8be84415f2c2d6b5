"""The labels of a node: those of the kubelet, and those that the owner adds."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from syncpod.kernel.machine import architecture
from syncpod.node.labels import NodeLabelsInvalid, node_labels, parse_node_labels


def test_a_node_has_the_labels_that_a_kubelet_sets() -> None:
    assert node_labels("n1", {}) == {
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
    }


@pytest.mark.parametrize(("machine", "label"), [("x86_64", "amd64"), ("armv7l", "arm"), ("riscv64", "riscv64")])
def test_the_architecture_has_the_name_that_a_kubelet_gives_it(
    machine: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine, sysname="Linux"))
    assert node_labels("n1", {})["kubernetes.io/arch"] == label


def test_configured_labels_override_the_defaults() -> None:
    added = parse_node_labels(
        " disk=ssd, example.com/rack=7,gpu=,topology.kubernetes.io/zone=a,kubernetes.io/hostname=x"
    )
    assert node_labels("n1", added) == {
        "kubernetes.io/hostname": "x",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "disk": "ssd",
        "example.com/rack": "7",
        "gpu": "",
        "topology.kubernetes.io/zone": "a",
    }
    assert parse_node_labels("") == {}
    assert parse_node_labels("a.node.kubernetes.io/x=1,kubelet.kubernetes.io/y=2") != {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disk", "node label 'disk': must be key=value"),
        ("=ssd", "node label '=ssd': "),
        ("disk=not ok", "node label 'disk=not ok': "),
        ("a=1,a=2", "node label 'a=2': is named twice"),
        ("kubernetes.io/role=master", "must have no prefix of kubernetes.io or k8s.io"),
        ("node-role.kubernetes.io/control-plane=", "must have no prefix of kubernetes.io or k8s.io"),
        ("x.k8s.io/y=1", "must have no prefix of kubernetes.io or k8s.io"),
    ],
)
def test_invalid_node_labels_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(NodeLabelsInvalid) as refused:
        parse_node_labels(text)
    assert said in str(refused.value)
