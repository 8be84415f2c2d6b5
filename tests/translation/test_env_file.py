"""Files of variables, parsed as by the kubelet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.translation.env_file import EnvFileInvalid, EnvFileReader, _Lines

VALUES: dict[str, tuple[bytes, bytes]] = {
    "a value": (b"A='1'\n", b"1"),
    "without an end of line": (b"A='1'", b"1"),
    "one of several": (b"B='2'\nA='1'\nC='3'\n", b"1"),
    "the first of its name": (b"A='1'\nA='2'\n", b"1"),
    "an empty one": (b"A=''\n", b""),
    "none": (b"B='2'\n", b""),
    "an empty file": (b"", b""),
    "a name that another begins with": (b"AB='2'\nA='1'\n", b"1"),
    "indented": (b" \t A='1'\n", b"1"),
    "among comments and blank lines": (b"# A='0'\n\n  \n  # more\nA='1' # A='2'\n", b"1"),
    "a comment right behind it": (b"A='1'#x\n", b"1"),
    "over lines": (b"A='one\n  two\n\nthree' # done\n", b"one\n  two\n\nthree"),
    "what means something to a shell": (b"A='$HOME \\n \"x\" = #'\n", b'$HOME \\n "x" = #'),
    "with a blank before it": (b"A= '1'\n", b""),
    "with a blank before it, and rubbish": (b"A= 1'2\n", b""),
    "another with a blank before it": (b"B= x\nA='1'\n", b"1"),
    "from another system": (b"A='1'\r\nB='2'\r\n", b"1"),
    "a carriage return inside is kept": (b"A='1\r2'\n", b"1\r2"),
    "bytes that are not text": (b"A='\xff\x00'\n", b"\xff\x00"),
    "a name with what the kubelet does not mind": (b"A='1'\na b-c.d='2'\n", b"1"),
    "rubbish behind the line that counts": (b"A='1'\nnonsense\n", b"1"),
}


@pytest.mark.parametrize(("content", "value"), VALUES.values(), ids=VALUES)
def test_a_variable_is_read_from_an_env_file(content: bytes, value: bytes) -> None:
    assert EnvFileReader(content).value("A") == value


INVALID = {
    "no equals sign": (b"# x\nA\n", "line 2 must have an equals sign"),
    "no name": (b"='1'\n", "line 1 must begin with the name"),
    "a blank before the equals sign": (b"A ='1'\n", "line 1 must begin with the name"),
    "a blank name": (b"  ='1'\n", "line 1 must begin with the name"),
    "no quotes": (b"A=1\n", "line 1 must have its value in single quotes"),
    "double quotes": (b'A="1"\n', "line 1 must have its value in single quotes"),
    "nothing at all": (b"A=\n", "line 1 must have its value in single quotes"),
    "an export": (b"export A='1'\nB=1\n", "line 2 must have its value"),
    "something behind the quote": (b"A='1' 2\n", "line 1 must have nothing but a comment"),
    "no closing quote": (b"A='1\n2\n", "line 2 must be followed by the closing quote"),
    "a line without end": (b"A='" + b"x" * 65536 + b"'\n", "line 1 must have fewer than 65536 bytes"),
    "rubbish before the line that counts": (b"nonsense\nA='1'\n", "line 1 must have an equals sign"),
}


@pytest.mark.parametrize(("content", "message"), INVALID.values(), ids=INVALID)
def test_an_invalid_env_file_is_refused_with_its_line(content: bytes, message: str) -> None:
    with pytest.raises(EnvFileInvalid, match=message):
        EnvFileReader(content).value("A")


def test_the_refusal_omits_the_content_of_the_file() -> None:
    with pytest.raises(EnvFileInvalid) as refused:
        EnvFileReader(b"PASSWORD=s3cret\n").value("PASSWORD")
    assert "s3cret" not in str(refused.value)


@given(st.binary(max_size=200).filter(lambda value: b"'" not in value and b"\r" not in value), st.binary(max_size=20))
def test_quoted_values_are_read_verbatim(value: bytes, before: bytes) -> None:
    comment = b"# " + before.replace(b"\n", b" ") + b"\n"
    assert EnvFileReader(comment + b"KEY='" + value + b"'\n").value("KEY") == value


def test_each_line_is_read_once_however_many_variables_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read, following = 0, _Lines.next

    def counted(lines: _Lines) -> bytes | None:
        nonlocal read
        read += 1
        return following(lines)

    monkeypatch.setattr(_Lines, "next", counted)
    file = EnvFileReader(b"".join(b"N%d='%d'\n" % (number, number) for number in range(1000)))
    assert [file.value(f"N{number}") for number in range(999, -1, -1)] == [b"%d" % each for each in range(999, -1, -1)]
    assert file.value("NONE") == b""
    assert read <= 1002


def test_what_comes_before_an_invalid_line_stays_readable_and_the_rest_is_refused_each_time() -> None:
    file = EnvFileReader(b"A='1'\nnonsense\nB='2'\n")
    for _ in range(2):
        with pytest.raises(EnvFileInvalid, match="line 2"):
            file.value("B")
        assert file.value("A") == b"1"
