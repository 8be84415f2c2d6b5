"""`drain` on scripted nodes that are cordoned: pods that it ends, pods that it only lists, and pods that return."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from temporalio.client import Client

from syncpod.messages.node import FILE_SOURCE, KUBERNETES_SOURCE, SOURCE_ANNOTATION
from syncpod.pod.static import HASH_ANNOTATION
from tests.cli.conftest import Command, silent_node
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(loop_scope="session")
async def drained(syncpod: Command, client: Client, node: ScriptedNode) -> AsyncIterator[str]:
    """The name of a cordoned node with four pods: its name with ``-bare``, ``-listed``, ``-static`` and ``-copied``.

    The last has the annotations of a static pod, which somebody has applied as another one.
    """
    name = node.queue.removeprefix("node/")
    pods = [manifest(f"{name}-{kind}", labels={"kind": kind}) for kind in ("bare", "listed", "static", "copied")]
    for pod, source in zip(pods, ("api", "team", FILE_SOURCE, FILE_SOURCE), strict=True):
        pod["metadata"]["annotations"] = {SOURCE_ANNOTATION: source}
    for pod in pods[2:]:
        pod["metadata"]["annotations"][HASH_ANNOTATION] = "29ee1b833e9d5e4ccf5f2430c4087d01"
    pods[2]["metadata"]["uid"] = "29ee1b833e9d5e4ccf5f2430c4087d01"
    made = await syncpod("apply", "-f", "-", "--wait", "--node", name, stdin=as_json(*pods))
    assert made.code == 0, made.err
    async with silent_node(client, name, cordoned=True):
        yield name


async def test_drain_names_pods_of_lists_and_keeps_static_pods(syncpod: Command, drained: str) -> None:
    done = await syncpod("drain", drained, "--force", "--ignore-daemonsets", "--delete-emptydir-data")
    assert (done.code, done.out.splitlines()[0]) == (0, f"node/{drained} already cordoned"), done.err
    assert done.out.splitlines()[-1] == f"node/{drained} drained"
    assert (
        f'Note: pod "{drained}-listed" comes from the list team: it comes back when that list is sent again with it'
        in done.err
    )
    assert f"Static pods stay: default/{drained}-static" in done.err and f'pod "{drained}-bare" is' not in done.err
    assert f'pod "{drained}-copied" comes from' not in done.err
    left = await syncpod(
        "get", "pod", *(f"{drained}-{kind}" for kind in ("bare", "listed", "static", "copied")), "-o", "name"
    )
    assert left.out == f"pod/{drained}-static\n"


@pytest.mark.parametrize(
    "words",
    [
        ("annotate", "pod", "{}", "kubernetes.io/config.source-", "kubernetes.io/config.hash-"),
        ("label", "pod", "{}", "a=b"),
        ("patch", "pod", "{}", "-p", '{{"spec": {{"activeDeadlineSeconds": 5}}}}'),
    ],
    ids=lambda words: words[0],
)
async def test_no_command_changes_a_static_pod(syncpod: Command, drained: str, words: tuple[str, ...]) -> None:
    """So nothing takes its marks, by which a drain spares it."""
    static = f"{drained}-static"
    before = (await syncpod("get", "pod", static, "-o", "json")).out
    refused = await syncpod(*(word.format(static) for word in words))
    why = f"it comes from the manifest directory of node {drained}: change its file there"
    assert (refused.code, refused.out) == (2, ""), refused.err
    assert f"pod {static}: {why}" in refused.err
    copied = await syncpod("apply", "-f", "-", stdin=before.replace("busybox:1", "busybox:9"))
    assert copied.code == 2 and f"pod {static}: {why}" in copied.err
    after = json.loads((await syncpod("get", "pod", static, "-o", "json")).out)
    assert (after["metadata"], after["spec"]) == (json.loads(before)["metadata"], json.loads(before)["spec"])


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(syncpod: Command, drained: str) -> None:
    refused = await syncpod("drain", drained, "--dry-run=client")
    assert (refused.code, refused.out) == (1, f"node/{drained} already cordoned (dry run)\n")
    assert f'unable to drain node "{drained}":\n' in refused.err
    said = await syncpod("drain", drained, "--dry-run", "client", "--force", "--pod-selector", "kind in (bare,static)")
    assert said.out.splitlines()[1:] == [
        f"evicting pod default/{drained}-bare (dry run)",
        f"node/{drained} drained (dry run)",
    ]
    there = await syncpod("get", "pod", f"{drained}-bare", f"{drained}-listed", "-o", "name")
    assert there.out == f"pod/{drained}-bare\npod/{drained}-listed\n"


async def test_pods_of_a_kubernetes_cluster_are_left_to_it(
    syncpod: Command, client: Client, node: ScriptedNode
) -> None:
    """The cluster brings a pod back that ends here; kubectl looks at a pod's controller (metav1.GetControllerOf)."""
    name = node.queue.removeprefix("node/")
    pods = [manifest(f"{name}-{kind}") for kind in ("web", "daemon", "done", "bare")]
    for pod, kind in zip(pods, ("ReplicaSet", "DaemonSet", "Job"), strict=False):
        meta = pod["metadata"]
        meta["uid"] = str(uuid.uuid4())
        meta["annotations"] = {SOURCE_ANNOTATION: KUBERNETES_SOURCE, HASH_ANNOTATION: meta["uid"]}
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "1", "controller": True}
        meta["ownerReferences"] = [{**owner, "kind": "DaemonSet", "controller": False}, owner]
    pods[2]["spec"] |= {"restartPolicy": "Never"}
    made = await syncpod("apply", "-f", "-", "--node", name, stdin=as_json(*pods))
    assert made.code == 0, made.err
    async with silent_node(client, name, cordoned=True):
        refused = await syncpod("drain", name, "--force")
        assert refused.code == 1 and "evicting" not in refused.out
        assert [line.removeprefix("syncpod: ") for line in refused.err.splitlines()[-2:]] == [
            f"cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/{name}-daemon",
            "cannot delete Pods of the Kubernetes cluster, which brings them back "
            f"(use `kubectl drain {name}`): default/{name}-done, default/{name}-web",
        ]
        for kind in ("web", "done"):  # the cluster ends them
            assert (await syncpod("delete", "pod", f"{name}-{kind}")).code == 0
        drained = await syncpod("drain", name, "--force", "--ignore-daemonsets")
    assert drained.code == 0, drained.err
    assert f"pod/{name}-bare evicted" in drained.out
    assert f"ignoring DaemonSet-managed Pods: default/{name}-daemon" in drained.err
    assert "deleting Pods that declare no controller: " + f"default/{name}-bare\n" in drained.err
    left = await syncpod("get", "pod", *(f"{name}-{kind}" for kind in ("daemon", "bare")), "-o", "name")
    assert left.out == f"pod/{name}-daemon\n"


async def test_each_node_is_drained_even_if_another_fails(syncpod: Command, client: Client, drained: str) -> None:
    other = f"n-{fresh_name()}"
    async with silent_node(client, other, cordoned=True):
        both = await syncpod("drain", drained, f"node/{other}")
    assert both.code == 1 and f'unable to drain node "{drained}", which stays cordoned:' in both.err
    assert both.out == f"node/{drained} already cordoned\nnode/{other} already cordoned\nnode/{other} drained\n"
    missing = await syncpod("drain", drained, "nobody", "--force")
    assert (missing.code, missing.out) == (1, ""), "as with kubectl, no node is touched if one does not exist"
    assert 'nodes "nobody" not found' in missing.err
    assert (await syncpod("get", "pod", f"{drained}-bare")).code == 0, "nothing is ended where a node is not there"


async def test_the_drain_command_of_the_page_on_nodes_drains_a_node_with_the_example(
    syncpod: Command, client: Client, node: ScriptedNode
) -> None:
    name = node.queue.removeprefix("node/")
    example = yaml.safe_load((ROOT / "examples/pod.yaml").read_text())
    example["metadata"]["name"] = f"{name}-web"
    applied = await syncpod("apply", "-f", "-", "--node", name, stdin=as_json(example))
    assert applied.code == 0, applied.err
    written = re.search(
        r'^\$ syncpod drain "\$\(hostname\)" (.*?)  +#', (ROOT / "docs/nodes.md").read_text(), re.MULTILINE
    )
    assert written is not None
    async with silent_node(client, name, cordoned=True):
        drained = await syncpod("drain", name, *written[1].split())
    assert (drained.code, drained.out.splitlines()[-1]) == (0, f"node/{name} drained"), drained.err


async def test_no_node_is_cordoned_if_one_does_not_exist(syncpod: Command, client: Client) -> None:
    name = f"n-{fresh_name()}"
    async with silent_node(client, name, cordoned=False):
        done = await syncpod("cordon", name, "nobody")
    assert (done.code, done.out) == (1, "") and 'nodes "nobody" not found' in done.err


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--dry-run", "yes"), "--dry-run: must be none, client or server, not yes"),
        (("--pod-selector", "a b"), "--pod-selector: 'a b' is not a condition on a label"),
        (("--grace-period", "-7"), "--grace-period: must be 0 or more seconds"),
    ],
)
async def test_an_impossible_flag_is_refused_by_name(syncpod: Command, flags: tuple[str, ...], sentence: str) -> None:
    refused = await syncpod("drain", "n1", *flags)
    assert (refused.code, refused.out) == (2, "") and refused.err.startswith(f"syncpod: {sentence}")
