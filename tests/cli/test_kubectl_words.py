"""The order in which kubectl takes its words, and what it calls by another name."""

from __future__ import annotations

import pytest

from syncpod.cli.failure import BadInput
from syncpod.cli.input.kubectl_words import arranged, refuse_word
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


def test_destructive_commands_are_not_suggested_for_similar_words() -> None:
    for word in ("run", "rune", "rain", "gown"):
        with pytest.raises(BadInput) as refused:
            refuse_word(word, ["down", "prune", "drain"])
        assert "Did you mean" not in str(refused.value)
    with pytest.raises(BadInput, match="Did you mean 'drain'"):
        refuse_word("drian", ["down", "drain"])
