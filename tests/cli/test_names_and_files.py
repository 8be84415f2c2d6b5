"""Names of pods and files on a command line: none is empty, a kind is of any case, and -f takes a list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.main import run
from syncpod.cli.program import program
from tests.cli.manifests import manifest

NAMELESS = "logs|exec @ -- ls|attach|port-forward @ 80|get|get pod|describe|describe po|delete|delete pod|edit|explain"
OTHERS = "patch @ -p {}|label @ a=b|annotate pod @ a=b|resize @ --limits cpu=1|restart|retry|top pod|plan|prune|adopt"
LAST = "history|events|events pod a|debug @ --image=b|wait --for=delete|replay|condition @ a=True|get pod a|delete po a"
OF_OTHER_KINDS = {"get cm": "configmap", "delete secret": "secret", "get node": "node", "top node": "node"}
LAST_WORDS = "write the command last, behind --: "
SINCE_OPTIONS = "write -- before the command, since it has options: "
WITH_FILES = ("apply", "create", "plan", "delete", "get", "wait --for=delete", "adopt", "fleet apply", "fleet delete")


def refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence of a command that is refused before it does anything."""
    assert run(line) == 2, line
    out, err = capsys.readouterr()
    assert out == "", line
    return err.removeprefix("syncpod: ").rstrip("\n")


@pytest.mark.parametrize("line", "|".join((NAMELESS, OTHERS, LAST)).split("|"))
def test_an_empty_name_of_a_pod_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["" if word == "@" else word for word in line.split()]
    assert refused(words if "" in words else [*words, ""], capsys) == "'': the pod's name is missing"


@pytest.mark.parametrize("line", OF_OTHER_KINDS)
def test_an_empty_name_of_another_object_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused([*line.split(), ""], capsys) == f"'': the {OF_OTHER_KINDS[line]}'s name is missing"


@pytest.mark.parametrize("line", WITH_FILES)
@pytest.mark.parametrize("given", ["", ",", "pod.json,"])
def test_an_empty_file_name_is_not_the_current_directory(
    line: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(manifest("web")))
    monkeypatch.chdir(tmp_path)
    assert refused([*line.split(), "-f", given], capsys) == "-f: the name of a file is missing"


def test_an_empty_source_of_a_configmap_is_not_the_current_directory(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["create", "cm", "a", "--dry-run=client", "--from-file"]
    assert refused([*line, ""], capsys) == "--from-file: the name of a file is missing"


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        ("-f a.yaml,b.yaml -f c.yaml", ["a.yaml", "b.yaml", "c.yaml"]),
        ('-f "a,b.yaml",c.yaml', ["a,b.yaml", "c.yaml"]),
        ("-f a.yaml", ["a.yaml"]),
        ("-f -", ["-"]),
    ],
)
def test_files_are_listed_with_commas_as_with_kubectl(line: str, sources: list[str]) -> None:
    assert parsed(f"delete {line}")["filename"] == sources
    assert parsed(f"apply {line}")["filename"] == sources


def parsed(line: str) -> dict[str, Any]:
    """The arguments with which a command is called."""
    name, *words = line.split()
    found: dict[str, Any] = program().commands[name].make_context(name, words).params
    return found


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("get Pod/web", "get pod/web"),
        ("get Pod web", "get pod web"),
        ("get Pods,ConfigMaps", "get pods,configmaps"),
        ("get Web", "get Web"),
        ("get Web/a", "get Web/a"),
        ("delete CM/Web SECRET/b", "delete cm/Web secret/b"),
        ("describe Node n1", "describe node n1"),
        ("cordon Node/n1", "cordon node/n1"),
        ("tree NODE/n1", "tree node/n1"),
        ("logs Pod/web", "logs pod/web"),
        ("exec Pod/web -- ls Pod/x", "exec pod/web -- ls Pod/x"),
        ("exec Deploy/web -- ls", "exec deploy/web -- ls"),
        ("exec Pod -- ls", "exec Pod -- ls"),
        ("label Pod web a=Pod/x", "label pod web a=Pod/x"),
        ("events --for Pod/web", "events --for pod/web"),
        ("condition Pod web a=True", "condition pod web a=True"),
    ],
)
def test_kinds_are_taken_in_any_case(line: str, same: str) -> None:
    assert parsed(line) == parsed(same)


def test_kinds_of_a_fleet_are_taken_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["get", "Deployment", "web"], capsys).startswith("'deployment': a fleet has them: ")
    assert refused(["exec", "Deployments.apps/web", "--", "ls"], capsys).startswith("'deployments.apps/web': ")


@pytest.mark.parametrize("line", ["run web -i --image=b", "run web -it --image=b", "debug web -i --image=b"])
def test_a_closed_input_is_refused_before_anything_is_done(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refused(line.split(), capsys) == "standard input is closed"


@pytest.mark.parametrize("line", ["apply -f -", "delete -f -", "fleet apply -f -", "replay -f -", "join -"])
def test_a_closed_input_is_no_manifest(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refused(line.split(), capsys) == "standard input is closed"


@pytest.mark.parametrize("line", ["delete", "get", "wait --for=delete", "create", "apply"])
def test_a_manifest_without_a_name_is_refused_in_the_same_words(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(manifest("") | {"metadata": {"generateName": "web-"}}))
    sentence = f"{path}: metadata.name: required; a name is not generated here"
    assert refused([*line.split(), "-f", str(path)], capsys) == sentence


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("run x y --image b --rm -i", f"{LAST_WORDS}syncpod run x --image b --rm -i -- y"),
        ("run x y -n a --image=b", f"{LAST_WORDS}syncpod run x -n a --image=b -- y"),
        ("run x ls -l --image=b", f"{SINCE_OPTIONS}syncpod run x --image=b -- ls -l ("),
        ("run x --image=b ls -l", f"{SINCE_OPTIONS}syncpod run x --image=b -- ls -l ("),
    ],
)
def test_our_own_options_are_not_proposed_as_those_of_the_program(
    line: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(line.split(), capsys).startswith(right)
