"""ConfigMaps and Secrets that the API server would refuse are refused with the field's path, and without values."""

import base64
import json
from typing import Any

import pytest

from syncpod.pod import parse_config_map, parse_secret, validate_config_map, validate_secret

KEY = "must consist of letters, digits, '-', '_' and '.', and not start with '..'"
MIB = 2**20


def encoded(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def problems_of_config_map(**fields: Any) -> list[str]:
    return [str(problem) for problem in validate_config_map(parse_config_map({"metadata": {"name": "a"}, **fields}))]


def problems_of_secret(**fields: Any) -> list[str]:
    return [str(problem) for problem in validate_secret(parse_secret({"metadata": {"name": "a"}, **fields}))]


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({}, []),
        ({"data": {"a/b": ""}}, [f"data[a/b]: {KEY}"]),
        ({"data": {"..": ""}}, [f"data[..]: {KEY}"]),
        ({"binaryData": {"..a": ""}}, [f"binaryData[..a]: {KEY}"]),
        ({"data": {"k" * 254: ""}}, [f"data[{'k' * 80}]: must be no more than 253 characters"]),
        ({"data": {"k" * 253: "", ".k": "", "_K-1": ""}}, []),
        ({"data": {"c": "x"}, "binaryData": {"c": "AA=="}}, ["data[c]: must not be a key of binaryData too"]),
        ({"binaryData": {"c": "%"}}, ["binaryData[c]: must be base64"]),
        ({"data": {"a": "x" * MIB}}, []),
        ({"data": {"a": "x" * MIB}, "binaryData": {"b": "AA=="}}, ["data: must be no more than 1 MiB in all"]),
        ({"data": {"a": "ü" * (MIB // 2 + 1)}}, ["data: must be no more than 1 MiB in all"]),
        ({"metadata": {"name": "A"}}, None),
        ({"metadata": {"name": "a" * 253, "namespace": "n" * 63}}, []),
        ({"metadata": {}}, ["metadata.name: required"]),
        ({"metadata": {"generateName": "a-"}}, ["metadata.name: required; a name is not generated here"]),
        ({"metadata": {"name": "a", "namespace": "a.b"}}, None),
        ({"metadata": {"name": "a", "labels": {"x": "?"}}}, None),
    ],
)
def test_a_config_map_is_checked_key_by_key(fields: dict[str, Any], problems: list[str] | None) -> None:
    found = problems_of_config_map(**fields)
    assert len(found) == 1 if problems is None else found == problems


@pytest.mark.parametrize("text", ["c2VjcmV0", "c2Vj\ncmV0\r\n", ""])
def test_base64_may_be_broken_into_lines(text: str) -> None:
    assert problems_of_secret(data={"a": text}) == []


@pytest.mark.parametrize("text", ["c2Vj cmV0", "c2VjcmV0=", "c2Vjcm", "c2Vj-_==", "ü", "YQ==YQ=="])
def test_invalid_base64_is_named_without_showing_it(text: str) -> None:
    [problem] = problems_of_secret(data={"a": text, "b": "c2VjcmV0"})
    assert problem == "data[a]: must be base64"


def test_a_secret_may_hold_one_mebibyte_after_merging_string_data() -> None:
    assert problems_of_secret(data={"a": encoded(b"x" * MIB)}, stringData={"a": "y" * MIB}) == []
    assert problems_of_secret(data={"a": encoded(b"x" * MIB)}, stringData={"b": "y"}) == [
        "data: must be no more than 1 MiB in all"
    ]


DOCKER = "kubernetes.io/dockerconfigjson"


@pytest.mark.parametrize(
    ("kind", "data", "problems"),
    [
        ("Opaque", {}, []),
        ("mine.example/anything", {}, []),
        (DOCKER, {}, [f"data[.dockerconfigjson]: required with type {DOCKER}"]),
        (DOCKER, {".dockerconfigjson": "not json"}, ["data[.dockerconfigjson]: must be a JSON object"]),
        (DOCKER, {".dockerconfigjson": "[]"}, ["data[.dockerconfigjson]: must be a JSON object"]),
        (DOCKER, {".dockerconfigjson": "[" * 100_000}, ["data[.dockerconfigjson]: must be a JSON object"]),
        (DOCKER, {".dockerconfigjson": json.dumps({"auths": {}})}, []),
        ("kubernetes.io/dockercfg", {}, ["data[.dockercfg]: required with type kubernetes.io/dockercfg"]),
        ("kubernetes.io/dockercfg", {".dockercfg": "{}"}, []),
        ("kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]: required with type kubernetes.io/tls"]),
        ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""}, []),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, None),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": "k"}, []),
        ("kubernetes.io/basic-auth", {"password": ""}, []),
        (
            "kubernetes.io/basic-auth",
            {"user": "x"},
            ["data: must have username or password with type kubernetes.io/basic-auth"],
        ),
        ("kubernetes.io/service-account-token", {}, None),
    ],
)
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_secret_of_a_known_type_must_have_its_required_keys(
    kind: str, data: dict[str, str], problems: list[str] | None, field: str
) -> None:
    written = {key: encoded(text) for key, text in data.items()} if field == "data" else data
    found = problems_of_secret(type=kind, **{field: written})
    assert len(found) == 1 if problems is None else found == problems


def test_the_repr_of_a_secret_omits_its_values() -> None:
    secret = parse_secret({"metadata": {"name": "a"}, "data": {"x": "aHVudGVyMg=="}, "stringData": {"y": "hunter2"}})
    assert "hunter2" not in f"{secret!r} {secret}" and "aHVudGVyMg" not in f"{secret!r} {secret}"
