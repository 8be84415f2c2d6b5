"""`kubectl syncpod`: the plugin, and a node's answers about a pod at the kubelet's port."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from syncpod.agent import own_commands
from syncpod.agent.kubelet_port import plugin_answers as module
from syncpod.api.messages import Request
from syncpod.api.statuses import ApiError
from syncpod.cli import kubectl_plugin
from syncpod.cli.failure import Failure
from syncpod.kubernetes.plugin_commands import CommandInvalid, words
from tests.agent.waiting import until
from tests.kubernetes.kubelet_port import Node, Pods, node

_KUBECTL = """#!{python}
import json, sys
open({told!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
if "--raw" not in sys.argv:
    spec = {{"nodeName": "n1"}} if {{"web", "again", "static"}} & set(sys.argv) else {{}}
    metadata = {{"namespace": "shop", "uid": "mirror" if "static" in sys.argv else "new"}}
    if "static" in sys.argv:
        metadata["annotations"] = {{"kubernetes.io/config.mirror": "old", "kubernetes.io/config.hash": "old"}}
    print(json.dumps({{"metadata": metadata, "spec": spec}}))
elif "/nodes/kubelet/" in sys.argv[-1]:
    sys.exit("Error from server (NotFound): the server could not find the requested resource")
else:
    uid = "new" if "/web" in sys.argv[-1] else "old"
    print(json.dumps({{"exitCode": 3, "stdout": "it crashes\\u001b[31m\\n", "stderr": "Note: now\\n", "uid": uid}}))
"""


@pytest_asyncio.fixture
async def n1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node whose command prints its arguments, and waits if the pod is named `slow`."""
    script = (
        f"""echo "$@"; case "$*" in *pod/slow*) echo $$ > {tmp_path / "pid"}; sleep 600;; esac; echo no >&2; exit 4"""
    )
    monkeypatch.setattr(own_commands, "_program", lambda: ("sh", "-c", script, "sh"))
    async with node(tmp_path) as found:
        yield found


async def test_a_node_runs_its_own_command_with_the_pod_as_one_word(n1: Node) -> None:
    answered = await n1.ask("/syncpod/explain/shop/web?at=-f&start=true", pair=n1.master)
    assert answered.code == 200
    assert answered.json == {
        "exitCode": 4,
        "stdout": "explain --namespace=shop --at=-f --start pod/web\n",
        "stderr": "no\n",
        "uid": "",
    }
    n1.pods.pods.append({"metadata": {"namespace": "shop", "name": "web", "uid": "u"}})
    assert (await n1.ask("/syncpod/plan/shop/web", pair=n1.master)).json["uid"] == "u"


async def test_only_commands_that_read_are_run_and_only_with_flags_that_name_no_file(n1: Node) -> None:
    for path in ("delete/shop/web", "plan/shop/web?filename=/etc/shadow", "explain/shop/web?trace-log=/etc/shadow"):
        refused = await n1.ask(f"/syncpod/{path}", pair=n1.master)
        assert refused.code == 400, path
    for command, namespace, pod in (("explain", "shop", "--help"), ("explain", "a b", "web"), ("history", "shop", "")):
        with pytest.raises(CommandInvalid):
            words(command, namespace, pod, {})
    with pytest.raises(CommandInvalid, match="--start: takes no value"):
        words("explain", "shop", "web", {"start": ["/etc/shadow"]})
    with pytest.raises(CommandInvalid, match="printable"):
        words("explain", "shop", "web", {"at": ["\x1b"]})


async def test_who_may_not_read_everything_at_the_node_is_told_nothing(n1: Node) -> None:
    n1.api.users["some"] = {"username": "reader"}
    n1.api.allowed.add(("reader", "get", "metrics"))
    assert (await n1.ask("/syncpod/explain/shop/web", token="some")).code == 403
    assert (await n1.ask("/syncpod/explain/shop/web", pair=n1.master, method="POST")).code == 405


async def test_a_few_commands_run_at_a_time_and_one_that_is_not_waited_for_is_killed(
    n1: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    commands, asked = module.PodCommands(os.environ, cast("Any", Pods())), Request("GET", "/")
    asking = asyncio.create_task(commands.answer(asked, "explain", "shop", "slow"))
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    with pytest.raises(ApiError) as refused:
        await commands.answer(asked, "explain", "shop", "web")
    assert refused.value.code == 429
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    process = Path("/proc", pid.read_text().strip())
    await until(lambda: not process.exists())
    assert (await commands.answer(asked, "explain", "shop", "web")).code == 200


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that records its arguments."""
    kubectl, found = tmp_path / "kubectl", tmp_path / "told"
    kubectl.write_text(_KUBECTL.format(python=sys.executable, told=str(found)))
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return found


def calls(told: Path) -> list[list[str]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


def test_the_plugin_asks_the_pods_node_by_way_of_the_cluster(told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["explain", "-nshop", "pod/web", "--context", "east", "--start", "--at=14:02", "-c", "main"]
    assert kubectl_plugin.run(line) == 3
    out, err = capsys.readouterr()
    assert (out, err) == ("it crashes\\x1b[31m\n", "Note: now\n")
    place, ask = calls(told)
    assert place == ["--context=east", "get", "pod", "--namespace=shop", "--output=json", "--", "web"]
    path = "/api/v1/nodes/n1/proxy/syncpod/explain/shop/web?start=true&at=14%3A02&container=main"
    assert ask == ["--context=east", "get", "--raw", path]


def test_an_answer_about_an_earlier_pod_of_the_name_is_marked(told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl_plugin.run(["explain", "again"])
    assert capsys.readouterr().err == (
        "Note: this is about an earlier pod again (uid old); the cluster's (uid new) begins once that one has ended\n"
        "Note: now\n"
    )
    kubectl_plugin.run(["explain", "static"])  # the node has the static pod, and the cluster its mirror
    assert capsys.readouterr().err == "Note: now\n"


def test_the_plugin_asks_a_named_node_for_a_pod_that_is_gone(told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_plugin.run(["history", "web", "--node", "n2", "--no-headers"]) == 3
    assert calls(told) == [["get", "--raw", "/api/v1/nodes/n2/proxy/syncpod/history/default/web?no-headers=true"]]
    with pytest.raises(Failure, match="node kubelet is no node of syncpod"):
        kubectl_plugin.run(["plan", "web", "--node=kubelet"])


def test_what_the_plugin_does_not_take_is_named(told: Path) -> None:
    for line, why in (
        (["delete", "web"], "delete: must be one of explain, history, plan"),
        (["plan", "web", "-f", "x"], "-f: no flag of `kubectl syncpod plan`"),
        (["plan"], "name one pod"),
        (["plan", "web", "--node"], "--node: needs a value"),
        (["plan", "waiting"], "pod waiting has no node yet"),
    ):
        with pytest.raises(Failure, match=why):
            kubectl_plugin.run(line)
