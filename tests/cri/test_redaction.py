"""Redacting the values of Secrets from a runtime's texts."""

from hypothesis import given
from hypothesis import strategies as st

from syncpod.cri.redaction import Redactor
from syncpod.pod.go_text import go_quote


def without(text: str, *words: str) -> str:
    redactor = Redactor()
    redactor.add(words)
    return redactor.redact(text)


def test_a_word_is_hidden_wherever_it_stands_and_however_it_is_written() -> None:
    assert without('exec: "s3cret-token": not found', "s3cret-token") == 'exec: "***": not found'
    assert without("path /v/s3cret-token/x", "s3cret-token") == "path /v/***/x"
    assert without(r'exec: "two\nlines\t": no', "two\nlines\t\n") == r'exec: "***\t": no'
    assert without('cannot mount "a\\"b\\\\c"', 'a"b\\c') == 'cannot mount "***"'


def test_the_longer_of_two_words_is_hidden_whole() -> None:
    assert without("password: hunter2hunter2", "hunter2", "hunter2hunter2") == "password: ***"


def test_a_short_word_is_hidden_only_where_it_stands_alone() -> None:
    assert without('concat: exec: "cat": not found', "cat") == 'concat: exec: "***": not found'
    assert without('pid 1234: exec: "123": no', "123") == 'pid 1234: exec: "***": no'


def test_shorter_words_are_not_hidden() -> None:
    assert without("runc failed: exit status 1", "1", "no", "\n") == "runc failed: exit status 1"


def test_nothing_is_hidden_where_nothing_is_known_or_the_word_is_empty() -> None:
    assert without("as it was") == "as it was"
    assert without("as it was", "") == "as it was"
    assert without("as it was", "\n") == "as it was"


def test_the_newest_of_many_words_stay_hidden() -> None:
    redactor = Redactor()
    redactor.add(f"secret-number-{number}" for number in range(5000))
    assert redactor.redact("secret-number-4999") == "***"


@given(st.text(min_size=4).filter(lambda word: word == word.strip()))
def test_what_go_quotes_is_hidden_whole(word: str) -> None:
    assert without(f"<{go_quote(word)}>", word) == '<"***">'
