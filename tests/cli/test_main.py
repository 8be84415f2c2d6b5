"""The start of the program, and its error messages.

Holds: Short commands load little.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from syncpod.api.views.text import Columns
from syncpod.cli import console
from syncpod.cli.command_table import COMMANDS
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import named, pod_name, pod_names, with_likely_kind
from syncpod.cli.main import run
from syncpod.cli.manual import Group, commands_of
from syncpod.cli.program import program as syncpod_program
from tests.cli.conftest import program
from tests.cli.starts import heavy, started
from tests.runtimes.require import do_without


def test_help_imports_no_command() -> None:
    start = started("--help")
    assert start.heavy == set() and start.commands == set()
    assert all(f"  {command} " in start.out for command in COMMANDS)


def test_help_of_a_command_imports_that_one_alone() -> None:
    start = started("get", "--help")
    assert start.heavy == set() and start.commands == {"get"}


def test_so_does_a_command_of_a_fleet_and_the_list_of_these_imports_none() -> None:
    assert started("fleet", "--help").commands == set()
    start = started("fleet", "delete", "--help")
    assert start.heavy == set() and start.commands == {"delete"}


def test_no_command_is_slow_to_load() -> None:
    script = (
        "import sys; from syncpod.cli.manual import commands_of; from syncpod.cli.program import program;"
        "list(commands_of(program())); sys.stdout.write('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert heavy(done.stdout.split("\n")) == set()


def test_texts_are_parsed_without_pydantic() -> None:
    start = started("get", "pods", "-n", "prod", "-l", "app=web", "--no-headers", "-o", "html")
    assert start.err.startswith("syncpod: --output: must be wide,")
    assert start.heavy == set()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "web", "--image", "busybox", "--dry-run=client"),
        ("create", "configmap", "settings", "--from-literal", "a=b"),
        ("delete", "configmap", "settings"),
        ("delete", "-f", "settings.yaml"),
    ],
    ids=" ".join,
)
def test_what_needs_no_server_loads_no_module_that_reaches_one(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = started(*words, SYNCPOD_STATE_DIR=str(tmp_path), SYNCPOD_MEMORY_DIR=str(tmp_path))
    assert "temporalio" not in start.heavy, (start.out, start.err)


def test_every_command_has_help_that_fits_a_line() -> None:
    _, heading, listed = program("--help", environ={"COLUMNS": "80"}).out.partition("\nPods:\n")
    assert heading and not [line for line in listed.splitlines() if line.startswith("   ")]


GROUPS = [path for path, command in commands_of(syncpod_program()) if isinstance(command, Group)]


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_the_help_of_a_group_cuts_no_sentence(path: tuple[str, ...]) -> None:
    told = program(*path, "--help", environ={"COLUMNS": "80"}).out
    _, heading, listed = told.partition("\nCommands:\n")
    listed, _, _ = listed.partition("\n\n")
    assert heading and "..." not in listed
    assert max(map(len, listed.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [(), ("worker", "--help"), ("get", "-h")])
def test_help_is_found(arguments: tuple[str, ...]) -> None:
    result = program(*arguments)
    assert "usage: syncpod" in (result.out + result.err).lower()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("frobnicate",), "No such command 'frobnicate'; see `syncpod --help`"),
        (("get", "--frob"), "No such option: --frob; see `syncpod get --help`"),
        (("explain", "pod/web", "--since"), "'--since' requires an argument; see `syncpod explain --help`"),
        (("fleet", "logs", "web", "-c"), "'-c' requires an argument; see `syncpod fleet logs --help`"),
        (("patch", "pod", "web", "--subresource", "resize", "-p", "{}"), "no Temporal server at 127.0.0.1:1"),
        (("fleet", "drain", "n1", "--grace-period=30"), "--grace-period: each pod ends within its own grace period"),
        (("fleet", "drain", "n1", "--disable-eviction"), "there are no PodDisruptionBudgets to bypass"),
        (("fleet", "drain", "--pod-selector=app=web", "n1"), "--pod-selector: a drain goes on until the node is empty"),
        (
            ("fleet", "drain", "--selector", "pool=a"),
            "--selector: name the nodes: `syncpod fleet get nodes -l SELECTOR -o name` prints their names",
        ),
        (("--fleet", "drain", "-l", "pool=a"), "-l: name the nodes"),
        (("fleet", "drain", "n1", "--chunk-size=5"), "--chunk-size: there are no lists in chunks here"),
        (("fleet", "drain", "n1", "--dry-run=maybe"), "--dry-run: must be none, client or server, not maybe"),
        (
            ("get", "pods", "-o", "html"),
            "--output: must be wide, json, yaml, name, jsonpath='{PATH}' or",
        ),
        (("get", "pods", "-o", "custom-columns=A"), "--output: custom-columns: 'A': write NAME:PATH, such as NAME:"),
        (("get", "pods", "-o", "custom-columns-file=/none"), "--output: /none: No such file or directory"),
        (("get", "pods", "--sort-by", "{.a"), "--sort-by: '{.a': an opening and a closing brace belong together"),
        (("get", "nodes", "--field-selector", "a.b=c"), "--field-selector: 'a.b' cannot be selected by: must be one"),
        (("get", "pods", "-w", "--sort-by", ".a"), "--sort-by: a watch prints changes in the order in which they come"),
        (("get", "pods", "--field-selector", "a.b=c"), "--field-selector: 'a.b' cannot be selected by: must be one of"),
        (("get", "cm", "--field-selector", "status.phase=x"), "--field-selector: 'status.phase' cannot be selected by"),
        (
            ("get", "pods", "--field-selector", "x"),
            "--field-selector: 'x' is not a condition on a field: write status.",
        ),
        (("label", "web"), "say which labels to set or remove: KEY=VALUE, KEY-"),
        (("label", "a=b"), "name pods, or choose them with --selector or --all"),
        (("annotate", "web", "a=b", "c"), "'c': write KEY=VALUE to set one of the annotations, KEY- to remove it"),
        (("label", "web", "a=b", "a-"), "a: either set or removed, not both"),
        (("patch", "web"), "name a pod, and the patch with -p or --patch-file"),
        (("patch", "web", "-p", "[1]"), "--patch: must be an object"),
        (("patch", "web", "-p", "{}", "--type", "x"), "--type: must be strategic, merge, json, not x"),
        (("run", "web"), "name the pod and its image: syncpod run NAME --image IMAGE"),
        (("run", "web", "--image", "b", "--restart", "no"), "--restart: must be Always, OnFailure, Never, not no"),
        (("run", "web", "--image", "b", "--env", "x"), "--env: 'x': write NAME=VALUE"),
        (("run", "web", "--image", "b", "-l", "a b=c"), "pod web: metadata.labels[a b]: must consist of letters"),
        (("get", "pods", "-o", "jsonpath"), "--output: jsonpath: name a path in braces: jsonpath='{.metadata.name}'"),
        (("get", "pods", "-o", "jsonpath=.items"), "--output: jsonpath: name a path in braces"),
        (("get", "pods", "-o", "jsonpath={..name}"), "--output: jsonpath: '{..name}' cannot be read as JSONPath from"),
        (("get", "pods", "-o", "jsonpath={.items[0:2]}"), "cannot be read as JSONPath from '[0:2]' on"),
        (("get", "nodes", "-o", "jsonpath={range .items[*]}{.a}"), "'{range .items[*]}' has no {end}"),
        (("get", "cm", "-o", "jsonpath={.a"), "--output: jsonpath: '{.a': an opening and a closing brace belong"),
        (("get", "pods", "-w", "-o", "jsonpath={.a}"), "--watch prints tables and names, not jsonpath"),
        (("get", "pods", "-l", "a b"), "--selector: 'a b' is not a condition on a label"),
        (("get", "pods", "-o", "json", "-L", "app"), "--label-columns: only tables have columns, and --output asks"),
        (("get", "nodes", "-o", "name", "--show-labels"), "--show-labels: only tables have columns, and --output"),
        (("get", "pod", "web", "-A"), "name what to list, or choose it with --all-namespaces, not both"),
        (
            ("get", "deployment/web"),
            "'deployment/web': a fleet has them: `syncpod fleet get deployments`",
        ),
        (("get", "svc"), "'svc': there are no Services: `syncpod port-forward POD PORT` reaches a pod"),
        (("get", "pods,events"), "'events': see `syncpod events`; a pod of that name is pod/events"),
        (("get", "events"), "no Temporal server at 127.0.0.1:1"),
        (("get", "all", "-n", "prod"), "no Temporal server at 127.0.0.1:1"),
        (("-n", "prod", "get", "pods"), "no Temporal server at 127.0.0.1:1"),
        (("--namespace=prod", "describe", "web"), "no Temporal server at 127.0.0.1:1"),
        (
            ("rollout", "restart", "deploy/web"),
            "'rollout' is not a command here: a pod has no rollouts: `syncpod restart",
        ),
        (
            ("diff", "-f", "pod.yaml"),
            "'diff' is not a command here: `syncpod plan -f FILE` shows what an apply would do",
        ),
        (("rune",), "No such command 'rune'. Did you mean 'run', 'runtime'?; see `syncpod --help`"),
        (("prun",), "No such command 'prun'. Did you mean 'prune', 'run'?; see `syncpod --help`"),
        (("create", "-f", "/none.yaml"), "/none.yaml: No such file or directory"),
        (("create", "-f", "pod.yaml", "cm", "a"), "either -f FILE or a kind: configmap, secret"),
        (("create", "--dry-run=client", "cm", "a"), "--dry-run: write it after the kind: create cm --dry-run=client"),
        (("create", "-f", "pod.yaml", "--dry-run=yes"), "--dry-run: must be none, client or server, not yes"),
        (("apply", "-k", "prod"), "-k: kustomizations are not built here: kubectl kustomize prod | syncpod apply -f -"),
        (("delete", "deploy", "web"), "'deploy': a fleet has them: `syncpod fleet delete deployment NAME`"),
        (("logs", "deploy", "web"), "'deploy': a fleet has them: `syncpod fleet logs deployment/NAME`"),
        (("logs", "web", "--tail=abc"), "Invalid value for '--tail': must be a whole number; see `syncpod logs"),
        (("apply",), "name a manifest with -f FILE"),
        (("apply", "-f", "/none.yaml"), "/none.yaml: No such file or directory"),
        (("apply", "-f", "https://x.test/pod.yaml"), "https://x.test/pod.yaml: URLs are not read; download it first"),
        (("apply", "-f", "-", "--timeout", "5"), "--timeout: '5' is not a duration"),
        (("delete",), "say what to delete, in one of these ways"),
        (("delete", "web", "--all"), "say what to delete, in one of these ways"),
        (("delete", "web", "--force", "--grace-period", "5"), "--force means no grace"),
        (("delete", "web", "--now", "--force"), "--now means a grace of 1 second: leave out --grace-period and"),
        (("delete", "web", "--now", "--grace-period", "5"), "--now means a grace of 1 second"),
        (("delete", "web", "--dry-run", "yes"), "--dry-run: must be none, client or server, not yes"),
        (("apply", "-f", "-", "--dry-run=yes"), "--dry-run: must be none, client or server, not yes"),
        (("apply", "-f", "-", "--dry-run=client", "--wait"), "either --dry-run or --wait: a dry run does nothing"),
        (("delete", "web", "--grace-period", "-7"), "--grace-period: must be 0 or more seconds"),
        (("describe",), "name what to describe, or choose it with --selector"),
        (("history", "cm", "web"), "'cm': only pods can be named here; a pod of that name is pod/cm"),
        (("get", "pods,cm", "-w"), "--watch works with one kind at a time"),
        (("delete", "cm"), "say what to delete, in one of these ways"),
        (("logs",), "name one pod, or choose pods with --selector"),
        (("logs", "web", "--since", "1w"), "--since: '1w' is not a duration"),
        (("logs", "web", "--since-time", "noon"), "--since-time: 'noon' is not an RFC 3339 time"),
        (("exec", "web"), "say what to run: syncpod exec web -- COMMAND"),
        (("history", "a", "b"), "name one pod, not 2"),
        (("plan",), "name a manifest with -f FILE, or pods that exist"),
        (("server", "--port", "0"), "Invalid value for '--port'"),
        (("up", "--node", "Not_A_Node"), "node name 'Not_A_Node': must be"),
        (("down", "--state-dir", "here"), "state directory 'here': must be an absolute path"),
        (("down", "--keep-pods", "--purge"), "either --keep-pods or --purge"),
        (("up", "--embedded", "--runtime-endpoint", "/run/cri.sock"), "either --runtime-endpoint or the embedded"),
        (("runtime", "--socket", "cri.sock"), "--socket: 'cri.sock' must be an absolute path"),
        (("runtime", "--state-dir", "/tmp/none", "--socket", f"/{'x' * 107}"), "and a socket's path at most 107"),
        (("runtime", "--state-dir", "/tmp/none", "--socket", "/run/a,b"), "/run/a,b has a comma, at which gRPC"),
        (("get", "pods"), "no Temporal server at 127.0.0.1:1 (connection refused): start one with `syncpod up`"),
        (("get", "pods"), "`unset TEMPORAL_ADDRESS`, and `syncpod up` starts a server of its own)"),
    ],
)
def test_every_error_is_one_sentence(
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert err.startswith("syncpod: ") and err.count("\n") == 1
    assert out == ""


def test_up_without_a_runtime_names_the_sockets_and_starts_nothing(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path / "state"), "CONTAINER_RUNTIME_ENDPOINT": "unix:///none/here.sock"}
    result = program("up", environ=environ)
    assert result.code == 2
    assert "no container runtime at /none/here.sock" in result.err
    assert not (tmp_path / "state").exists()


def test_up_with_a_wrong_manifest_starts_nothing(tmp_path: Path) -> None:
    socket = tmp_path / "cri.sock"
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(socket))
        listener.listen()
        environ = {"SYNCPOD_STATE_DIR": str(tmp_path / "state"), "CONTAINER_RUNTIME_ENDPOINT": f"unix://{socket}"}
        result = program("up", "-f", "-", environ=environ, stdin="kind: Pod\napiVersion: v1\nspec: {contaners: []}\n")
    assert result.code == 2
    told = [line.split(": ")[2] for line in result.err.splitlines()]
    assert told == ["spec.contaners", "metadata.name", "spec.containers"]
    assert not (tmp_path / "state").exists()


def test_down_says_if_nothing_runs(tmp_path: Path) -> None:
    result = program("down", "--state-dir", str(tmp_path / "state"))
    assert (result.code, result.out) == (0, "")
    assert "Nothing to end" in result.err


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupt_ends_with_a_newline(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr("syncpod.cli.temporal.session.Session.run", interrupted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert run(["get", "pods", "-w"]) == 130
    assert capsys.readouterr() == ("", "\n" if terminal else "")


@pytest.mark.parametrize("limit", [8, 10])
def test_too_few_descriptors_are_a_sentence(limit: int, tmp_path: Path) -> None:
    """The SDK, which is no Python, fails to begin, or panics."""
    command = f"ulimit -n {limit}; exec {shlex.join([sys.executable, '-m', 'syncpod.cli.main', 'get', 'pods'])}"
    environ = {**os.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1", "SYNCPOD_STATE_DIR": str(tmp_path)}
    ended = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.endswith("syncpod: Too many open files: raise the limit of open files (ulimit -n)\n")
    assert "Traceback" not in ended.stderr


def test_a_closed_pipe_ends_quietly() -> None:
    if shutil.which("bash") is None:
        do_without("bash", "there is none here, and no other shell tells how the first of a pipeline ended")
    command = f"{sys.executable} -m syncpod.cli.main --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], []),
        (["pods"], []),
        (["pod", "web", "db", "web"], ["web", "db"]),
        (["po", "web"], ["web"]),
        (["pod/web", "pods/db"], ["web", "db"]),
        (["web"], ["web"]),
        (["pod", "pod"], ["pod"]),
        (["rs"], ["rs"]),
        (["secret"], ["secret"]),
    ],
)
def test_pods_are_named_in_each_of_kubectls_ways(words: list[str], names: list[str]) -> None:
    assert pod_names(words) == names


@pytest.mark.parametrize(
    ("words", "things"),
    [
        ([], {"Pod": []}),
        (["web"], {"Pod": ["web"]}),
        (["cm"], {"ConfigMap": []}),
        (["secrets", "a", "b", "a"], {"Secret": ["a", "b"]}),
        (["po,cm,pods", "a"], {"Pod": ["a"], "ConfigMap": ["a"]}),
        (["secret/a", "web", "cm/b", "secret/a"], {"Secret": ["a"], "Pod": ["web"], "ConfigMap": ["b"]}),
        (["web", "cm"], {"Pod": ["web", "cm"]}),
    ],
)
def test_resources_are_named_in_each_of_kubectls_ways(words: list[str], things: dict[str, list[str]]) -> None:
    assert named(words) == things


def test_a_first_word_that_is_nearly_a_kind_is_said_to_be() -> None:
    def missing(*words: str) -> str:
        names = [name for each in named(words).values() for name in each]
        return with_likely_kind([f'pods "{name}" not found' for name in names], words)

    assert missing("pdos") == 'pods "pdos" not found: did you mean the kind pods?'
    assert missing("confgmap", "a") == 'pods "confgmap" not found: did you mean the kind configmap?\npods "a" not found'
    assert missing("pods", "pdos") == 'pods "pdos" not found', "the kind is named"
    assert missing("web") == 'pods "web" not found'


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cm/"], "the configmap's name is missing"),
        (["cm", "cm/a"], "the kind is named already; write a"),
        (["cm,svc"], "'svc': there are no Services"),
        (["svc/a"], "'svc/a': there are no Services"),
        (["x/a"], "'x/a': pods, configmaps and secrets can be named here"),
    ],
)
def test_an_unsupported_resource_kind_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        named(words)


@pytest.mark.parametrize("name", ["web", "rs", "ev", "deploy", "cm", "pod", "po"])
def test_a_lone_word_is_a_pods_name_where_one_pod_is_named(name: str) -> None:
    assert pod_name([name]) == pod_name([f"pod/{name}"]) == name
    with pytest.raises(BadInput, match="a fleet has them"):
        pod_name(["deploy", name])


def test_a_pod_without_a_name_is_refused() -> None:
    with pytest.raises(BadInput, match="the pod's name is missing"):
        pod_names(["pod/"])


def test_each_invalid_field_has_its_own_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    manifest = tmp_path / "pod.json"
    manifest.write_text('{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "A"}, "spec": {"containers": [{}]}}')
    assert run(["apply", "-f", str(manifest)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2 and all(line.startswith(f"syncpod: {manifest}: pod A: ") for line in lines)
    assert any(line.endswith("spec.containers[0].image: required") for line in lines)


def test_the_version_is_a_flag_as_well() -> None:
    assert program("--version") == program("version")


def test_later_rows_keep_the_columns_of_earlier_ones() -> None:
    table = Columns()
    table.align([("NAME", "READY", "AGE"), ("a-long-name", "1/1", "5s")])
    assert table.align([("web", "1/1", "7s")]) == [["web        ", "1/1  ", "7s"]]


def test_commands_that_are_printed_can_be_typed_where_the_user_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = tmp_path / "bin" / "syncpod"
    ours.parent.mkdir()
    ours.write_text("#!/bin/sh\n")
    ours.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(ours)])
    for path, place, typed in (
        (ours.parent, tmp_path, "syncpod"),
        (tmp_path, tmp_path, "bin/syncpod"),
        (tmp_path, ours.parent, "./syncpod"),
        (tmp_path, Path("/"), str(ours).lstrip("/")),
        (tmp_path, Path("/proc"), str(ours)),
    ):
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.chdir(place)
        assert console.program() == typed
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    assert console.program() == str(ours)
    assert console.from_here(ours) == str(ours)
