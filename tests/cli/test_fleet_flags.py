"""Flags of the fleet's commands: most of `logs`, `explain` and `top` are sent to the node, which reports errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from temporalio.client import Client

from syncpod.cli.actions import fleet_cp as cp_action
from syncpod.cli.actions import fleet_explain as explain_action
from syncpod.cli.actions import fleet_logs as logs_action
from syncpod.cli.actions import fleet_top as top_action
from syncpod.cli.commands.cp import CpOptions, fleet_cp
from syncpod.cli.commands.delete import DeleteOptions, fleet_delete
from syncpod.cli.commands.describe import DescribeOptions, fleet_describe
from syncpod.cli.commands.explain import ExplainOptions, explain, fleet_explain
from syncpod.cli.commands.logs import LogsOptions, fleet_logs
from syncpod.cli.commands.top import TopNodeOptions, TopPodOptions, fleet_node, fleet_pod
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.manual import commands_of
from syncpod.cli.program import program
from syncpod.cli.streams import interrupts
from syncpod.cli.streams.command_streams import Output, Write
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import FoundPod
from syncpod.messages.fleet import FleetNodeView, Intent, PlacedPod


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Records the command lines that nodes were requested to run."""
    words: list[list[str]] = []

    def run(work: Callable[[Client], Awaitable[Any]], **_: Any) -> Any:
        return asyncio.run(cast(Any, work(cast(Client, None))))

    async def find(_client: Client, names: list[str], *_: Any, **_how: Any) -> FoundPod:
        return FoundPod(FleetNodeView(name="n1"), names[-1], None)

    async def there(_client: Client, _node: FleetNodeView, given: list[str], **_: Any) -> int:
        words.append(given)
        return 0

    monkeypatch.setattr(fleet, "run", run)
    for action in (logs_action, explain_action):
        monkeypatch.setattr(action, "find_pod", find)
    monkeypatch.setattr(logs_action, "run_there", there)
    monkeypatch.setattr(explain_action, "print_there", there)
    return words


@pytest.mark.parametrize("text", ["", "5m"])
def test_a_time_that_is_given_without_a_value_is_not_ignored(asked: list[list[str]], text: str) -> None:
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(["web"], since=text, since_time=text))
    fleet_explain(ExplainOptions(["web"], at=text, since=text))
    assert asked == [
        ["logs", "web", "--namespace=default", f"--since={text}", f"--since-time={text}"],
        ["explain", "web", "--namespace=default", f"--at={text}", f"--since={text}"],
    ]


def test_flags_about_lives_traces_and_errors_are_sent_to_the_node(asked: list[list[str]]) -> None:
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(["web"], restart=1, uid="u", ignore_errors=True, max_log_requests=9))
    fleet_explain(ExplainOptions(["web"], uid="u", start=True, trace=True))
    assert asked == [
        ["logs", "web", "--namespace=default", "--restart=1", "--uid=u", "--ignore-errors", "--max-log-requests=9"],
        ["explain", "web", "--namespace=default", "--uid=u", "--start", "--trace"],
    ]


def test_flags_that_are_not_given_are_not_sent(asked: list[list[str]]) -> None:
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(["web"]))
    fleet_explain(ExplainOptions(["web"], restart=0, start=True))
    assert asked == [
        ["logs", "web", "--namespace=default"],
        ["explain", "web", "--namespace=default", "--start", "--restart=0"],
    ]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("kind", ["deployment", "ds", "pod"])
def test_a_kind_alone_is_not_taken_for_the_name_of_a_pod(kind: str) -> None:
    required = f"^NAME: required: which one, such as `{kind}/web` "
    with pytest.raises(BadInput, match=required):
        fleet_logs(LogsOptions([kind]))
    for placement in (False, True):
        with pytest.raises(BadInput, match=required):
            fleet_explain(ExplainOptions([kind], placement=placement))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (LogsOptions(["web"], uid="u"), "--uid: only with --restart: without it, the pod that there is now is read"),
        (
            LogsOptions(["web"], restart=-1),
            "--restart: must be 0 or more: the number that `syncpod fleet explain` gives",
        ),
        (
            LogsOptions(selector="app=web", restart=1),
            "--restart: name one pod, without --follow, --previous and --all-containers",
        ),
        (LogsOptions(["web", "app"], all_containers=True), "either --container or --all-containers"),
        (ExplainOptions(["web"], restart=1), "--restart, --container and --trace: only with --start"),
        (ExplainOptions(["web"], at="14:02", start=True), "--at: not with --start, which names a start by --restart"),
        (ExplainOptions(["web"], output="yaml"), "--output: must be json, not yaml"),
        (ExplainOptions(["node/n1"], start=True), "--start: needs a pod; name one"),
        (ExplainOptions(["node", "n1"], node="n2"), "--node: is for pods, not for a Node"),
        (ExplainOptions(["pod.spec"]), "pod.spec: this explains the state of a pod, `explain NAME`; "),
    ],
)
def test_flags_that_a_node_refuses_are_refused_before_it_is_asked(
    asked: list[list[str]], options: LogsOptions | ExplainOptions, sentence: str
) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(sentence)}"):
        fleet_logs(options) if isinstance(options, LogsOptions) else fleet_explain(options)
    assert asked == []


@pytest.mark.parametrize("command", [explain, fleet_explain])
def test_a_placement_is_of_now_and_of_all_nodes(command: Callable[[ExplainOptions], None]) -> None:
    others = ExplainOptions(["web"], placement=True, output="json", node="n1", at="", trace_log="log")
    with pytest.raises(BadInput, match=r"cannot be combined with --node, --at, --trace-log$"):
        command(others)


def test_a_container_is_named_after_the_pod_and_sent(asked: list[list[str]]) -> None:
    for words in (["web", "app"], ["pod", "web"]):
        with pytest.raises(typer.Exit):
            fleet_logs(LogsOptions(words))
    assert asked == [
        ["logs", "web", "--namespace=default", "--container=app"],
        ["logs", "web", "--namespace=default"],
    ]


@pytest.mark.parametrize("kind", ["Node", "Deployment", "Secret"])
def test_the_node_of_a_pod_is_refused_for_another_kind(kind: str) -> None:
    commands: list[Callable[[], None]] = [
        lambda: fleet_describe(DescribeOptions([kind.lower(), "a"], node="n2")),
        lambda: fleet_describe(DescribeOptions(["pod/a", f"{kind.lower()}/a"], node="n2")),
    ]
    if kind == "Node":
        commands.append(lambda: fleet_explain(ExplainOptions(["node", "a"], node="n2")))
    else:
        commands.append(lambda: fleet_delete(DeleteOptions([kind.lower(), "a"], node="n2")))
    for command in commands:
        with pytest.raises(BadInput, match=f"^--node: is for pods, not for a {kind}$"):
            command()


OF_NODE = {
    " ".join(path): command
    for path, command in commands_of(program().commands["fleet"])
    if any("--node" in each.opts for each in command.params)
}


@pytest.mark.parametrize("name", OF_NODE)
def test_the_node_of_a_pod_may_be_named_with_its_kind(name: str) -> None:
    words = ["a", "web:/b"] if name == "cp" else ["web"]
    for given in ("n1", "node/n1", "No/n1"):
        assert OF_NODE[name].make_context(name, [*words, "--node", given]).params["node"] == "n1"
    with pytest.raises(BadInput, match=r"^'pod/n1': only nodes can be named here, as NAME or node/NAME$"):
        OF_NODE[name].make_context(name, [*words, "--node", "pod/n1"])


def test_a_node_that_is_removed_is_named_with_its_kind_at_most() -> None:
    with pytest.raises(BadInput, match=r"^'pod/n1': only nodes can be named here"):
        program().commands["fleet"].commands["remove"].main(["pod/n1"], standalone_mode=False)


@pytest.mark.parametrize(
    ("ends", "way"), [(("web:/a", "-"), "exec web -- cat /a"), (("-", "web:/a"), "exec -i web -- ")]
)
def test_a_copy_of_a_fleet_to_a_stream_is_done_with_its_own_exec(ends: tuple[str, str], way: str) -> None:
    with pytest.raises(BadInput, match=f"^-: `syncpod fleet {way}"):
        fleet_cp(CpOptions(*ends))


@pytest.mark.parametrize("into", [False, True])
def test_a_copy_that_the_node_refuses_has_the_nodes_reason(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, into: bool
) -> None:
    async def refuse(_client: Client, _node: FleetNodeView, given: list[str], *, write: Write, **_: Any) -> int:
        asked.append(given)
        await write(Output.STDERR, b'syncpod: pods "web" not found in ')
        await write(Output.STDERR, b"namespace default\n")
        return 1

    async def find(*_: Any) -> FoundPod:
        return FoundPod(FleetNodeView(name="n2"), "web", None)

    monkeypatch.setattr(cp_action, "run_there", refuse)
    monkeypatch.setattr(cp_action, "find_pod", find)
    here = tmp_path / "file"
    here.write_text("text")
    with pytest.raises(Failure, match=r'^pods "web" not found in namespace default$'):
        fleet_cp(CpOptions(*((str(here), "web:/a") if into else ("web:/a", str(here))), node="n2"))
    assert asked


def labelled(name: str, app: str, namespace: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": app}, **({"namespace": namespace} if namespace else {})}}


@pytest.fixture
def selectable(asked: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A fleet with pods of web on two nodes, and others."""
    lists = {
        "n1": (labelled("web-1", "web"), labelled("db-1", "db"), labelled("web-3", "web", "other")),
        "n2": (labelled("web-2", "web", "default"),),
    }

    async def views(_client: Client, names: Any = ()) -> list[FleetNodeView]:
        return [
            FleetNodeView(
                name=node,
                placed=tuple(
                    PlacedPod(
                        name=each["metadata"]["name"],
                        namespace=each["metadata"].get("namespace", "default"),
                        state="taken",
                    )
                    for each in pods
                ),
            )
            for node, pods in lists.items()
            if not names or node in names
        ]

    async def intent(_client: Client, node: str) -> Intent:
        return Intent(node=node, pods=lists[node])

    monkeypatch.setattr(fleet, "views", views)
    monkeypatch.setattr(fleet, "intent", intent)
    return asked


def test_pods_are_chosen_by_their_labels_on_all_nodes(selectable: list[list[str]]) -> None:
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(selector="app=web"))
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(selector="app in (web,db)", node="n1", tail=3))
    assert selectable == [
        ["logs", "web-1", "--namespace=default", "--tail=10"],
        ["logs", "web-2", "--namespace=default", "--tail=10"],
        ["logs", "db-1", "--namespace=default", "--tail=3"],
        ["logs", "web-1", "--namespace=default", "--tail=3"],
    ]


@pytest.mark.parametrize("given", [{}, {"what": ["web"], "selector": "app=web"}, {"selector": "app in web"}])
def test_either_a_name_or_a_selector_is_needed(selectable: list[list[str]], given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        fleet_logs(LogsOptions(**given))
    assert selectable == []


def test_logs_that_are_followed_together_are_not_mixed_within_a_line(
    selectable: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    written, both = list[bytes](), asyncio.Barrier(2)

    async def there(_client: Client, node: FleetNodeView, _words: list[str], *, write: Write, **_: Any) -> int:
        for part in (b"from ", node.name.encode() + b"\nno end of ", node.name.encode()):
            await write(Output.STDOUT, part)
            await both.wait()
        return 0

    async def ours(_which: Output, data: bytes) -> None:
        written.append(data)

    monkeypatch.setattr(logs_action, "run_there", there)
    monkeypatch.setattr(logs_action, "write_ours", ours)
    monkeypatch.setattr(interrupts, "enable", lambda: None)
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(selector="app=web", follow=True))
    assert sorted(written) == [b"from n1\n", b"from n2\n", b"no end of n1", b"no end of n2"]
    assert selectable == []


def test_as_many_pods_are_followed_as_max_log_requests_says(
    selectable: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "enable", lambda: None)
    with pytest.raises(BadInput, match=r"^2 pods would be followed, but at most 1 may be: raise --max-log-requests"):
        fleet_logs(LogsOptions(selector="app=web", follow=True, max_log_requests=1))
    with pytest.raises(BadInput, match=r"^--max-log-requests: must be 1 or more"):
        fleet_logs(LogsOptions(selector="app=web", follow=True, max_log_requests=0))
    assert selectable == []


@pytest.mark.usefixtures("selectable")
def test_a_node_that_does_not_answer_is_reported_with_ignore_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = list[str]()

    async def there(_client: Client, node: FleetNodeView, words: list[str], **_: Any) -> int:
        if node.name == "n1":
            raise Failure("node n1 does not answer")
        read.append(words[1])
        return 0

    monkeypatch.setattr(logs_action, "run_there", there)
    with pytest.raises(Failure, match=r"^node n1 does not answer"):
        fleet_logs(LogsOptions(selector="app=web"))
    assert read == []
    with pytest.raises(typer.Exit):
        fleet_logs(LogsOptions(selector="app=web", ignore_errors=True))
    assert read == ["web-2"]
    assert capsys.readouterr().err == "Note: pod web-1: node n1 does not answer\n"


def test_the_sum_of_all_nodes_is_in_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [["web-1", "12m", "3Mi", "n1"], ["web-2", "990m", "1000Mi", "n2"]]
    monkeypatch.setattr(top_action, "_rows", lambda *_: ([*rows], [], set()))
    fleet_pod(TopPodOptions(with_sum=True))
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        *rows, ["________", "________"], ["1002m", "1003Mi"],
    ]  # fmt: skip


@pytest.mark.parametrize(("by", "names"), [("", "n1 n2 n3"), ("cpu", "n2 n1 n3"), ("memory", "n3 n1 n2")])
def test_nodes_are_sorted_by_their_usage(
    by: str, names: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"n3": "9m 0% 1000Mi 9%", "n1": "12m 1% 300Mi 3%", "n2": "990m 9% 20Mi 1%"}
    rows = [[name, *cells.split(), name] for name, cells in table.items()]
    monkeypatch.setattr(top_action, "_rows", lambda *_: ([*rows], [], set()))
    fleet_node(TopNodeOptions(sort_by=by))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == names.split()


@pytest.mark.parametrize("options", [{"selector": "app=web"}, {"all_namespaces": True}])
def test_usage_is_of_named_or_of_chosen_pods(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^name pods, or choose them with --selector or --all-namespaces, not both"):
        fleet_pod(TopPodOptions(["web"], **options))


def test_a_named_pod_of_another_namespace_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [["default", "web", "12m", "3Mi", "n1"], ["other", "db", "9m", "1Mi", "n1"]]
    placed = [PlacedPod(name="idle", state="taken"), PlacedPod(name="web", namespace="other", state="refused")]
    found = [FoundPod(FleetNodeView(name="n1"), each.name, each) for each in placed]
    monkeypatch.setattr(top_action, "_rows", lambda *_: ([*rows], [], found))
    with pytest.raises(Failure) as missing:
        fleet_pod(TopPodOptions(["web", "db", "idle"]))
    assert str(missing.value).splitlines() == [
        'pods "db" not found in the fleet',
        'pod "idle": it has no running container on the nodes that were asked',
    ]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "CPU(cores)", "MEMORY(bytes)", "NODE"], rows[0][1:],
    ]  # fmt: skip
