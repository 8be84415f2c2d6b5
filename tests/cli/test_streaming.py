"""What the runtime says of how a command ended."""

from __future__ import annotations

import json

import pytest

from syncpod.cli.streaming import StreamBroken, exit_code


def test_success_is_0() -> None:
    assert exit_code(b'{"metadata":{},"status":"Success"}') == 0


def test_the_exit_code_is_passed_on() -> None:
    causes = [{"reason": "ExitCode", "message": "7"}]
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    assert exit_code(json.dumps(status).encode()) == 7


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (b'{"status":"Failure","message":"no such file"}', "no such file"),
        (b'{"status":"Failure","details":null}', "not why"),
        (b"plain words\n", "plain words"),
    ],
)
def test_a_command_that_never_ran_says_why(status: bytes, sentence: str) -> None:
    with pytest.raises(StreamBroken, match=sentence):
        exit_code(status)
