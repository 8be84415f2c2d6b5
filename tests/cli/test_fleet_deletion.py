"""`fleet delete` deletes the named pods, waits for their end, and says what it waits for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli import deletion
from syncpod.cli.commands.delete import DeleteOptions, fleet_delete
from syncpod.cli.commands.drain import CordonOptions, fleet_cordon, fleet_uncordon
from syncpod.cli.commands.explain import ExplainOptions, fleet_explain
from syncpod.cli.deletion import Going
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.deletion_request import Thing
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import OBJECTS, POD_WORDS, WORKLOADS
from syncpod.cli.listing import Form, FoundObjects
from syncpod.cli.temporal import fleet, fleet_deletion, fleet_lists, fleet_objects, fleet_pod_changes, fleet_workloads
from syncpod.cli.temporal.fleet_deletion import FleetThings
from syncpod.cli.temporal.fleet_pod_changes import PodDeletionResult
from syncpod.cli.view.rows import Row
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport
from syncpod.messages.workload import WorkloadPod, WorkloadView

CLIENT = cast(Client, None)
PODS = tuple(WorkloadPod(name=f"web-{number}", node=f"n{number}", status="Running") for number in range(1, 6))


def shown(monkeypatch: pytest.MonkeyPatch, *views: WorkloadView | FleetNodeView | Exception | None) -> None:
    """Let each query return the next of these, or raise it."""
    coming = iter(views)

    async def look(*_: Any) -> Any:
        found = next(coming)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(fleet_workloads, "view", look)
    monkeypatch.setattr(fleet, "view", look)
    monkeypatch.setattr(fleet_deletion, "_LOOK_SECONDS", 0)


THINGS = FleetThings(CLIENT)
WEB = Thing("Deployment", "default", "web")


def waits(*whys: str, thing: Thing = WEB, where: str = "") -> Going:
    """A deletion that waits for these things, one after another; a final "" stands for its end."""
    coming = iter(whys)

    async def left(_: Thing) -> str:
        return next(coming)

    return THINGS.going(thing, left, where=where)


async def test_a_deployment_is_waited_for_and_each_look_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away = PODS[0].model_copy(update={"status": "Unknown"})
    shown(
        monkeypatch,
        WorkloadView(deleting=True, pods=PODS),
        WorkloadView(deleting=True, pods=(away,)),
        WorkloadView(deleting=True, missed=("n8", "n9")),
        WorkloadView(deleting=True),
        None,
    )
    assert [await THINGS.workload_left(WEB) for _ in range(5)] == [
        "5 pods are left: web-1 on n1, web-2 on n2, web-3 on n3 and 2 more",
        "1 pod is left: web-1 on n1, which cannot be reached",
        "no answer yet from n8, n9, which may have its pods (a node that is gone: `fleet remove --force`)",
        "its workflow is ending",
        "",
    ]


async def test_what_a_deletion_waits_for_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deletion, "NOTE_SECONDS", 0)
    monkeypatch.setattr(fleet_deletion, "_LOOK_SECONDS", 0)
    said = asyncio.Event()
    why = "it is busy"

    async def left(_: Thing) -> str:
        return why

    def remark(text: str) -> None:
        capsys.readouterr()
        lines.append(text)
        said.set()

    lines: list[str] = []
    monkeypatch.setattr(deletion, "remark", remark)
    waiting = asyncio.create_task(deletion.until_gone(THINGS, [THINGS.going(WEB, left)], None))
    for reason in ("it is busy", "it is nearly gone"):
        why = reason
        async with asyncio.timeout(60):
            await said.wait()
        said.clear()
    why = ""
    await waiting
    assert lines == [
        'deployment.apps "web" is being deleted: it is busy',
        'deployment.apps "web" is being deleted: it is nearly gone',
    ]


async def test_one_that_is_applied_anew_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(monkeypatch, WorkloadView(deleting=False, pods=PODS))
    await deletion.until_gone(THINGS, [THINGS.going(WEB, THINGS.workload_left)], None)


ENDING = PlacedPod(name="web", state="ending", report=PodReport(name="web", status="Terminating"))


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (FleetNodeView(placed=(ENDING,)), "the node is ending it; it is Terminating"),
        (FleetNodeView(placed=(ENDING.model_copy(update={"report": None}),)), "the node is ending it"),
        (
            FleetNodeView(presence="Unknown", placed=(ENDING,)),
            "the node cannot be reached, and ends it when it is back",
        ),
        (FleetNodeView(placed=(ENDING.model_copy(update={"state": "taken"}),)), ""),
        (FleetNodeView(placed=(ENDING.model_copy(update={"namespace": "other"}),)), ""),
        (fleet.NoNode("it was removed"), ""),
    ],
)
async def test_what_a_pod_on_a_node_waits_for(
    view: FleetNodeView | Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(monkeypatch, view)
    assert await THINGS.pod_left("n1")(Thing("Pod", "default", "web")) == why


async def test_a_timeout_says_what_is_left_and_that_the_deletion_goes_on() -> None:
    gone = waits("", thing=Thing("Pod", "default", "a"), where="n1")
    busy = waits(*["it is busy"] * 9, thing=Thing("Pod", "default", "b"), where="n2")
    with pytest.raises(Failure) as failed:
        await deletion.until_gone(THINGS, [gone, busy], timedelta(0))
    assert str(failed.value) == (
        'timed out waiting for pod "b" on n2 to end; the deletion continues\npod "b" on n2: it is busy'
    )
    busy.said = "it is busy"
    with pytest.raises(Failure) as failed:
        await deletion.until_gone(THINGS, [busy], timedelta(0))
    assert str(failed.value) == 'timed out waiting for pod "b" on n2 to end; the deletion continues'


async def test_a_pod_and_its_workflow_are_waited_for_as_one() -> None:
    def left(*whys: str) -> Callable[[Thing], Coroutine[Any, Any, str]]:
        coming = iter(whys)

        async def next_of(_: Thing) -> str:
            return next(coming)

        return next_of

    both = THINGS.going(Thing("Pod", "default", "a"), left("it ends", "", ""), left("it is busy", ""), where="n1")
    assert (str(both), await both.why(), await both.why()) == ('pod "a" on n1', "it ends", "it is busy")
    assert await both.why() == ""


KINDS = {**WORKLOADS, **OBJECTS, **dict.fromkeys(POD_WORDS, "Pod")}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("web", {"Pod": ["web"]}),
        ("pod", {"Pod": []}),
        ("a b a", {"Pod": ["a", "b"]}),
        ("Deployment web", {"Deployment": ["web"]}),
        ("deployment.apps/web", {"Deployment": ["web"]}),
        ("pods,cm,deploy", {"Pod": [], "ConfigMap": [], "Deployment": []}),
        ("pod,cm a b", {"Pod": ["a", "b"], "ConfigMap": ["a", "b"]}),
        ("pods,web", "KIND: must be those, not web"),
        ("pods,", "KIND: must be those, not ''"),
        ("daemonsets.apps a b", {"DaemonSet": ["a", "b"]}),
        ("deployment/a pod/b deploy/c", {"Deployment": ["a", "c"], "Pod": ["b"]}),
        ("secret/keys deployment/web", {"Secret": ["keys"], "Deployment": ["web"]}),
        ("deployment/a pod b", "'pod': must be KIND/NAME, such as deployment/web"),
        ("pod a/b", "'pod': must be KIND/NAME, such as deployment/web"),
        ("pod/a/b", "'pod/a/b': must be KIND/NAME, such as deployment/web"),
        ("pod/a statefulset/x", "'statefulset/x': its kind must be those"),
        ("/x", "'/x': its kind must be those"),
        ("node n1", "KIND: must be those, not node"),
        ("statefulset.apps x", "KIND: must be those, not statefulset.apps"),
        ("deployment/", "NAME: must not be empty"),
    ],
)
def test_only_what_is_named_is_deleted(words: str, named: dict[str, list[str]] | str) -> None:
    if isinstance(named, dict):
        assert fleet_names(words.split(), KINDS, "those", bare="Pod") == named
        return
    with pytest.raises(BadInput) as refused:
        fleet_names(words.split(), KINDS, "those", bare="Pod")
    assert str(refused.value) == named


def test_a_command_that_needs_a_kind_takes_no_bare_names() -> None:
    with pytest.raises(BadInput, match="KIND: must be those, not web"):
        fleet_names(["web"], KINDS, "those")


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what commands delete, in a fleet whose node n1 has the pod web."""
    node = FleetNodeView(name="n1", placed=(PlacedPod(name="web"),))
    named: list[str] = []

    def run(work: Callable[[Client], Coroutine[Any, Any, Any]], **_: Any) -> Any:
        return asyncio.run(work(CLIENT))

    async def views(*_: Any) -> list[FleetNodeView]:
        return [node]

    async def no_workload(*_: Any) -> None:
        return None

    async def delete_pod(_client: Client, namespace: str, name: str, **_: Any) -> PodDeletionResult:
        named.append(f"pod/{name} of {namespace}")
        return PodDeletionResult(is_placed=False, nodes=[node], owners=[])

    async def delete_other(_client: Client, kind: str, namespace: str, name: str) -> bool:
        named.append(f"{kind}/{name} of {namespace}")
        return name != "gone"

    monkeypatch.setattr(fleet, "run", run)
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_workloads, "view", no_workload)
    monkeypatch.setattr(fleet_pod_changes, "delete", delete_pod)
    monkeypatch.setattr(fleet_workloads, "delete", delete_other)
    monkeypatch.setattr(fleet_objects, "delete", delete_other)
    return named


def test_each_that_is_there_is_deleted_and_said(deleted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure, match=r'^deployments.apps "gone" not found in the fleet$'):
        fleet_delete(DeleteOptions(["deployment/gone", "pod/web", "secret/keys"], wait=False))
    assert capsys.readouterr().out.splitlines() == [
        'pod "web" deleted from default namespace on node/n1',
        'secret "keys" deleted from default namespace',
    ]
    fleet_delete(DeleteOptions(["pod", "web"], wait=False, force=True))
    assert capsys.readouterr().out == 'pod "web" force deleted from default namespace on node/n1\n'


def test_a_dry_run_deletes_nothing(deleted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure, match=r'^pods "other" not found in the fleet$'):
        fleet_delete(DeleteOptions(["pod", "web", "other"], dry_run="client"))
    assert capsys.readouterr().out == 'pod "web" deleted (dry run) from default namespace\n'
    assert deleted == []


def test_what_labels_and_fields_select_is_deleted(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def find(_client: Client, kind: str, names: Any, form: Form) -> FoundObjects:
        asked.append(f"{kind} of {form.namespace}")
        rows = [
            Row((name,), {"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}}) for name in "ab"
        ]
        return FoundObjects(kind.lower(), (), form.chosen(rows))

    asked: list[str] = []
    monkeypatch.setattr(fleet_lists, "find", find)
    fleet_delete(DeleteOptions(["deployments"], selector="app=b", wait=False))
    fleet_delete(DeleteOptions(["secrets"], everything=True, all_namespaces=True, wait=False))
    assert deleted == ["Deployment/b of default", "Secret/a of default", "Secret/b of default"]
    fleet_delete(DeleteOptions(selector="app=other", wait=False))
    assert asked == ["Deployment of default", "Secret of None", "Pod of default"]
    assert capsys.readouterr().err == "No resources found\n"
    with pytest.raises(BadInput, match="--selector: not for a Secret: its labels are sealed"):
        fleet_delete(DeleteOptions(["secrets"], selector="app=b"))
    with pytest.raises(BadInput, match="--field-selector: only pods are deleted by their fields"):
        fleet_delete(DeleteOptions(["deployments"], field_selector="metadata.name=b"))
    with pytest.raises(BadInput, match="--all: say of which kind: `syncpod fleet delete pods --all`, or deployments"):
        fleet_delete(DeleteOptions(everything=True))


def test_pods_that_their_workloads_are_yet_to_place_are_not_selected(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def find(_client: Client, _kind: str, _names: Any, form: Form) -> FoundObjects:
        names = ("web", "web-2")
        return FoundObjects(
            "pod", (), [Row((each,), {"metadata": {"name": each, "namespace": "default"}}) for each in names]
        )

    monkeypatch.setattr(fleet_lists, "find", find)
    fleet_delete(DeleteOptions(["pods"], everything=True, wait=False))
    assert deleted == ["pod/web of default"]
    assert capsys.readouterr().err == "Note: pods that no node has yet are left to their workloads: web-2\n"


def test_only_pods_of_the_named_node_are_selected(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = {
        "n1": FleetNodeView(name="n1", placed=(PlacedPod(name="web"),)),
        "n2": FleetNodeView(name="n2", placed=(PlacedPod(name="api"),)),
        "n3": FleetNodeView(name="n3"),
    }

    async def view(_client: Client, name: str) -> FleetNodeView:
        if name not in nodes:
            raise fleet.NoNode(f'nodes "{name}" not found in the fleet')
        return nodes[name]

    async def views(_client: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [nodes[name] for name in names or nodes]

    async def find(_client: Client, _kind: str, _names: Any, form: Form) -> FoundObjects:
        rows = [
            Row((each.name,), {"metadata": {"name": each.name, "namespace": "default"}}, place=node.name)
            for node in nodes.values()
            for each in node.placed
        ]
        return FoundObjects("pod", (), rows)

    monkeypatch.setattr(fleet, "view", view)
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_lists, "find", find)
    fleet_delete(DeleteOptions(["pods"], everything=True, node="n2", dry_run="client"))
    assert capsys.readouterr().out == 'pod "api" deleted (dry run) from default namespace\n'
    with pytest.raises(Failure, match=r'^pods "web" not found in the fleet$'):
        fleet_delete(DeleteOptions(["pod", "web"], node="n2", dry_run="client"))
    fleet_delete(DeleteOptions(["pods"], everything=True, node="n3"))
    assert capsys.readouterr() == ("", "No resources found\n")
    with pytest.raises(Failure, match=r'^nodes "n9" not found in the fleet$'):
        fleet_delete(DeleteOptions(["pods"], everything=True, node="n9"))
    fleet_delete(DeleteOptions(["pods"], everything=True, node="n2", wait=False))
    assert deleted == ["pod/api of default"]


def test_a_misspelt_kind_deletes_no_pod_of_the_name_behind_it(deleted: list[str]) -> None:
    with pytest.raises(Failure) as refused:
        fleet_delete(DeleteOptions(["deploymet", "web"], wait=False))
    assert deleted == []
    assert str(refused.value) == (
        'pods "deploymet" not found in the fleet\n'
        "nothing was deleted: a kind before names is one of deployment, daemonset, pod, configmap or secret"
    )
    fleet_delete(DeleteOptions(["web"], wait=False))
    assert deleted == ["pod/web of default"]


def test_what_manifests_name_is_deleted_even_if_it_could_not_be_applied(deleted: list[str], tmp_path: Path) -> None:
    documents = [
        {"kind": "ConfigMap", "metadata": {"name": "settings"}},
        {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "web"}, "spec": {"nonsense": 1}}]},
        {"kind": "Deployment", "metadata": {"name": "gone", "namespace": "other"}},
    ]
    path = tmp_path / "app.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    with pytest.raises(Failure, match=r'^deployments.apps "gone" not found in the fleet$'):
        fleet_delete(DeleteOptions(filename=[str(path)], wait=False))
    assert deleted == ["ConfigMap/settings of default", "pod/web of default", "Deployment/gone of other"]
    fleet_delete(DeleteOptions(filename=[str(path)], wait=False, ignore_not_found=True))


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        (
            {"kind": "Job", "metadata": {"name": "a"}},
            "kind: must be Pod, Deployment, DaemonSet, ConfigMap, Secret or List",
        ),
        ({"kind": "Pod", "metadata": {}}, "metadata.name: required"),
        ({"kind": "Pod"}, "metadata.name: required"),
        (
            {"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}},
            "metadata.namespace: is b, but --namespace asks",
        ),
    ],
)
def test_nothing_is_deleted_if_a_document_names_nothing(
    deleted: list[str], tmp_path: Path, document: dict[str, Any], wrong: str
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(f"{json.dumps({'kind': 'Pod', 'metadata': {'name': 'web'}})}\n---\n{json.dumps(document)}")
    with pytest.raises(BadInput, match=wrong):
        fleet_delete(DeleteOptions(filename=[str(path)], namespace="a", wait=False))
    assert deleted == []


@pytest.mark.parametrize(("what", "filename"), [(None, None), (["web"], ["app.yaml"])])
def test_one_way_to_say_what_to_delete(what: list[str] | None, filename: list[str] | None) -> None:
    with pytest.raises(BadInput, match="say what to delete, in one of these ways: NAME"):
        fleet_delete(DeleteOptions(what, filename))


@pytest.mark.parametrize("word", ["nod/n1", "pod/n1"])
def test_only_nodes_are_cordoned(word: str) -> None:
    with pytest.raises(BadInput, match=f"'{word}': only nodes can be named here, as NAME or node/NAME"):
        fleet_cordon(CordonOptions([word]))


def test_a_node_that_is_cordoned_is_said_to_be(
    deleted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def views(_client: Client, names: list[str]) -> list[FleetNodeView]:
        return [FleetNodeView(name=name, cordons=("fleet",) if name == "n1" else ()) for name in names]

    async def update(_client: Client, name: str, change: str) -> None:
        asked.append(f"{change} {name}")

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "update", update)
    fleet_cordon(CordonOptions(["n1", "node/n2"]))
    fleet_uncordon(CordonOptions(["node", "n1", "n2"]))
    assert capsys.readouterr().out.splitlines() == [
        "node/n1 already cordoned",
        "node/n2 cordoned",
        "node/n1 uncordoned",
        "node/n2 already uncordoned",
    ]
    assert asked == ["cordon n1", "cordon n2", "uncordon n1", "uncordon n2"]


@pytest.mark.parametrize("placement", [False, True])
def test_explain_asks_for_what_is_to_be_explained(placement: bool) -> None:
    with pytest.raises(BadInput, match="NAME: name one pod, `web`, or a workload, `deployment/web`"):
        fleet_explain(ExplainOptions(None, placement=placement))
