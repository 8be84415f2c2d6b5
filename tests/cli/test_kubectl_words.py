"""The order of kubectl's arguments, and its other names for things."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from syncpod.cli.failure import BadInput
from syncpod.cli.input.kind_words import CONFIG_MAP_WORDS, NODE_WORDS, POD_WORDS, SECRET_WORDS
from syncpod.cli.input.kubectl_words import arranged, no_such_pod, refuse_word
from syncpod.cli.main import run
from syncpod.cli.program import program


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("-n prod get pods", "get -n prod pods"),
        ("-nprod exec web -- ls -n x", "exec -nprod web -- ls -n x"),
        ("--namespace=prod create secret generic a", "create secret generic --namespace=prod a"),
        ("get events -A", "events -A"),
        ("get all -l a=b", "get pods -l a=b"),
        ("get events.db", "get events.db"),
        ("describe all", "describe all"),
        ("--help", "--help"),
        ("-n", "-n"),
        ("", ""),
    ],
)
def test_kubectl_word_order_is_accepted(line: str, same: str) -> None:
    assert arranged(program(), line.split()) == same.split()


def test_a_kinds_words_are_written_in_one_place() -> None:
    room = Path(__file__).parents[2] / "syncpod" / "cli"
    tuples = [
        (path.relative_to(room).as_posix(), {each.value for each in node.elts if isinstance(each, ast.Constant)})
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple)
    ]
    for words in (POD_WORDS, NODE_WORDS, CONFIG_MAP_WORDS, SECRET_WORDS):
        assert [path for path, spelt in tuples if spelt == set(words)] == ["input/kind_words.py"]


def test_destructive_commands_are_not_suggested_for_similar_words() -> None:
    for word in ("run", "rune", "rain", "gown"):
        with pytest.raises(BadInput) as refused:
            refuse_word(word, ["down", "prune", "drain"])
        assert "Did you mean" not in str(refused.value)
    with pytest.raises(BadInput, match="Did you mean 'drain'"):
        refuse_word("drian", ["down", "drain"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fleet scale deployment/web", "'scale' is not a command of a fleet: set `replicas` in the manifest, and "),
        (
            "fleet label node n1 disk=ssd",
            "'label' is not a command of a fleet: change it in the manifest, and `syncpod fleet apply -f FILE` again; "
            "a node's labels are those of `syncpod up --node-labels`, on the node",
        ),
        ("fleet create -f a.yaml", "'create' is not a command of a fleet: `syncpod fleet apply -f FILE` creates"),
        ("fleet gett pods", "No such command 'gett'. Did you mean 'get'?; see `syncpod fleet --help`"),
        (
            "fleet rollout stats",
            "No such command 'stats'. Did you mean 'status', 'restart'?; see `syncpod fleet rollout",
        ),
        ("fleet key scale", "No such command 'scale'; see `syncpod fleet key --help`"),
        ("fleet retir", "No such command 'retir'. Did you mean 'retire'?"),
        ("fleet remov", "No such command 'remov'. Did you mean 'remove'?"),
        (
            "fleet tree",
            "'tree' is not a command of a fleet: `syncpod fleet get pods -o wide` lists the pods of all nodes",
        ),
        ("fleet create", "'create' is not a command of a fleet: "),
        ("fleet cordon -l a=b", "No such option: -l: name the nodes: `syncpod fleet get nodes -l SELECTOR -o name`"),
    ],
)
def test_what_a_fleet_lacks_of_kubectl_is_told_with_what_there_is_instead(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"syncpod: {said}")


def test_a_pod_that_is_called_like_a_manifest_is_missed_with_the_flag_for_one() -> None:
    assert no_such_pod("web", "a") == 'pods "web" not found in namespace a'
    assert no_such_pod("web.yaml", "a").endswith(" not found in namespace a: a manifest is named with -f FILE")
