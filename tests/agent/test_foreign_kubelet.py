from __future__ import annotations

from syncpod.agent.takeover.preconditions import foreign_pods, foreign_refusal
from syncpod.cri.port import SandboxSummary
from syncpod.translation import names


def sandbox(name: str, **labels: str) -> SandboxSummary:
    return SandboxSummary(
        id=name,
        attempt=0,
        uid="",
        name=name,
        namespace="kube-system",
        state="SANDBOX_READY",
        created_at=None,
        labels={key.replace("_", "."): value for key, value in labels.items()},
        annotations={},
        runtime_handler="",
    )


KUBELETS = {names.POD_UID_LABEL: "u"}
OURS = {names.POD_UID_LABEL: "u", names.NODE_LABEL: "another-node-of-ours"}


def test_only_sandboxes_with_a_kubelets_labels_and_without_ours_count_as_a_kubelets() -> None:
    sandboxes = (
        sandbox("proxy", **KUBELETS),
        sandbox("dns", **KUBELETS),
        sandbox("dns", **KUBELETS),
        sandbox("web", **OURS),
        sandbox("made-with-crictl"),
    )
    assert foreign_pods(sandboxes) == ("kube-system/dns", "kube-system/proxy")


def test_the_refusal_names_a_few_pods_and_the_overriding_flag() -> None:
    text = foreign_refusal(("a/1", "a/2", "a/3", "a/4", "a/5"), "unix:///run/containerd/containerd.sock")
    assert "unix:///run/containerd/containerd.sock has pods of a kubelet (a/1, a/2, a/3 and 2 more)" in text
    assert "SYNCPOD_ALLOW_FOREIGN_KUBELET=true" in text
