"""YAML that is written is read back as it was, by every reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod.yaml_stream import read_yaml
from syncpod.yaml_text import yaml_text

OF_1_1 = "y n Y N yes No ON off true False ~ null NULL 0o17 0O7 017 08 0X1F 0x1f 0B1 0b1 1_000 190:20:30 1:2.5 <<"
OF_NUMBERS = "1e3 1E5 1.5e3 12e03 1e-7 0e0 1.e3 1. .5 -.5 +.5 -1 +1 1.0 0 00 -0 1e400 12345678901234567890 0x1p-2 1,000"
OTHERS = (
    ".inf -.INF .nan NaN inf Infinity = 2026-11-30 2026-1-2 2026-11-30T18:55:40Z - ? : @x `x %x !x &x *x #x {x [x |"
)
SCALARS = [
    *OF_1_1.split(),
    *OF_NUMBERS.split(),
    *OTHERS.split(),
    "",
    " ",
    " x",
    "x ",
    "a: b",
    "a #b",
    "---",
    "...",
    "\ufeff",
]
PLAIN = [
    "web",
    "10.0.0.1",
    "busybox:1",
    "100Mi",
    "250m",
    "1.36.0",
    "1h30m",
    "a=b",
    "/bin/sh",
    "nginx@sha256:12e3",
    "v1",
]

TEXTS = st.text() | st.sampled_from(SCALARS) | st.from_regex(r"[-+]?[0-9a-fxobeE_.:,\n -]{1,8}", fullmatch=True)


def read(text: str) -> Any:
    (document,) = read_yaml(text)
    return document


@pytest.mark.parametrize("text", SCALARS)
def test_a_text_that_a_reader_could_take_for_something_else_is_quoted(text: str) -> None:
    written = yaml_text({"a": [text], text: "a"})
    assert read(written) == yaml.safe_load(written) == {"a": [text], text: "a"}
    assert written.split("\n")[1].strip("- ")[:1] in ("'", '"'), written


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_that_all_readers_take_for_text_is_plain(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: {text}\n"


@given(TEXTS)
def test_any_text_is_read_back_as_it_is(text: str) -> None:
    for document in ({"a": {"b": [text, {"c": text}]}}, {text: text}, {"a": {text: [text]}}):
        written = yaml_text(document)
        assert read(written) == document
        assert yaml.safe_load(written) == document


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
        lambda one: st.lists(one) | st.dictionaries(TEXTS, one),
    )
)
def test_any_json_is_read_back_as_it_is(value: Any) -> None:
    same = {"a": value, "b": value}
    assert read(yaml_text(same)) == json.loads(json.dumps(same))
