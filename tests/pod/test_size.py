"""The largest pod that its workflow can carry from run to run.

Holds: No limit of the server is exceeded.
"""

from __future__ import annotations

import pytest

from syncpod.pod import PodInvalid, admit, readmit
from tests.pod.examples import changed

LARGEST = 524_288


@pytest.mark.parametrize("letter", ["x", "ä"])
def test_a_pod_that_exceeds_the_size_limit_in_utf_8_bytes_is_refused(letter: str) -> None:
    """A letter counts as what it is in UTF-8. Five words, since Linux takes no single one of that size."""
    fits = (LARGEST // len(letter.encode()) - 2_000) // 5
    admit(changed({"spec.containers.0.args": [letter * fits] * 5}))
    with pytest.raises(
        PodInvalid, match=r"^pod: must be no more than 524288 bytes as JSON, with its defaults; it is \d+$"
    ):
        admit(changed({"spec.containers.0.args": [letter * (fits + 400)] * 5}))


def test_an_oversized_pod_that_was_admitted_before_is_admitted_again() -> None:
    readmit(changed({"spec.containers.0.args": ["x" * LARGEST]}))
