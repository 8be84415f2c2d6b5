"""Flags and paths that commands refuse before they contact a server."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client

from syncpod.cli.actions import restart
from syncpod.cli.failure import BAD_INPUT, Failure
from syncpod.cli.main import run
from syncpod.cli.temporal import session
from syncpod.pod import Pod, admit_pod
from tests.cli.manifests import manifest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("port-forward", "web", "80", "--address", ""), "--address: name where to listen"),
        (("port-forward", "web", "80", "--address", ",", "--address", ""), "--address: name where to listen"),
        (("debug", "web", "--image", "i", "--share-processes"), "--share-processes needs --copy-to"),
        (("debug", "web", "--image", "i", "--no-share-processes"), "--no-share-processes needs --copy-to"),
        (("debug", "web", "--image", "UPPER CASE"), "--image: 'UPPER CASE' is not an image name"),
        (("debug", "web", "--image", "BusyBox", "--copy-to", "b"), "--image: 'BusyBox' is not an image name"),
        (("debug", "web", "--image", "i", "--replace"), "--replace needs --copy-to"),
        (("debug", "web", "--image", "i", "--same-node"), "--same-node needs --copy-to"),
        (("debug", "web", "--set-image", "app=i"), "--set-image needs --copy-to"),
        (("debug", "web", "--image", "i", "--keep-labels"), "--keep-labels needs --copy-to"),
        (("debug", "web", "--image", "i", "--keep-startup"), "--keep-startup needs --copy-to"),
        (("debug", "web", "--image", "i", "--keep-init-containers=false"), "--no-keep-init-containers needs --copy-to"),
        (("debug", "web", "--copy-to", "b"), "--copy-to needs what is to differ in the copy: --image, --set-image or"),
        (("debug", "web", "--copy-to", "b", "-c", "app"), "--copy-to needs what is to differ in the copy: --image, "),
        (("debug", "web", "--copy-to", "b", "--", "sh"), "name the container that runs the command with --container"),
        (("debug", "web", "--copy-to", "b", "--set-image", "app"), "--set-image: 'app': must be NAME=IMAGE"),
        (("debug", "web", "--copy-to", "b", "--set-image", "a=i", "--attach"), "--attach needs a container: name one"),
        (("debug", "web", "--image", "i", "--custom", "f"), "No such option: --custom: profiles are taken as they are"),
        (("debug", "-f", "pod.yaml", "--image", "i"), "No such option: -f: name the pod"),
        (("debug", "rs"), "name an image: syncpod debug rs --image IMAGE"),
        (("exec", "svc"), "say what to run: syncpod exec svc -- COMMAND"),
        (("exec", "pod"), "say what to run: syncpod exec pod -- COMMAND"),
        (("load", "/nosuch"), "/nosuch: No such file or directory"),
        (("up", "--manifests", "/nosuch"), "manifest directory /nosuch: No such file or directory"),
        (("up", "--manifests", "/etc/hosts"), "manifest directory /etc/hosts: is not a directory"),
        (("get", "node/"), "'node/': the node's name is missing"),
        (("describe", "nodes", "pod/a"), "'pod/a': only nodes can be named here, as NAME or node/NAME"),
        (("cordon", "nodes"), "name a node"),
        (("cordon", "a", "no/"), "'no/': the node's name is missing"),
        (("drain", "nodes"), "name a node"),
        (("drain", "pod/web"), "'pod/web': only nodes can be named here, as NAME or node/NAME"),
        (
            ("get", "pods,nodes"),
            "'nodes': nodes have a table of their own: `syncpod get nodes`; a pod of that name is pod/nodes",
        ),
        (("get", "po", "node/a"), "'node/a': nodes have a table of their own: `syncpod get nodes`"),
        (("get", "no/a", "pod/b"), "'no/a': nodes have a table of their own: `syncpod get nodes`"),
        (("describe", "pod,node", "web"), "'node': nodes are described by themselves: `syncpod describe node NAME`"),
        (("describe", "pod/a", "node/b"), "'node/b': nodes are described by themselves: `syncpod describe node NAME`"),
        (
            ("fleet", "get", ""),
            "KIND: must be nodes, pods, deployments, daemonsets, configmaps, secrets or all, not ''",
        ),
        (("apply", "-f", "-", "--dry-run="), "--dry-run: must be none, client or server, not ''"),
        (("explain", "web", "--start", "--restart", "-1"), "--restart: must be 0 or more: the number that `syncpod"),
        (("fleet", "explain", "web", "--start", "--restart", "-1"), "--restart: must be 0 or more: the number that"),
        (("logs", "web", "--limit-bytes", "-1"), "--limit-bytes: must be 0 or more bytes; 0 = all"),
        (("fleet", "describe", "pods,cm", "-l", "app=x"), "--selector: not for a ConfigMap: its labels are sealed"),
        (("top", "node", "--sort-by", "name"), "--sort-by: must be cpu or memory, not name"),
        (("wait", "node/a", "--for", "delete"), "'node/a': `syncpod get node NAME -w` shows what changes"),
        (("adopt",), "name pods, or say --all"),
        (("adopt", "web", "--all"), "name pods, or say --all"),
        (("prune",), "name pods, or say --all"),
        (("prune", "web", "--all"), "name pods, or say --all"),
        (("cp", "--retries", "0", "/etc/hosts", "web:/tmp"), "--retries is for a copy out of a container"),
        (("cp", "--no-preserve", "web:/etc/hosts", "hosts"), "--no-preserve is for a copy into a container"),
        (("cp", "/etc/hosts/none", "web:/tmp"), "/etc/hosts/none: there is no such file or directory here"),
        (("cp", f"/{'x' * 300}", "web:/tmp"), f"/{'x' * 300}: File name too long"),
        (("wait", "web", "--for=condition=Ready", "--timeout", "99999999999h"), "--timeout: '99999999999h' is too"),
        (("delete", "--all"), "--all: say of which kind: `syncpod delete pods --all`, or configmaps, or secrets"),
        (("delete", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all"),
        (("delete", "pods", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all"),
        (("delete", "cm,secrets", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all"),
        (("delete", "pod", "web", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all selects"),
        (("delete", "-f", "/etc/hosts", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all"),
        (("delete", "pods", "--all", "-l", "app=x"), "say what to delete, in one of these ways"),
        (
            ("delete", "pods", "--all", "--field-selector", "metadata.name=x"),
            "say what to delete, in one of these ways",
        ),
        (("fleet", "delete", "pods", "-A"), "--all-namespaces: is for objects that -l, --field-selector or --all"),
        (
            ("fleet", "delete", "deployments", "-A"),
            "--all-namespaces: is for objects that -l, --field-selector or --all",
        ),
        (("fleet", "delete", "pods", "--all", "-l", "app=x"), "say what to delete, in one of these ways"),
        (("wait", "pods", "-A", "--for", "delete"), "--all-namespaces: is for pods that -l or --all selects"),
        (("wait", "--all", "-l", "app=x", "--for", "delete"), "say which pods to wait for, in one of these ways"),
        (("label", "pods", "--all", "-l", "app=x", "a=b"), "name pods, or choose them with --selector or --all"),
        (("logs", "deploy/web"), "'deploy/web': only pods have logs: name one, or choose the pods by their labels"),
        (("logs", "job/web", "app"), "'job/web': only pods have logs"),
        (("logs", "web", "--since", "20000000h"), "--since: '20000000h' is too long a duration"),
    ],
)
def test_ineffective_or_contradictory_flags_are_refused_by_name(
    words: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path / "state"))
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"syncpod: {sentence}") and said.err.count("\n") == 1 and said.out == ""


def test_an_inaccessible_source_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if str(path) == "/shut/file":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    assert run(("cp", "/shut/file", "web:/tmp")) == 2
    assert capsys.readouterr().err == "syncpod: /shut/file: Permission denied\n"


def test_a_restart_of_an_init_container_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    document = manifest("web", initContainers=[{"name": "setup", "image": "busybox:1"}])

    async def pod_to_signal(*_: object) -> Pod:
        return admit_pod(document)

    async def sent(*_: object) -> None:
        pytest.fail("a signal was sent, and stands in the pod's history")

    monkeypatch.setattr(session, "run", lambda work: asyncio.run(work(cast("Client", None))))
    monkeypatch.setattr(restart, "pod_to_signal", pod_to_signal)
    monkeypatch.setattr(restart, "signal", sent)
    with pytest.raises(Failure, match='container "setup" of pod "web" is an init container') as refused:
        restart.restart_pods("default", ["web"], "setup", None, wait=False)
    assert refused.value.code == BAD_INPUT
