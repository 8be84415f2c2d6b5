"""A list of manifests is measured as its node measures it, without measuring each document again for each new pod."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.agent.node_workflow import early_changes
from syncpod.agent.node_workflow.early_changes import DocumentSizes
from syncpod.messages.node import document_size


def test_only_the_new_documents_of_a_list_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def counted(document: dict[str, Any]) -> int:
        measured.append(document["name"])
        return document_size(document)

    monkeypatch.setattr(early_changes, "document_size", counted)
    a, b, c = ({"name": name, "says": "é" * 100} for name in "abc")
    sizes = DocumentSizes()
    assert sizes.all_of((a, b)) == document_size(a) + document_size(b)
    assert sizes.all_of((b, c)) == document_size(b) + document_size(c)
    assert measured == ["a", "b", "c"]
    assert sizes.all_of((a,)) == document_size(a) > 600
    assert measured == ["a", "b", "c", "a"], "a document that is gone is not kept, since its id may become another's"
