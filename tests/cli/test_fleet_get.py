"""``syncpod fleet get`` of several kinds at once, as with kubectl."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.actions import fleet_describe
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import NODES, PODS
from syncpod.cli.main import run
from syncpod.cli.temporal import fleet, fleet_lists, fleet_objects, fleet_workloads
from syncpod.fleet.revisions import Revision
from syncpod.fleet.workloads import admit_workload
from syncpod.messages.fleet import OWNER_ANNOTATION, FleetNodeSummary, FleetNodeView, Intent, PlacedPod, PodReport
from syncpod.messages.fleet_objects import FleetObjectView
from syncpod.messages.workload import WorkloadPod, WorkloadView
from syncpod.pod.wire import to_wire

NOW = datetime.now(UTC)
WORKLOADS = {"Deployment": ["web"], "DaemonSet": ["logs"]}


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet of one node with a pod, a Deployment, a DaemonSet and a ConfigMap."""

    def connected(work: Callable[[Client], Coroutine[Any, Any, Any]], *, state_dir: str = "") -> Any:
        return asyncio.run(work(cast(Client, None)))

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return [FleetNodeView(name="n1", placed=(PlacedPod(name="web-1", owner="workload/Deployment/default/web"),))]

    async def nodes(_: Client) -> list[FleetNodeSummary]:
        return [FleetNodeSummary(name="n1", labels={"zone": "z1"})]

    async def summaries(_: Client, kind: str, namespace: str | None) -> list[WorkloadView]:
        return [WorkloadView(kind=kind, namespace="default", name=name, since=NOW) for name in WORKLOADS[kind]]

    async def intent(_: Client, name: str) -> Intent:
        meta = {"name": "web-1", "labels": {"app": "web"}, "annotations": {OWNER_ANNOTATION: "workload/…", "a": "b"}}
        pods = ({"metadata": meta, "spec": {"hostNetwork": True}},)
        return Intent(fleet="f", generation=1, pods=pods)

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        document = {"metadata": {"name": name, "labels": {"of": name}}}
        return (
            WorkloadView(kind=kind, name=name, since=NOW, document=document)
            if name in WORKLOADS.get(kind, ())
            else None
        )

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return []

    async def objects(_: Client, kind: str, namespace: str | None) -> list[FleetObjectView]:
        return [FleetObjectView(kind=kind, name="settings", created=NOW)] if kind == "ConfigMap" else []

    monkeypatch.setattr(fleet, "run", connected)
    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "summaries", nodes)
    monkeypatch.setattr(fleet, "intent", intent)
    monkeypatch.setattr(fleet_workloads, "summaries", summaries)
    monkeypatch.setattr(fleet_workloads, "view", view)
    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    monkeypatch.setattr(fleet_objects, "views", objects)


@pytest.mark.parametrize(
    ("words", "first_words"),
    [
        ("all", ["NAME", "pod/web-1", "", "NAME", "daemonset.apps/logs", "", "NAME", "deployment.apps/web"]),
        ("deployments,daemonsets", ["NAME", "deployment.apps/web", "", "NAME", "daemonset.apps/logs"]),
        ("ds,deploy --no-headers", ["daemonset.apps/logs", "", "deployment.apps/web"]),
        ("deploy,cm,secrets", ["NAME", "deployment.apps/web", "", "NAME", "configmap/settings"]),
        ("no,po -o name", ["node/n1", "pod/web-1"]),
        ("pod/web-1 deploy/web -o name", ["pod/web-1", "deployment.apps/web"]),
        ("pods", ["NAME", "web-1"]),
        ("all -A --no-headers", ["default", "", "default", "", "default"]),
    ],
)
def test_a_table_for_each_kind_whose_names_say_it(
    words: str, first_words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "get", *words.split()]) == 0
    assert [line.partition(" ")[0] for line in capsys.readouterr().out.splitlines()] == first_words


def test_names_are_of_each_kind_and_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "deploy,ds", "web", "-o", "name"]) == 1
    assert capsys.readouterr() == ("deployment.apps/web\n", 'syncpod: daemonsets.apps "web" not found in the fleet\n')


def test_all_kinds_are_one_list_of_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "deploy,ds", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["items"][0]["metadata"]["labels"]) == ("List", {"of": "web"})
    assert found["items"][0]["metadata"]["creationTimestamp"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert run(["fleet", "get", "deploy,secrets", "-o", "yaml"]) == 2
    assert "for a Secret: its content is sealed" in capsys.readouterr().err


def test_no_kind_is_taken_for_another() -> None:
    kinds = {**NODES, **PODS}
    assert fleet_names(["no,all,pods"], kinds, "those", every=["Pod"]) == {"Node": [], "Pod": []}
    for word in ("pods,", "pods,web", "alles", ""):
        with pytest.raises(BadInput, match=r"^KIND: must be those, not [^ ]"):
            fleet_names([word], kinds, "those", every=["Pod"])
    for line, meant in ((["pdos"], "pods"), (["pods,nods"], "nodes"), (["pdo/web"], "pod")):
        with pytest.raises(BadInput, match=f": did you mean {meant}\\?$"):
            fleet_names(line, kinds, "those", every=["Pod"])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("all -l app=web", ["pod/web-1"]),
        ("pods -l app!=web", []),
        ("nodes -l zone=z1", ["node/n1"]),
        ("nodes -l zone=z2", []),
        ("deploy,ds -l of=logs", ["daemonset.apps/logs"]),
    ],
)
def test_labels_select(words: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", *words.split(), "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines() == names


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pods -L app", [["NAME", "READY", "STATUS", "RESTARTS", "AGE", "APP"], ["web-1", "web"]]),
        (
            "deploy,ds --show-labels --no-headers",
            [["deployment.apps/web", "of=web"], [], ["daemonset.apps/logs", "of=logs"]],
        ),
        ("nodes -L zone --no-headers", [["n1", "z1"]]),
        ("pods --field-selector spec.nodeName=n1 --no-headers", [["web-1", "<none>"]]),
        ("pods --field-selector spec.nodeName=n2", []),
        ("ds,deploy --sort-by .metadata.name -o name", [["daemonset.apps/logs"], ["deployment.apps/web"]]),
    ],
)
def test_labels_are_columns_and_fields_choose_and_sort_as_for_a_node(
    words: str, expected: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "get", *words.split()]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line if line[:1] == ["NAME"] or len(line) < 2 else [line[0], line[-1]] for line in shown] == expected


def test_a_waiting_pod_has_the_labels_of_its_template(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"metadata": {"labels": {"app": "web"}}}
    document = {"kind": "Deployment", "spec": {"template": template}}
    pods = (WorkloadPod(name="web-2", why="no room"),)
    whole = WorkloadView(kind="Deployment", name="web", desired=2, replicas=2, document=document, pods=pods)

    async def all_summaries(_: Client, namespace: str | None) -> list[WorkloadView]:
        return [whole]

    async def view(_: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
        return whole

    monkeypatch.setattr(fleet_workloads, "all_summaries", all_summaries)
    monkeypatch.setattr(fleet_workloads, "view", view)
    for selector, names in (("app=web", "pod/web-1\npod/web-2\n"), ("app=db", "")):
        assert run(["fleet", "get", "pods", "-l", selector, "-o", "name"]) == 0
        assert capsys.readouterr().out == names


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("cm -l a", "--selector: not for a ConfigMap: its labels are sealed, and only its nodes can read them"),
        ("pods web-1 -l a", "name what to list, or choose it with --selector, not both"),
        ("pods -l a=(", "--selector: "),
        ("pods web-1 -A", "name what to list, or choose it with --all-namespaces, not both"),
        ("secrets -o jsonpath={.items}", "--output: must be name or wide for a Secret: its content is sealed"),
        ("cm -L a", "--label-columns: not for a ConfigMap: its labels are sealed"),
        ("cm --sort-by .data", "--sort-by: not for a ConfigMap: it is sealed, and only its nodes can read it"),
        ("pods,deploy -w", "--watch works with one kind at a time"),
        ("pods -w -o json", "--watch prints tables and names, not json"),
    ],
)
def test_what_cannot_be_selected_or_watched_is_refused(
    words: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "get", *words.split()]) == 2
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize("output", [(), ("-o", "name")])
def test_a_watch_prints_what_is_new_or_changed(
    output: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def looks() -> Iterator[list[FleetNodeView]]:
        web = PlacedPod(name="web-1", state="taken")
        running = web.model_copy(update={"report": PodReport(name="web-1", status="Running", ready_containers="1/1")})
        other = web.model_copy(update={"name": "web-2"})
        for pods in ((web,), (web,), (running,), (running, other), (other,)):
            yield [FleetNodeView(name="n1", presence="Ready", placed=pods)]
        raise KeyboardInterrupt

    coming = looks()

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        return next(coming)

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_lists, "_WATCH_SECONDS", 0)
    assert run(["fleet", "get", "pods", "-w", *output]) == 130
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    if output:
        assert lines == [["pod/web-1"], ["pod/web-1"], ["pod/web-2"]], "as kubectl, once for each change"
    else:
        assert lines == [
            ["NAME", "READY", "STATUS"],
            ["web-1", "0/0", "Pending"],
            ["web-1", "1/1", "Running"],
            ["web-2", "0/0", "Pending"],
        ]


def test_a_watch_without_an_object_prints_nothing_as_kubectls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([[FleetNodeView(name="n1")]])

    async def views(_: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
        if (found := next(looks, None)) is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet_lists, "_WATCH_SECONDS", 0)
    assert run(["fleet", "get", "pods", "-w"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_watch_waits_for_no_name_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "pods", "web-1", "other", "-w", "-o", "name"]) == 1
    assert capsys.readouterr() == ("pod/web-1\n", 'syncpod: pods "other" not found in the fleet\n')


def test_the_objects_of_a_manifest_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.yaml").write_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}\n---\n"
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: gone}}\n"
    )
    assert run(["fleet", "get", "-f", str(tmp_path), "-o", "name"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["deployment.apps/web", "configmap/settings"]
    assert err == 'syncpod: pods "gone" not found in the fleet\n'
    assert run(["fleet", "get", "pods", "-f", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "syncpod: name what to list, or give its manifest with -f, not both\n"
    assert run(["fleet", "get"]) == 2
    assert capsys.readouterr().err.startswith("syncpod: KIND: required: nodes, pods, ")


@pytest.mark.parametrize(
    ("line", "described"),
    [
        ("-l app=web", ["web-1 on n1"]),
        ("pods -l app=web", ["web-1 on n1"]),
        ("pods", ["web-1 on n1"]),
        ("pods -l app=web --node n2", []),
        ("pods -l app=other", []),
        ("pod web-1", ["web-1 on "]),
    ],
)
def test_pods_are_described_by_their_labels(
    line: str, described: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list[str]()

    async def describe(
        _: Client, descriptions: Descriptions, name: str, _namespace: str, node: str, **_how: bool
    ) -> None:
        descriptions.begin()
        found.append(f"{name} on {node}")

    async def view(_client: Client, name: str) -> FleetNodeView:
        return FleetNodeView(name=name)

    monkeypatch.setattr(fleet, "view", view)
    monkeypatch.setattr(fleet_describe, "describe_pod", describe)
    assert run(["fleet", "describe", *line.split()]) == 0
    assert found == described
    assert capsys.readouterr().err == ("" if described else "No resources found in default namespace.\n")


def test_pods_of_a_node_that_there_is_not_are_not_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def view(_client: Client, name: str) -> FleetNodeView:
        raise fleet.NoNode(f'nodes "{name}" not found in the fleet')

    monkeypatch.setattr(fleet, "view", view)
    assert run(["fleet", "describe", "pods", "--node", "n9"]) == 1
    assert capsys.readouterr() == ("", 'syncpod: nodes "n9" not found in the fleet\n')


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("deployments -l of=web", ["web"]),
        ("deployments -l of=logs", []),
        ("nodes -l zone", ["n1"]),
        ("cm", ["settings"]),
    ],
)
def test_other_kinds_are_described_by_their_labels(
    line: str, first: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def view(_: Client, name: str) -> FleetNodeView:
        return FleetNodeView(name=name)

    monkeypatch.setattr(fleet, "view", view)
    assert run(["fleet", "describe", *line.split()]) == 0
    names = [each.split()[1] for each in capsys.readouterr().out.splitlines() if each.startswith("Name:")]
    assert names == first


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "name what to describe, a kind (deployment, daemonset, node, pod, configmap or secret) and a name, or "),
        ("pod web-1 -l app=web", "name what to describe, or choose it with --selector, not both"),
        ("cm -l app=web", "--selector: not for a ConfigMap: its labels are sealed, and only its nodes can read them"),
    ],
)
def test_a_description_needs_a_name_a_kind_or_labels(line: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "describe", *line.split()]) == 2
    assert capsys.readouterr().err.startswith(f"syncpod: {why}")


def test_an_object_is_described_without_its_content(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "describe", "cm", "settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Name:", "settings"]
    assert "sealed for the nodes whose pods refer to them" in "\n".join(lines)


def test_what_is_missing_keeps_nothing_else_from_being_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "describe", "cm/settings", "cm/other", "secret/none", "cm/settings"]) == 1
    out, err = capsys.readouterr()
    assert out.count("Name:") == 1 and err.splitlines() == [
        'syncpod: configmaps "other" not found in the fleet',
        'syncpod: secrets "none" not found in the fleet',
    ]


@pytest.mark.parametrize(("given_up", "note"), [("", ""), ("web-2 fails", "does not roll this out: web-2 fails\n")])
async def test_a_template_that_was_rolled_back_is_not_unchanged_without_a_word(
    given_up: str, note: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }
    pod = admit_workload(document)[0]

    async def view(*_: Any) -> WorkloadView:
        return WorkloadView(
            document=to_wire(pod), history=(Revision(number=1, template="7c1a", applied=NOW, given_up=given_up),)
        )

    monkeypatch.setattr(fleet_workloads, "view", view)
    assert await fleet_workloads.apply(cast(Client, None), pod) == "unchanged"
    assert capsys.readouterr().err == (f"Note: pod web: the fleet {note}" if note else "")


def test_a_pods_document_has_its_labels_and_its_spec_as_its_nodes_list_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "get", "pod", "web-1", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metadata"] == {
        "name": "web-1",
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"a": "b"},
    }
    assert found["spec"] == {"hostNetwork": True, "nodeName": "n1"}
