"""``get -o jsonpath=``: templates as kubectl takes them, and what of pods, nodes and objects they print."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.cli.view.jsonpath_template import parse_template
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

LIST: dict[str, Any] = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"z": "1", "b": "}"}}, "spec": {"hostNetwork": True, "none": None}},
        {"metadata": {"name": "b"}, "status": {"podIP": "10.0.0.2", "restarts": 3, "ids": ["x", "ü"]}},
    ],
}


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[1].metadata.name}{'\\n'}", "b\n"),
        ('{.items[0].metadata.name}{"\\t"}{.items[1].status.podIP}{"\\n"}', "a\t10.0.0.2\n"),
        ("name={.items[0].metadata.name}, ip={.items[0].status.podIP};", "name=a, ip=;"),
        ('{"{\\"q\\"}"}{.kind}', '{"q"}List'),
        ('{.items[?(@.metadata.name=="b")].status.podIP}', "10.0.0.2"),
        ('{.items[?(@.metadata.labels.b=="}")].metadata.name}', "a"),
        ("{.items[0].metadata.labels}", '{"b":"}","z":"1"}'),
        ("{.items[*].status.ids}", '["x","ü"]'),
        ("{.items[*].status.ids[*]}", "x ü"),
        ("{.items[*].status.restarts} {.items[*].spec.hostNetwork}", "3 true"),
        ("{.items[0].spec.none}", "null"),
        ("{.items[7].metadata.name}", ""),
        ('{range .items[*]}{.metadata.name}{"\\n"}{end}{.kind}', "a\nb\nList"),
        ("{range .items[*]}[{range .status.ids[*]}<{@}>{end}]{end}", "[][<x><ü>]"),
        ("{range .none[*]}{.a}{end}", ""),
        (
            "{@}",
            '{"items":[{"metadata":{"labels":{"b":"}","z":"1"},"name":"a"},"spec":{"hostNetwork":true,"none":null}},'
            '{"metadata":{"name":"b"},"status":{"ids":["x","ü"],"podIP":"10.0.0.2","restarts":3}}],"kind":"List"}',
        ),
    ],
)
def test_a_jsonpath_template_prints_the_same_as_in_kubectl(template: str, printed: str) -> None:
    assert parse_template(template).render(LIST) == printed


@pytest.mark.parametrize(
    "template",
    [
        "",
        "no path",
        '{"\\n"}',
        "{.a",
        ".a}",
        "{{.a}}",
        "{}",
        "{..a}",
        "{.a[1:2]}",
        "{range .a[*]}{.b}",
        "{.b}{end}",
        "{end}",
        "{range}{.a}{end}",
    ],
)
def test_an_invalid_template_is_refused_in_one_sentence(template: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_template(template)
    assert str(refused.value) and "\n" not in str(refused.value)


async def test_a_pod_and_a_list_are_printed_by_their_paths(syncpod: Command, node: ScriptedNode) -> None:
    space, one, two = fresh_name(), *sorted((fresh_name(), fresh_name()))
    on = ("--node", node.queue.removeprefix("node/"))
    await syncpod("apply", "-n", space, "-f", "-", "--wait", *on, stdin=as_json(manifest(one), manifest(two)))
    named = await syncpod("get", "pod", one, "-n", space, "-o", "jsonpath={.status.phase} {.spec.nodeName}")
    assert (named.code, named.out, named.err) == (0, f"Running {node.queue.removeprefix('node/')}", "")
    for words in (("-o", "jsonpath={.items[*].metadata.name}"), ("-o=jsonpath={.items[*].metadata.name}",)):
        assert (await syncpod("get", "pods", "-n", space, *words)).out == f"{one} {two}"
    missing = await syncpod("get", "pod", "none", "-n", space, "-o", "jsonpath={.status}")
    assert (missing.code, missing.out) == (1, "") and "not found" in missing.err
    empty = await syncpod("get", "cm", "-n", space, "-o", "jsonpath={.items[*].metadata.name}")
    assert (empty.code, empty.out, empty.err) == (0, "", "")
