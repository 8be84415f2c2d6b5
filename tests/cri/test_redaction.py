"""Redacting the values of Secrets from a runtime's texts."""

from hypothesis import given
from hypothesis import strategies as st

from syncpod.cri.redaction import Redactor
from syncpod.pod.go_text import go_quote


def without(text: str, *words: str) -> str:
    redactor = Redactor()
    redactor.add(words)
    return redactor.redact(text)


def test_a_secret_is_redacted_anywhere_and_in_every_encoding() -> None:
    assert without('exec: "s3cret-token": not found', "s3cret-token") == 'exec: "***": not found'
    assert without("path /v/s3cret-token/x", "s3cret-token") == "path /v/***/x"
    assert without(r'exec: "two\nlines\t": no', "two\nlines\t\n") == r'exec: "***\t": no'
    assert without('cannot mount "a\\"b\\\\c"', 'a"b\\c') == 'cannot mount "***"'


def test_the_longer_of_two_overlapping_secrets_is_redacted_whole() -> None:
    assert without("password: hunter2hunter2", "hunter2", "hunter2hunter2") == "password: ***"


def test_a_short_secret_is_redacted_only_as_a_separate_word() -> None:
    assert without('concat: exec: "cat": not found', "cat") == 'concat: exec: "***": not found'
    assert without('pid 1234: exec: "123": no', "123") == 'pid 1234: exec: "***": no'


def test_very_short_secrets_are_not_redacted() -> None:
    assert without("runc failed: exit status 1", "1", "no", "\n") == "runc failed: exit status 1"


def test_nothing_is_redacted_without_known_secrets_or_for_an_empty_one() -> None:
    assert without("as it was") == "as it was"
    assert without("as it was", "") == "as it was"
    assert without("as it was", "\n") == "as it was"


def test_the_newest_of_too_many_secrets_stay_redacted() -> None:
    redactor = Redactor()
    redactor.add(f"secret-number-{number}" for number in range(5000))
    assert redactor.redact("secret-number-4999") == "***"


@given(st.text(min_size=4).filter(lambda word: word == word.strip()))
def test_a_secret_in_a_go_quoted_string_is_redacted_whole(word: str) -> None:
    assert without(f"<{go_quote(word)}>", word) == '<"***">'
