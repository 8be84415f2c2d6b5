"""Hiding values of Secrets in a text, in every encoding and across cuts, at a cost independent of their number."""

from __future__ import annotations

import base64
import json
import secrets
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod.go_text import go_quote
from syncpod.redaction import HEAD, OVERLAP, Redactor

LONG = "s3cret-" + "0123456789abcdef" * 20


def knowing(*values: str) -> Redactor:
    redactor = Redactor()
    redactor.add(values)
    return redactor


def without(text: str, *values: str) -> str:
    return knowing(*values).redact(text)


def test_a_secret_is_redacted_anywhere_and_as_others_quote_it() -> None:
    assert without('exec: "s3cret-token": not found', "s3cret-token") == 'exec: "***": not found'
    assert without("path /v/s3cret-token/x", "s3cret-token") == "path /v/***/x"
    assert without(r'exec: "two\nlines\t": no', "two\nlines\t\n") == r'exec: "***\t": no'
    assert without('cannot mount "a\\"b\\\\c"', 'a"b\\c') == 'cannot mount "***"'
    assert without("unsupported protocol scheme: tokenvalue", "TokenValue") == "unsupported protocol scheme: ***"
    assert without("value-of-a-secret: no", f"  {'value-of-a-secret'}\n") == "***: no"


@pytest.mark.parametrize("value", ["p<a>ss/wö&rd", "pass word+1/2=3", LONG], ids=["short", "signs", "long"])
@pytest.mark.parametrize(
    "written",
    [
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        repr,
        quote,
        lambda value: quote(value, safe=""),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
        lambda value: value.encode().decode("ascii", errors="backslashreplace"),
    ],
    ids=["json", "json as it is", "repr", "path", "query", "base64", "base64 of URLs", "escaped"],
)
def test_a_secret_is_redacted_in_every_encoding(written: Callable[[str], str], value: str) -> None:
    text = without(f"<{written(value)}>", value)
    assert text.startswith("<") and "***" in text and len(text) < 12, text


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "me:"])
def test_a_secret_within_a_text_in_base64_is_redacted_at_each_offset(before: str) -> None:
    value = secrets.token_hex(12)
    encoded = base64.b64encode(f"{before}{value}".encode()).decode()
    left = without(f"Basic {encoded}", value)
    assert "***" in left and len(left) <= len("Basic ***") + 8, left


def test_the_longer_of_two_overlapping_secrets_is_redacted_whole() -> None:
    assert without("password: hunter2hunter2", "hunter2", "hunter2hunter2") == "password: ***"
    assert without("password: hunter2hunter2-hunter2", "hunter2hunter2-hunter2", "hunter2") == "password: ***"
    assert without("is abcdefgh.", "abcdef", "defgh") == "is ***.", "none leaves a part of the other"


def test_a_short_secret_is_redacted_only_as_a_separate_word() -> None:
    assert without('concat: exec: "cat": not found', "cat") == 'concat: exec: "***": not found'
    assert without('pid 1234: exec: "123": no', "123") == 'pid 1234: exec: "***": no'


def test_very_short_secrets_are_not_redacted() -> None:
    assert without("runc failed: exit status 1", "1", "no", "\n") == "runc failed: exit status 1"


def test_nothing_is_redacted_without_known_secrets_or_for_an_empty_one() -> None:
    for values in ((), ("",), ("\n",)):
        assert without("as it was", *values) == "as it was"


@pytest.mark.parametrize("kept", [HEAD, HEAD + 1, 100, len(LONG) - 1])
def test_a_head_of_a_secret_that_somebody_else_has_cut_is_redacted(kept: int) -> None:
    assert without(f"malformed HTTP response {LONG[:kept]}", LONG) == "malformed HTTP response ***"


@pytest.mark.parametrize("value", ["four", "s3cret-token", LONG, LONG * 5], ids=["four", "token", "long", "longer"])
def test_no_cut_leaves_a_part_of_a_secret(value: str) -> None:
    redactor = knowing(value)
    text = f"Xx {value} Yy"
    for at in range(len(text)):
        # The reader of a long text reads OVERLAP characters beyond the part that is kept, and no more.
        head = redactor.part(text[: at + OVERLAP], 0, at)
        start = max(0, at - OVERLAP)
        tail = redactor.part(text[start:], at - start)
        assert len(head) <= at and len(tail) <= len(text) - at
        assert set(f"{head}{tail}") <= set("Xx Yy*"), (at, head, tail)


def test_a_text_without_secrets_is_cut_where_it_is_to_be() -> None:
    redactor = knowing(LONG)
    assert (redactor.part("abcdefgh", 2, 5), redactor.part("abcdefgh", 0, 50)) == ("cde", "abcdefgh")


def test_no_value_is_forgotten_however_many_there_are() -> None:
    redactor, values = Redactor(), [f"secret-number-{number:05}" for number in range(5000)]
    for some in (values[:10], values[10:]):
        redactor.add(some)
    assert {redactor.redact(value) for value in values} == {"***"}


def test_only_values_that_are_to_be_forgotten_are() -> None:
    redactor = knowing("first-value", "second-value")
    redactor.forget(redactor.known() - {"second-value"})
    assert redactor.redact("first-value second-value") == "first-value ***"


def lines_run(call: Callable[[], object]) -> int:
    """The number of lines of Python that a call executes, a measure of work without a clock."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_the_work_is_the_texts_length_and_not_the_number_of_secrets() -> None:
    text = secrets.token_hex(5000)
    one, many = Redactor(), Redactor()
    one.add([secrets.token_hex(20)])
    many.add(secrets.token_hex(20) for _ in range(2000))
    assert lines_run(lambda: many.redact(text)) < 1.2 * lines_run(lambda: one.redact(text)) + 100


def test_secrets_that_begin_alike_do_not_multiply_the_work() -> None:
    text = "a" * 5000
    few, many = Redactor(), Redactor()
    few.add("a" * length + "b" for length in range(20, 22))
    many.add("a" * length + "b" for length in range(20, 2000))
    assert many.redact(text) == "***"
    assert lines_run(lambda: many.redact(text)) < 3 * lines_run(lambda: few.redact(text))


class Counted(str):
    """A text that counts how much of it is copied."""

    copied = 0

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        Counted.copied += len(part)
        return part


def test_what_is_beyond_a_cut_is_not_looked_at() -> None:
    text = Counted("x" * 12_000_000)
    assert knowing(LONG).part(text, 0, 1000) == "x" * 1000
    assert Counted.copied < 50_000


@given(st.text(min_size=4).filter(lambda word: word == word.strip()))
def test_a_secret_in_a_go_quoted_string_is_redacted_whole(word: str) -> None:
    assert without(f"<{go_quote(word)}>", word) == '<"***">'
