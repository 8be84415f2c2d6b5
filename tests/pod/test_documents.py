"""Manifests are read as by Kubernetes, and invalid ones are refused in one sentence."""

# ruff: noqa: E501 - the tables have one case a line

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod import (
    LARGEST_MANIFEST,
    ConfigMap,
    ManifestErrors,
    Pod,
    Secret,
    load_documents,
    parse_pod,
    read_documents,
)
from syncpod.pod.documents import way_on
from tests.pod.examples import MANIFESTS, manifest, pod


def read(text: str) -> Any:
    """Return the data of a stream with one document."""
    ((_, document),) = read_documents(text)
    return document


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS.iterdir()))
def test_every_example_manifest_is_read(name: str) -> None:
    assert load_documents(manifest(name), source=name)


def test_several_documents_and_lists_come_in_order() -> None:
    loaded = load_documents(manifest("several.yaml"))
    assert [(type(one), one.metadata.name) for one in loaded] == [
        (ConfigMap, "settings"),
        (Pod, "one"),
        (Pod, "two"),
        (Secret, "keys"),
    ]


def test_a_pod_list_need_not_repeat_the_kind() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    loaded = load_documents(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}))
    assert [one.metadata.name for one in loaded] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n---\n", "null\n"])
def test_an_empty_stream_holds_nothing(text: str) -> None:
    assert load_documents(text) == ()


def test_yaml_and_json_give_the_same_pod() -> None:
    expected = (parse_pod(pod()),)
    assert load_documents(json.dumps(pod())) == expected
    assert load_documents(json.dumps(pod(), indent="\t").encode()) == expected
    assert load_documents(yaml.safe_dump(pod())) == expected
    assert load_documents(b"\xef\xbb\xbf" + yaml.safe_dump(pod(), default_flow_style=True).encode()) == expected


def test_json_documents_may_follow_each_other() -> None:
    assert len(load_documents(json.dumps(pod()) + "\n" + json.dumps(pod()))) == 2


def test_kyaml_with_folded_and_escaped_strings_is_read() -> None:
    (loaded,) = load_documents(manifest("kyaml.yaml"))
    assert isinstance(loaded, Pod)
    assert loaded.metadata.labels == {"country": "no"}
    assert loaded.spec.containers[0].args == ("it's done", "a long line")


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True), ("No", False), ("ON", True), ("off", False), ("y", True), ("n", False), ("tRue", "tRue"),
        ("~", None), ("Null", None), ("nULL", "nULL"), ("", None),
        ("01777", 1023), ("0o17", 15), ("-017", -15), ("08", 8), ("0x1F", 31), ("-0x1F", -31), ("0b11", 3),
        ("0o8", "0o8"), ("0x", "0x"), ("0b2", "0b2"), ("1_000", 1000), ("_1", "_1"), ("+5", 5), ("00", 0),
        ("1e3", 1000), ("1.", 1), (".5", 0.5), ("1.0", 1), ("-.5", -0.5), ("1.5e+9", 1500000000), ("1e", "1e"),
        ("1e400", "1e400"), ("0.1.2", "0.1.2"), (".", "."),
        ("1:30", "1:30"), ("12:30:45", "12:30:45"), ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), ("=", "="), ("<<", "<<"), ("x#c", "x#c"), ("x # c", "x"),
        ('"yes"', "yes"), ("'01777'", "01777"), ("'it''s'", "it's"), ('"it\\\'s"', "it's"), ('"\\x41\\u00e9"', "Aé"),
    ],
)  # fmt: skip
def test_scalars_are_resolved_as_by_kubernetes(scalar: str, value: Any) -> None:
    found = read(f"a: {scalar}")["a"]
    assert (type(found), found) == (type(value), value)


def test_mapping_keys_become_strings() -> None:
    assert read("{1: a, true: b, 1.5: c, 2024-01-01: d, x: e}") == {
        "1": "a", "true": "b", "1.5": "c", "2024-01-01": "d", "x": "e",
    }  # fmt: skip


def test_a_backslash_before_a_quote_is_literal_outside_double_quotes() -> None:
    text = "a: \"don\\'t\"\nb: 'c\\'\nd: |\n  e\\'\nf: g\\'h\ni: \"\\\\'\"\nj: \"é\\'\""
    assert read(text) == {"a": "don't", "b": "c\\", "d": "e\\'\n", "f": "g\\'h", "i": "\\'", "j": "é'"}


def test_aliases_and_merges_are_followed() -> None:
    assert read("base: &b {x: 1, z: 2}\nof: {<<: *b, z: 3}\nlist: &l [1]\nagain: *l\nboth: {<<: [{x: 9}, *b]}") == {
        "base": {"x": 1, "z": 2}, "of": {"x": 1, "z": 3}, "list": [1], "again": [1], "both": {"x": 9, "z": 2},
    }  # fmt: skip


def bomb() -> str:
    """Return ten lists, each of which has the previous one ten times."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a" * (LARGEST_MANIFEST + 1), "m.yaml: larger than 10 MiB"),
        ("é" * (LARGEST_MANIFEST // 2 + 1), "m.yaml: larger than 10 MiB"),
        ("é".encode("latin-1"), "m.yaml: not UTF-8 text (byte 0)"),
        ("kind: Pod".encode("utf-16"), "m.yaml: not UTF-8 text (byte 0)"),
        ("kind: Pod".encode("utf-16-le"), "m.yaml: not text: it holds a NUL (character 1); is it UTF-16?"),
        (GOOD + "a: \x07", "m.yaml, document 1: not YAML: control characters are not allowed"),
        (GOOD + "a: b: c", "m.yaml, document 2: not YAML: mapping values are not allowed in this context (line 5, column 5): look whether this line is indented like those that it belongs to, and whether a space follows each colon"),
        (GOOD + "a: @x", "m.yaml, document 2: not YAML: found character that cannot start any token (line 5, column 4): put a text that begins with @ in quotes"),
        ("a:\n\t- x", "m.yaml, document 1: not YAML: found character that cannot start any token (line 2, column 1): indent with spaces, not with tabs"),
        ("a:\n  - b: 1\n\t  c: 2", "m.yaml, document 1: not YAML: found a tab character that violates indentation (line 3, column 1): indent with spaces, not with tabs"),
        ("a: 1\n b: 2", "m.yaml, document 1: not YAML: mapping values are not allowed in this context (line 2, column 3): look whether this line is indented like those that it belongs to, and whether a space follows each colon"),
        ("a:\n  - b: 1\n   c: 2", "m.yaml, document 1: not YAML: did not find expected '-' indicator (line 3, column 4): look whether this line is indented like those that it belongs to, and whether a space follows each colon"),
        ('a: 1\nb: "c\nd: 2\n', "m.yaml, document 1: not YAML: found unexpected end of stream (line 4, column 1): the quote of line 2 is not closed"),
        (GOOD + "kind: Pod\nkind: Pod", "m.yaml, document 2: the key 'kind' is there twice (line 6, column 1)"),
        ('{"kind": "Pod", "kind": "Pod"}', "m.yaml, document 1: the key 'kind' is there twice (line 1, column 17)"),
        ('{"a": NaN', "m.yaml, document 1: not YAML: did not find expected ',' or '}' (line 2, column 1)"),
        ("a: .nan", "m.yaml, document 1: .nan is not a number that JSON has (line 1, column 4)"),
        ("a: !!str 1", "m.yaml, document 1: YAML tags such as !!str are not taken (line 1, column 4)"),
        ("!!python/object/apply:os.system [id]", "m.yaml, document 1: YAML tags such as !!python/object/apply:os.system are not taken (line 1, column 1)"),
        ("? [a]\n: b", "m.yaml, document 1: a key must be a string (line 1, column 3)"),
        ("null: b", "m.yaml, document 1: a key must be a string (line 1, column 1)"),
        ("a: *x", "m.yaml, document 1: unknown anchor 'x' (line 1, column 4)"),
        ("# &x\n---\n---\nb: *x", "m.yaml, document 2: unknown anchor 'x' (line 4, column 4)"),
        ("a: *" + "x" * 1000, f"m.yaml, document 1: unknown anchor '{'x' * 80}' (line 1, column 4)"),
        ("a: !%1b%5b31m y", "m.yaml, document 1: YAML tags such as !\\x1b[31m are not taken (line 1, column 4)"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {\"\\e[2J\": 1}", "m.yaml, document 1: metadata.\\x1b[2J: unknown field"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {\"a\\nsyncpod: b\": 1}", "m.yaml, document 1: metadata.a\\nsyncpod: b: unknown field"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {nаme: a}", "m.yaml, document 1: metadata.n\\u0430me: unknown field; did you mean name?"),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"' + "a" * 100_000 + '": 1}}', f"m.yaml, document 1: metadata.{'a' * 80}: unknown field"),
        ("a: &x [*x]", "m.yaml, document 1: the anchor 'x' holds itself (line 1, column 8)"),
        ("a: {<<: 1}", "m.yaml, document 1: << takes an object or a list of objects (line 1, column 5)"),
        (bomb(), "m.yaml, document 1: aliases stand for more than 10000 values (line 4, column 45)"),
        ("[" * 100_000, "m.yaml, document 1: nested more than 100 levels deep (line 1, column 101)"),
        ("- " * 100_000, "m.yaml, document 1: nested more than 100 levels deep (line 1, column 201)"),
        ('{"a":' * 100_000, "m.yaml, document 1: nested more than 100 levels deep (line 1, column 497)"),
        ("[" + "1," * 600_000 + "]", "m.yaml, document 1: more than 200000 values (line 1, column 399998)"),
        ("- \"\\'\"\n" * 100_000, r"m.yaml, document 1: too many \' escapes: write ' without a backslash inside double quotes"),
        ('{"a": "\\ud800"}', "m.yaml, document 1: not YAML: found invalid Unicode character escape code (line 1, column 10)"),
        ("hello", "m.yaml, document 1: must be an object with apiVersion and kind"),
        ("[1]", "m.yaml, document 1: must be an object with apiVersion and kind"),
        (GOOD + "apiVersion: v1", "m.yaml, document 2: kind: required"),
        (GOOD + "---\nkind: Pod", "m.yaml, document 3: apiVersion: required"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {}}}", "m.yaml, document 1: kind: must be Pod, ConfigMap, Secret or List, not Deployment: apply its spec.template as a Pod, with a metadata.name"),
        ("apiVersion: v1\nkind: [Pod]", "m.yaml, document 1: kind: must be Pod, ConfigMap, Secret or List, not ['Pod']"),
        ("apiVersion: v1\nkind: List\nitems: {}", None),
        ("apiVersion: v1\nkind: List\nitems: 1", "m.yaml, document 1: items: must be a list"),
        ("apiVersion: v1\nkind: List\nitems: [1]", "m.yaml, document 1: items[0]: must be an object"),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {x: 1}}]", "m.yaml, document 1: items[0].spec.x: unknown field"),
        (GOOD + "apiVersion: v1\nkind: Pod\nspec: {hostNetwrk: true}", "m.yaml, document 2: spec.hostNetwrk: unknown field; did you mean hostNetwork?"),
    ],
)  # fmt: skip
def test_an_unreadable_document_is_refused_in_one_sentence(text: str | bytes, reason: str | None) -> None:
    if reason is None:
        assert load_documents(text) == ()
        return
    with pytest.raises(ManifestErrors) as caught:
        load_documents(text, source="m.yaml")
    assert str(caught.value.errors[0]) == reason


def test_all_that_is_wrong_with_a_pod_is_told_at_once_a_line_each() -> None:
    """Unreadable fields hide no errors of other fields; errors that depend on them are left out."""
    text = """
apiVersion: v1
kind: Pod
metadata: {name: Bad_Name, namspace: here}
spec:
  containers:
  - {name: app, image: 7, ports: [{containerPort: 99999}]}
  - {name: app, resources: {limits: {example.com/gpu: 1}}}
"""
    with pytest.raises(ManifestErrors) as caught:
        load_documents(text, source="m.yaml")
    told = [line.removeprefix("m.yaml, document 1: ").split(": ")[0] for line in str(caught.value).splitlines()]
    assert sorted(told) == [
        "metadata.name",
        "metadata.namspace",
        "spec.containers[0].image",
        "spec.containers[0].ports[0].containerPort",
        "spec.containers[1].image",
        "spec.containers[1].name",
        "spec.containers[1].resources.limits[example.com/gpu]",
    ]
    in_a_list = "apiVersion: v1\nkind: Pod\nmetadata: {name: A}\nspec: {containers: [7]}"
    with pytest.raises(ManifestErrors) as caught:
        load_documents(in_a_list, source="m.yaml")
    assert str(caught.value).count("\n") == 0, "an element of a list cannot be left out"


def test_many_escaped_single_quotes_are_read_in_linear_time() -> None:
    assert read('a: "' + "\\'" * 100_000 + '"\nb: "\\\\\\\'\\""') == {"a": "'" * 100_000, "b": "\\'\""}


def test_many_yaml_merges_are_read_in_linear_time() -> None:
    merged = read("".join(f"k{n}: v\n<<: {{k{n}: w, m{n}: x}}\n" for n in range(20_000)))
    assert len(merged) == 40_000
    assert (merged["k7"], merged["m7"]) == ("v", "x")


def test_every_unsupported_object_has_its_own_line() -> None:
    foreign = "---\napiVersion: v1\nkind: Service\n---\nkind: Ingress\n---\n[1]\n---\nkind: Pod\n"
    with pytest.raises(ManifestErrors) as caught:
        load_documents(GOOD + foreign, source="m.yaml")
    assert str(caught.value).split("\n") == [
        f"m.yaml, document 3: kind: must be Pod, ConfigMap, Secret or List, not Service: {way_on({'kind': 'Service'})}",
        f"m.yaml, document 4: kind: must be Pod, ConfigMap, Secret or List, not Ingress: {way_on({'kind': 'Ingress'})}",
        "m.yaml, document 5: must be an object with apiVersion and kind",
        "m.yaml, document 6: apiVersion: required",
    ]
    with pytest.raises(ManifestErrors) as many:
        load_documents("---\nkind: Service\n" * 1000)
    assert len(str(many.value).split("\n")) == 21 and str(many.value).endswith("\nand 980 more")


def test_error_messages_never_contain_secret_values() -> None:
    with pytest.raises(ManifestErrors) as caught:
        load_documents("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {token: 7315}")
    assert "7315" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(document=st.dictionaries(st.text("abc ", min_size=1), JSON, min_size=1))
def test_the_json_and_yaml_readers_agree_on_json(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert read(text) == document
    assert read("--- " + text) == document


@given(st.text() | st.binary())
def test_any_text_is_parsed_or_refused(text: str | bytes) -> None:
    try:
        load_documents(text)
    except ManifestErrors as error:
        assert str(error).startswith("-")
