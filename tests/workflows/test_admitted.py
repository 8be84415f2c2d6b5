"""The admission of a document that arrives again within one task."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.pod import Admission, PodInvalid, admit
from workflows.pod import desired as module
from workflows.pod.desired import admitted


def document(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}


@pytest.fixture
def admissions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []

    def counted(given: Any) -> Admission:
        seen.append(given)
        return admit(given)

    module._admitted.cache_clear()
    monkeypatch.setattr(module, "admit", counted)
    return seen


def test_the_same_document_is_admitted_once_and_another_one_anew(admissions: list[Any]) -> None:
    assert admitted(document("a")) == admitted(document("a")) == admit(document("a"))
    assert len(admissions) == 1
    assert admitted(document("a", hostNetwork=True)).pod.spec.host_network
    assert len(admissions) == 2


def test_what_is_refused_is_refused_each_time_in_the_same_words(admissions: list[Any]) -> None:
    wrong = document("a", hostNetwork=1)
    with pytest.raises(PodInvalid) as plainly:
        admit(wrong)
    for _ in range(2):
        with pytest.raises(PodInvalid) as refused:
            admitted(wrong)
        assert str(refused.value) == str(plainly.value)


@pytest.mark.parametrize("odd", [{1, 2}, {"metadata": {"name": 10**5000}}, "text", None])
def test_what_is_no_document_is_refused_as_its_admission_does(odd: Any) -> None:
    with pytest.raises(PodInvalid) as plainly:
        admit(odd)
    with pytest.raises(PodInvalid) as refused:
        admitted(odd)
    assert str(refused.value) == str(plainly.value)


def test_a_large_document_is_not_kept(admissions: list[Any]) -> None:
    large = document("a") | {"metadata": {"name": "a", "annotations": {"a": "x" * module._LONGEST_REMEMBERED}}}
    assert admitted(large) == admitted(large)
    assert len(admissions) == 2
