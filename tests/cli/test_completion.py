"""Completion: the candidates at each place of a command line, and the shells' scripts.

Holds: Short commands load little.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.actions import fleet_candidates
from syncpod.cli.command_table import COMPLETE
from syncpod.cli.commands import completion
from syncpod.cli.commands.completion_candidates import FILES, candidates
from syncpod.cli.main import run
from syncpod.cli.program import program
from syncpod.cli.temporal import fleet
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.report import NodeReport, Orphan, write_node_report
from syncpod.objects import ObjectStore
from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.cli.starts import started
from tests.runtimes.require import do_without

PODS = {
    "web": ("default", {"initContainers": ["setup"], "containers": ["app", "proxy"]}),
    "worker": ("default", {"containers": ["app"]}),
    "db": ("team", {"containers": ["postgres"], "ephemeralContainers": ["debugger"]}),
}


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeContext:
    """A node's files as its worker writes them: three pods, a ConfigMap and a Secret."""
    context = NodeContext("vm", tmp_path / "state", tmp_path / "memory", tmp_path / "log", "cluster")
    for name, (namespace, kinds) in PODS.items():
        spec = {kind: [{"name": each, "image": "busybox:1"} for each in names] for kind, names in kinds.items()}
        pod = Pod.model_validate({"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"}, "spec": spec})
        pod_directory(context, pod.metadata.uid).mkdir(parents=True)
        write_pod_record(context, PodRecord(pod=pod))
    (context.state_dir / "node.json").write_text('{"node": "vm"}')
    pod_directory(context, "u-new").mkdir()
    (pod_directory(context, "u-torn")).mkdir()
    (pod_directory(context, "u-torn") / "pod.json").write_text('{"pod": ')
    store = ObjectStore(context.state_dir, context.memory_dir)
    store.add(ConfigMap.model_validate({"metadata": {"name": "settings", "namespace": "default"}}))
    store.add(Secret.model_validate({"metadata": {"name": "keys", "namespace": "default"}}))
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(context.state_dir))
    monkeypatch.setenv("SYNCPOD_MEMORY_DIR", str(context.memory_dir))
    return context


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("des", ["describe"]),
        ("create ", ["configmap", "secret"]),
        ("create secret t", ["tls"]),
        ("top ", ["pod", "node"]),
        ("describe pod ", ["web", "worker"]),
        ("describe pod web w", ["worker"]),
        ("logs w", ["web", "worker"]),
        ("logs pod/we", ["pod/web"]),
        ("logs -n team ", ["db"]),
        ("logs --namespace=team ", ["db"]),
        ("get ", ["pods", "configmaps", "secrets", "nodes", "web", "worker"]),
        ("delete ", ["pods", "configmaps", "secrets", "web", "worker"]),
        ("get nodes ", ["vm"]),
        ("describe node v", ["vm"]),
        ("describe node/", ["node/vm"]),
        ("describe node vm ", []),
        ("cordon ", ["vm"]),
        ("uncordon vm ", []),
        ("drain --force ", ["vm"]),
        ("get cm ", ["settings"]),
        ("get secret k", ["keys"]),
        ("get pods -o y", ["yaml"]),
        (
            "get --output=",
            [
                "--output=wide",
                "--output=json",
                "--output=yaml",
                "--output=name",
                "--output=jsonpath=",
                "--output=custom-columns=",
            ],
        ),
        ("get --output = js", ["json", "jsonpath="]),
        ("get -o jsonpath", ["jsonpath="]),
        ("get --sel", ["--selector"]),
        ("delete --wait=", ["--wait=true", "--wait=false"]),
        ("delete --wait=f", ["--wait=false"]),
        ("get --watch=t", ["--watch=true"]),
        ("apply --dry-run=c", ["--dry-run=client"]),
        ("delete --no", ["--now", "--no-wait"]),
        ("get -L ", []),
        ("delete --all-namespaces=false w", ["web", "worker"]),
        ("get -A --all", []),
        ("logs -n ", ["default", "team"]),
        ("logs web -c ", ["setup", "app", "proxy"]),
        ("logs -fc ", []),
        ("exec -it web -c p", ["proxy"]),
        ("exec -n team db -c ", ["postgres", "debugger"]),
        ("debug -it web --target a", ["app"]),
        ("exec web ", ["--"]),
        ("exec web -- l", [FILES]),
        ("apply -f ", [FILES]),
        ("cp web:/etc/hosts ", [FILES]),
        ("load ", [FILES]),
        ("events --for w", []),
        ("events --for ", ["pod/web", "pod/worker"]),
        ("events --types=W", ["--types=Warning"]),
        ("wait web --for=c", ["--for=condition=Ready", "--for=create"]),
        ("restart we", ["web"]),
        ("restart web ", ["worker"]),
        ("retry web -c ap", ["app"]),
        ("condition wor", ["worker"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("frobnicate ", []),
        ("worker --no", []),
    ],
)
def test_completion_offers_the_possible_next_words(typed: str, found: list[str]) -> None:
    words = typed.split()
    if typed.endswith(" ") or not words:
        words.append("")
    if " = " in typed:
        found = [f"--output={one}" for one in found]  # to bash, three words; the script takes off what is there
    assert candidates(program(), words) == found


FLEET = {
    "Pod": [("default", "api-1"), ("team", "db-1")],
    "Deployment": [("default", "api")],
    "DaemonSet": [],
    "Secret": [("default", "token")],
    "ConfigMap": [],
    "Node": [("", "n1"), ("", "n2")],
}
KINDS = ["pods", "deployments", "daemonsets", "configmaps", "secrets"]


@pytest.fixture
def of_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet whose server answers with the names of FLEET."""

    def keys(kind: str, namespace: str | None, _state_dir: str) -> list[tuple[str, str]]:
        return [key for key in FLEET[kind] if kind == "Node" or namespace in (None, key[0])]

    monkeypatch.setattr(fleet_candidates, "keys", keys)


@pytest.mark.usefixtures("of_fleet")
@pytest.mark.parametrize("first", ["fleet", "--fleet"])
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("des", ["describe"]),
        ("top ", ["pod", "node"]),
        ("rollout ", ["history", "undo", "status", "restart", "pause", "resume"]),
        ("get pods --n", ["--namespace", "--no-headers"]),
        ("drain --fo", ["--force"]),
        ("get ", [*KINDS, "nodes", "all"]),
        ("describe ", [*KINDS, "nodes"]),
        ("delete ", KINDS),
        ("apply --dry-run ", ["none", "client"]),
        ("delete --dry-run s", ["server"]),
        ("describe deploy ", ["api"]),
        ("get secrets ", ["token"]),
        ("describe node n1 ", ["n2"]),
        ("drain n1 ", ["n2"]),
        ("logs ", ["api-1"]),
        ("logs -n ", ["default", "team"]),
        ("logs -n team ", ["db-1"]),
        ("exec deployment/", ["deployment/api"]),
        ("exec api-1 --node ", ["n1", "n2"]),
        ("exec api-1 ", ["--"]),
        ("exec api-1 -c ", []),
        ("delete pod/api-1 pod/", []),
        ("rollout undo ", ["deployment", "daemonset"]),
        ("rollout undo deployment ", ["api"]),
        ("rollout undo deploy/a", ["deploy/api"]),
    ],
)
def test_completion_after_fleet_offers_what_the_fleet_has(
    first: str, typed: str, found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = typed.split()
    if typed.endswith(" "):
        words.append("")
    assert run([COMPLETE, first, *words]) == 0
    assert capsys.readouterr().out.split() == found


def test_completion_does_not_wait_for_a_fleet_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_work: Any, **_: Any) -> None:
        time.sleep(30)

    monkeypatch.setattr(fleet, "run", silent)
    monkeypatch.setattr(fleet_candidates, "_PATIENCE", 0.1)
    with pytest.raises(TimeoutError):
        fleet_candidates.keys("Pod", None, "")


def test_completion_offers_orphaned_pods_only_to_commands_that_handle_them(node: NodeContext) -> None:
    orphans = (Orphan(namespace="default", name="web", uid="u-web"), Orphan(kind="sandbox", id="5e1f"))
    write_node_report(node.state_dir, NodeReport(orphans=orphans))
    assert candidates(program(), ["logs", ""]) == ["worker"]
    assert candidates(program(), ["adopt", ""]) == candidates(program(), ["prune", ""]) == ["web"]
    assert candidates(program(), ["adopt", "--force", ""]) == ["worker"]


def test_completion_does_not_repeat_given_flags() -> None:
    offered = candidates(program(), ["logs", "--tail", "3", "-f", "--"])
    assert (
        "--tail" not in offered and "--follow" not in offered and {"--since", "--container", "--help"} <= set(offered)
    )


def test_completion_is_silent_if_nothing_can_be_read(
    node: NodeContext, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(node.state_dir / "none"))
    assert run([COMPLETE, "logs", ""]) == 0
    monkeypatch.setenv("SYNCPOD_STATE_DIR", "not/absolute")
    assert run([COMPLETE, "logs", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_completion_imports_no_other_command(node: NodeContext) -> None:
    start = started("__complete", "logs", "web", "-c", "", SYNCPOD_STATE_DIR=str(node.state_dir))
    assert start.out == "setup\napp\nproxy\n"
    assert start.heavy == set() and start.commands == {"completion_candidates", "logs"}


def test_completion_of_a_command_imports_none() -> None:
    start = started("__complete", "get")
    assert start.out == "get\n"
    assert start.heavy == set() and start.commands == {"completion_candidates"}


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `syncpod` is the command of this checkout."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "syncpod").write_text(f'#!/bin/sh\nexec {sys.executable} -m syncpod.cli.main "$@"\n')
    (directory / "syncpod").chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("logs", "w"), ["web", "worker"]),
        (("logs", "web", "-c", ""), ["setup", "app", "proxy"]),
        (("get", "--output", "=", "y"), ["yaml"]),
        (("get", "--output", "=", "jsonp"), ["jsonpath="]),
        (("apply", "-f", ""), []),
    ],
)
def test_bash_completes(on_path: dict[str, str], words: tuple[str, ...], found: list[str]) -> None:
    if shutil.which("bash") is None:
        do_without("bash", "there is none here")
    line = " ".join(f"'{word}'" for word in ("syncpod", *words))
    script = (
        f"{completion.SCRIPTS['bash']}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _syncpod\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=False, env=on_path, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (found, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_completion_script(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    done = subprocess.run(
        [program, "-n"], input=completion.SCRIPTS[shell], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_prints_the_script_of_the_named_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    assert capsys.readouterr().out == completion.SCRIPTS["bash"]
    assert run(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == "syncpod: tcsh: must be one of bash, zsh, fish\n"
