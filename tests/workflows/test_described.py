"""A signal or an update without a payload is told what would be one."""

from __future__ import annotations

import pytest

from workflows.described import wrong_number


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("delete_pod", 0, "takes one payload, got 0: `{}` is one"),
        ("resize", 0, "takes one payload, got 0: `{}` is one"),
        ("apply", 0, "takes one payload, got 0: a v1 Pod is one"),
        ("add_ephemeral_container", 0, "takes one payload, got 0: a v1 EphemeralContainer is one"),
        ("delete_pod", 2, "takes one payload, got 2"),
    ],
)
def test_a_wrong_number_of_payloads_names_one_that_is_right(name: str, given: int, says: str) -> None:
    assert wrong_number(name, given) == says
