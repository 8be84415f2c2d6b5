"""The output of a command becomes a message; of a long output only the beginning is read."""

from __future__ import annotations

from typing import Any

from syncpod.handlers.answer import BODY_LIMIT, shortened, written
from syncpod.redaction import HEAD, of_process

TOKEN = "s3cret-token-of-some-length"


class Counted(bytes):
    """Bytes that count how many of them are copied."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        Counted.copied += len(part)
        return part


def test_only_the_beginning_of_a_long_output_is_looked_at() -> None:
    of_process.add([TOKEN])
    Counted.copied = 0
    output = written(Counted(b"x" * 12_000_000), Counted(b"y" * 12_000_000))
    assert output == "x" * BODY_LIMIT
    assert Counted.copied < 3 * BODY_LIMIT


def test_both_streams_are_told_in_their_order() -> None:
    of_process.add([TOKEN])
    assert written(b"out \xff ", f"err {TOKEN}".encode()) == "out \ufffd err ***"


def test_the_end_of_what_is_told_shows_no_part_of_a_secret() -> None:
    of_process.add([TOKEN])
    for shown in range(1, len(TOKEN)):
        output = written(b"x" * (BODY_LIMIT - shown) + TOKEN.encode() + b" and more")
        assert output == "x" * (BODY_LIMIT - shown) + "***"[:shown]


def test_a_cut_within_a_character_shows_no_part_of_a_secret() -> None:
    of_process.add([secret := "é" * (HEAD + 4)])
    for limit in range(5, 30):
        assert set(shortened(f"abc {secret}".encode(), limit)) <= set("abc *")
