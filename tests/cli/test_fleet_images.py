"""``fleet apply`` warns of images that embedded nodes do not have, since they cannot pull."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_images import image_warnings
from syncpod.fleet.workloads import Workload, admit_workload
from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView
from syncpod.messages.node import NodeInfo

NGINX = "docker.io/library/nginx:1.27"


def node(
    name: str, images: tuple[str, ...] | None = (), runtime: str = "syncpod-embedded", **more: Any
) -> FleetNodeView:
    info = NodeInfo(container_runtime_version=f"{runtime}://1.0")
    return FleetNodeView(name=name, presence="Ready", node_info=info, images=images, **more)


def deployment(image: str, **spec: Any) -> Workload:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    return admit_workload(document)[0]


def pod(image: str, node: str) -> Workload:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": image}]}
    return admit_workload({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec})[0]


@pytest.mark.parametrize(
    ("nodes", "workload", "lacking"),
    [
        ([node("n1"), node("n2")], deployment("nginx:1.27"), "n1 and n2"),
        ([node("n1", (NGINX,)), node("n2")], deployment("nginx:1.27"), "n2"),
        ([node("n1", (NGINX,))], deployment("nginx:1.27"), ""),
        ([node("n1", (NGINX,))], deployment("nginx"), "n1"),
        ([node("n1")], deployment("busybox:1"), ""),
        ([node("n1", None)], deployment("nginx:1.27"), ""),
        ([node("n1", None, "containerd")], deployment("nginx:1.27"), ""),
        ([node("n1"), node("n2", labels={"disk": "ssd"})], deployment("nginx", nodeSelector={"disk": "ssd"}), "n2"),
        ([node("n1"), node("n2")], pod("nginx", "n1"), "n1"),
        ([node(f"n{number}") for number in range(1, 7)], deployment("nginx"), "n1, n2, n3 and 3 other nodes"),
        ([node("silent"), node("n1")], deployment("nginx"), "n1"),
        (
            [node("n1")],
            deployment("busybox:1", initContainers=[{"name": "before", "image": "team/app:2"}]),
            "n1",
        ),
    ],
    ids=[
        *("nowhere", "on one", "everywhere", "another tag", "a stand-in", "not said", "pulled", "by label", "by name"),
        *("many", "one is silent", "an init container's"),
    ],
)
async def test_a_warning_names_the_nodes_that_cannot_have_an_image(
    nodes: Sequence[FleetNodeView], workload: Workload, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def summaries(_: Client) -> list[FleetNodeSummary]:
        return list(nodes)

    async def view(_: Client, name: str) -> FleetNodeView:
        if name == "silent":
            raise Failure("it does not answer")
        return next(each for each in nodes if each.name == name)

    monkeypatch.setattr(fleet, "summaries", summaries)
    monkeypatch.setattr(fleet, "view", view)
    warnings = await image_warnings(cast(Client, None), [workload])
    assert [each.partition(" cannot pull it: ")[0].rpartition(": ")[2] for each in warnings] == (
        [lacking] if lacking else []
    )
