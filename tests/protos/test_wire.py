"""The generated CRI code matches that of runtimes, message by message and number by number.

Holds: Every message, field, number, enum and method on the wire is CRI's.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor

from protos import generate
from protos.cri.v1 import api_pb2, api_pb2_grpc

WIRE: dict[str, Any] = json.loads((Path(__file__).parent / "v1-wire.json").read_text())
FILE = api_pb2.DESCRIPTOR
PACKAGE = f"{FILE.package}."

SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


def _local(full_name: str) -> str:
    return full_name.removeprefix(PACKAGE)


def _messages() -> dict[str, Descriptor]:
    """All messages, including nested ones, without the entries that protobuf makes for maps."""
    found: dict[str, Descriptor] = {}
    pending = list(FILE.message_types_by_name.values())
    while pending:
        message = pending.pop()
        if not message.GetOptions().map_entry:
            found[_local(message.full_name)] = message
        pending.extend(message.nested_types)
    return found


def _enums() -> dict[str, EnumDescriptor]:
    enums = list(FILE.enum_types_by_name.values())
    for message in _messages().values():
        enums.extend(message.enum_types)
    return {_local(enum.full_name): enum for enum in enums}


def _type_name(field: FieldDescriptor, owner: str) -> str:
    if field.message_type is not None:
        return _local(field.message_type.full_name)
    if field.enum_type is not None:
        return _local(field.enum_type.full_name).removeprefix(f"{owner}.")
    return SCALARS[field.type]


def _field(field: FieldDescriptor, owner: str) -> list[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        type_name = f"map<{_type_name(key, owner)},{_type_name(value, owner)}>"
    elif field.is_repeated:
        type_name = f"repeated {_type_name(field, owner)}"
    else:
        type_name = _type_name(field, owner)
    return [field.number, type_name, *(["deprecated"] if field.GetOptions().deprecated else [])]


def _message(name: str, message: Descriptor) -> dict[str, Any]:
    described: dict[str, Any] = {"fields": {field.name: _field(field, name) for field in message.fields}}
    if message.oneofs:
        described["oneofs"] = {oneof.name: [field.name for field in oneof.fields] for oneof in message.oneofs}
    return described


def _method(method: MethodDescriptor) -> list[str]:
    def side(message: Descriptor, streaming: bool) -> str:
        return f"stream {_local(message.full_name)}" if streaming else _local(message.full_name)

    return [side(method.input_type, method.client_streaming), side(method.output_type, method.server_streaming)]


def test_package_and_syntax_are_those_of_cri_v1() -> None:
    assert FILE.package == WIRE["package"] == "runtime.v1"
    source = (generate.ROOT / "protos/cri/v1/api.proto").read_text()
    assert f'syntax = "{WIRE["syntax"]}";' in source


def test_messages_fields_numbers_and_types_are_exactly_those_of_cri_v1() -> None:
    assert {name: _message(name, message) for name, message in _messages().items()} == WIRE["messages"]


def test_enums_and_their_values_are_exactly_those_of_cri_v1() -> None:
    ours = {name: {value.name: value.number for value in enum.values} for name, enum in _enums().items()}
    assert ours == WIRE["enums"]


def test_services_methods_and_streams_are_exactly_those_of_cri_v1() -> None:
    ours = {
        name: {method.name: _method(method) for method in service.methods}
        for name, service in FILE.services_by_name.items()
    }
    assert ours == WIRE["services"]


def test_stubs_and_servicers_offer_every_method() -> None:
    for service, methods in WIRE["services"].items():
        servicer = getattr(api_pb2_grpc, f"{service}Servicer")
        assert {name for name in vars(servicer) if not name.startswith("_")} == set(methods)


def test_every_message_and_method_has_a_comment() -> None:
    lines = (generate.ROOT / "protos/cri/v1/api.proto").read_text().splitlines()
    openings = ("message ", "enum ", "service ", "rpc ")
    bare = [
        line
        for before, line in itertools.pairwise(lines)
        if line.lstrip().startswith(openings) and not before.lstrip().startswith("//")
    ]
    assert bare == []


def test_generated_files_are_current() -> None:
    assert generate.main(["--check"]) == 0


def test_check_names_a_stale_file_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "protos/cri/v1"
    target.mkdir(parents=True)
    source = (generate.ROOT / "protos/cri/v1/api.proto").read_text()
    (target / "api.proto").write_text(source)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "PACKAGE", tmp_path / "protos")

    assert generate.main(["--check"]) == 1
    assert "protos/cri/v1/api_pb2.py: stale" in capfd.readouterr().err
    assert [path.name for path in target.iterdir()] == ["api.proto"]

    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (target / "api.proto").write_text(source.replace("int64 timeout = 2;", "int64 timeout = 9;"))
    assert generate.main(["--check"]) == 1
