"""Environment variables: expansion, order, and the downward API."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.objects import ObjectRef
from syncpod.pod.expansion import expand, references
from syncpod.translation import ContainerConfigError
from syncpod.translation.downward import format_map
from syncpod.translation.env import EnvFile, ObjectMissing, Sources, wanted_files, wanted_objects
from tests.translation.translation import NODE, configured, make_container, make_pod

EXPANSIONS = {
    "a reference": ("$(A)", "1"),
    "two of them, and text around": ("<$(A)-$(B)>", "<1-2>"),
    "an unknown one stays": ("$(X)", "$(X)"),
    "an empty value": ("[$(EMPTY)]", "[]"),
    "a dollar sign for two": ("$$", "$"),
    "an escaped reference": ("$$(A)", "$(A)"),
    "an escaped dollar before a reference": ("$$$(A)", "$1"),
    "four are two": ("$$$$", "$$"),
    "no end": ("$(A", "$(A"),
    "an end far off": ("$(A $(B)", "$(A $(B)"),
    "nothing between": ("$()", "$()"),
    "a dollar at the end": ("$(A)$", "1$"),
    "a dollar before a letter": ("$A ${A}", "$A ${A}"),
    "a dollar before a dollar before a letter": ("$$A", "$A"),
    "a value is not expanded again": ("$(NESTED)", "$(A)"),
    "over lines": ("$(A)\n$(B)", "1\n2"),
    "no operator": ("plain (A)", "plain (A)"),
    "an opening only": ("$($(A)", "$($(A)"),
}
VALUES = {"A": "1", "B": "2", "EMPTY": "", "NESTED": "$(A)"}


@pytest.mark.parametrize(("written", "read"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_references_are_expanded(written: str, read: str) -> None:
    assert expand(written, VALUES) == read


def test_referenced_variable_names_are_found_without_values() -> None:
    assert references("$(A) $$(B) $(C-d) $E $()") == {"A", "C-d", ""}


@given(st.text())
def test_doubled_dollar_signs_expand_to_the_original_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), VALUES) == text


def env(fields: list[dict[str, Any]], **spec: Any) -> dict[str, str]:
    config = configured(*make_container({"env": fields}, **spec))
    return {variable.key: variable.value.decode() for variable in config.envs}


def test_variables_keep_the_order_of_declaration() -> None:
    names = ["Z", "A", "M", "B"]
    assert list(env([{"name": name, "value": "x"} for name in names])) == names


def test_a_duplicate_variable_overrides_the_value_at_the_first_position() -> None:
    declared = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A", "value": "$(A)$(B)"}]
    assert list(env(declared).items()) == [("A", "11"), ("B", "1")]


def test_a_value_may_refer_only_to_variables_declared_before_it() -> None:
    assert env([{"name": "A", "value": "$(B)"}, {"name": "B", "value": "$(A)"}]) == {"A": "$(B)", "B": "$(B)"}


def test_a_variable_with_an_empty_value_is_set() -> None:
    assert env([{"name": "A"}, {"name": "B", "value": ""}]) == {"A": "", "B": ""}


def test_a_value_may_be_any_text() -> None:
    assert env([{"name": "A", "value": "grüße\n\t☃"}]) == {"A": "grüße\n\t☃"}


FIELDS = {
    "metadata.name": "web",
    "metadata.namespace": "default",
    "metadata.uid": "11111111-2222-3333-4444-555555555555",
    "metadata.labels['app']": "front",
    "metadata.labels['example.org/tier']": "one",
    "metadata.labels['none']": "",
    "metadata.annotations['note']": 'say "hi"',
    "metadata.labels": 'app="front"\nexample.org/tier="one"',
    "metadata.annotations": 'note="say \\"hi\\""',
    "spec.nodeName": "node-1",
    "spec.serviceAccountName": "robot",
    "status.hostIP": "192.0.2.10",
    "status.hostIPs": "192.0.2.10,2001:db8::10",
    "status.podIP": "10.4.0.7",
    "status.podIPs": "10.4.0.7,fd00::7",
}


@pytest.mark.parametrize(("path", "value"), FIELDS.items())
def test_a_field_ref_has_the_value_of_the_pod_field(path: str, value: str) -> None:
    pod = make_pod(
        {
            "serviceAccountName": "robot",
            "containers": [
                {"name": "main", "image": "a", "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
            ],
        },
        labels={"example.org/tier": "one", "app": "front"},
        annotations={"note": 'say "hi"'},
    )
    config = configured(pod, pod.spec.containers[0], pod_ips=("10.4.0.7", "fd00::7"))
    assert config.envs[0].value.decode() == value


def test_a_host_network_pod_has_the_nodes_address() -> None:
    pod, container = make_container(
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]}, hostNetwork=True
    )
    assert configured(pod, container, pod_ips=()).envs[0].value == b"192.0.2.10,2001:db8::10"


RESOURCES: dict[str, tuple[str, dict[str, Any], str]] = {
    "cores are rounded up": ("limits.cpu", {}, "2"),
    "millicores": ("limits.cpu", {"divisor": "1m"}, "1500"),
    "bytes": ("limits.memory", {}, "67108864"),
    "mebibytes": ("limits.memory", {"divisor": "1Mi"}, "64"),
    "a request": ("requests.cpu", {"divisor": "1m"}, "250"),
    "no request is nothing": ("requests.memory", {}, "0"),
    "another container, without a limit: what the node has": ("limits.cpu", {"containerName": "other"}, "4"),
    "and its memory": ("limits.memory", {"containerName": "other", "divisor": "1Gi"}, "8"),
}


def test_a_resource_ref_without_a_container_limit_falls_back_to_the_pods_and_then_to_allocatable() -> None:
    variables = [
        {"name": name, "valueFrom": {"resourceFieldRef": {"resource": f"limits.{name}", "divisor": divisor}}}
        for name, divisor in (("cpu", "1m"), ("memory", "1Mi"), ("ephemeral-storage", "1Gi"))
    ]
    node = replace(NODE, capacity={"cpu": 1500, "memory": 1 << 30, "ephemeral-storage": 7 << 30})
    told = [
        [each.value.decode() for each in configured(*make_container({"env": variables}, **spec), node=node).envs]
        for spec in ({}, {"resources": {"limits": {"memory": "96Mi"}}})
    ]
    assert told == [["1500", "1024", "7"], ["1500", "96", "7"]]


@pytest.mark.parametrize(("resource", "more", "value"), RESOURCES.values(), ids=RESOURCES)
def test_a_resource_ref_has_the_container_resource(resource: str, more: dict[str, Any], value: str) -> None:
    pod = make_pod(
        {
            "containers": [
                {
                    "name": "main",
                    "image": "a",
                    "env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}],
                    "resources": {"limits": {"cpu": "1.5", "memory": "64Mi"}, "requests": {"cpu": "250m"}},
                },
                {"name": "other", "image": "a"},
            ]
        }
    )
    # Requests are not defaulted from limits here, so that one can be missing.
    container = pod.spec.containers[0]
    own = container.resources.model_copy(update={"requests": {"cpu": "250m"}})
    assert configured(pod, container.model_copy(update={"resources": own})).envs[0].value.decode() == value


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a field that is not exposed": (
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}]},
        r"^spec\.containers\[0\]\.env\[0\]\.valueFrom\.fieldRef\.fieldPath: 'spec\.containers' is not a field",
    ),
    "one key of what has none": (
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name['x']"}}}]},
        r"fieldRef\.fieldPath: ",
    ),
    "a version that is none": (
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}]},
        r"fieldRef\.apiVersion: 'v2'",
    ),
    "an unknown resource": (
        {"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
        r"resourceFieldRef\.resource: 'limits\.gpu'",
    ),
    "a container that is not there": (
        {"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "no"}}}]},
        r"resourceFieldRef\.containerName: the pod has no container 'no'",
    ),
    "no source at all": ({"env": [{"name": "X", "valueFrom": {}}]}, r"\.valueFrom: required"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_an_unresolvable_variable_is_an_error_that_names_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        configured(*make_container(fields))


CONFIG, SECRET = ObjectRef("ConfigMap", "default", "settings"), ObjectRef("Secret", "default", "keys")
SOURCES = Sources(
    {
        CONFIG: {"color": b"blue", "2nd.shape-x": b"round", "text": b"$(color) and more"},
        SECRET: {"token": b"s3cret", "color": b"red", "raw": b"\xff\x00"[:1]},
        ObjectRef("Secret", "other", "away"): {"x": b"1"},
    },
    {
        ("shared", "app.env"): EnvFile("/pods/u/app.env", b"PORT='8080'\nEMPTY=''\n"),
        ("shared", "no"): EnvFile("/n", None),
    },
)


def variables(fields: dict[str, Any], sources: Sources = SOURCES) -> dict[str, str]:
    pod, container = make_container(fields, volumes=[{"name": "shared", "emptyDir": {}}])
    config = configured(pod, container, sources=sources)
    return {variable.key: variable.value.decode(errors="surrogateescape") for variable in config.envs}


def key_of(kind: str, key: str, name: str = "", **more: Any) -> dict[str, Any]:
    names = {"configMap": "settings", "secret": "keys"}
    return {f"{kind}KeyRef": {"name": name or names[kind], "key": key, **more}}


def file_key(key: str, path: str = "app.env", volume: str = "shared", **more: Any) -> dict[str, Any]:
    return {"fileKeyRef": {"volumeName": volume, "path": path, "key": key, **more}}


def test_env_from_sets_all_keys_and_later_sources_override_earlier_ones() -> None:
    whole = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]
    assert variables({"envFrom": whole}) == {
        "2nd.shape-x": "round",
        "color": "red",
        "text": "$(color) and more",
        "raw": "\udcff",
        "token": "s3cret",
    }


def test_env_from_adds_the_prefix_and_accepts_every_key() -> None:
    assert list(variables({"envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}]})) == [
        "S_2nd.shape-x",
        "S_color",
        "S_text",
    ]


def test_env_overrides_env_from_and_may_refer_to_it() -> None:
    fields = {
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "env": [{"name": "SEEN", "value": "<$(color)>"}, {"name": "color", "value": "$(color)ish"}],
    }
    assert variables(fields)["SEEN"] == "<blue>"
    assert variables(fields)["color"] == "blueish"


def test_values_from_objects_and_files_may_be_referred_to_and_are_not_expanded() -> None:
    env = [
        {"name": "A", "valueFrom": key_of("configMap", "text")},
        {"name": "B", "valueFrom": key_of("secret", "token")},
        {"name": "C", "valueFrom": file_key("PORT")},
        {"name": "D", "value": "$(A) $(B):$(C)"},
    ]
    assert variables({"env": env}) == {
        "A": "$(color) and more",
        "B": "s3cret",
        "C": "8080",
        "D": "$(color) and more s3cret:8080",
    }


def test_arguments_expand_variables_from_objects_and_files() -> None:
    pod, container = make_container(
        {"args": ["--token=$(T)"], "env": [{"name": "T", "valueFrom": key_of("secret", "token")}]}
    )
    assert list(configured(pod, container, sources=SOURCES).args) == ["--token=s3cret"]


OPTIONAL: dict[str, dict[str, Any]] = {
    "a ConfigMap": key_of("configMap", "color", "none", optional=True),
    "a key of a ConfigMap": key_of("configMap", "none", optional=True),
    "a Secret": key_of("secret", "token", "none", optional=True),
    "a key of a Secret": key_of("secret", "none", optional=True),
    "a variable of a file": file_key("NONE", optional=True),
    "an empty variable of a file": file_key("EMPTY", optional=True),
}


@pytest.mark.parametrize("source", OPTIONAL.values(), ids=OPTIONAL)
def test_a_missing_optional_source_sets_and_removes_no_variable(source: dict[str, Any]) -> None:
    env = [{"name": "X", "value": "earlier"}, {"name": "X", "valueFrom": source}, {"name": "Y", "valueFrom": source}]
    assert variables({"env": env}) == {"X": "earlier"}


def test_missing_optional_env_from_objects_are_skipped() -> None:
    whole = [{"configMapRef": {"name": "none", "optional": True}}, {"secretRef": {"name": "none", "optional": True}}]
    assert variables({"envFrom": whole}) == {}


MISSING: dict[str, tuple[dict[str, Any], str, ObjectRef]] = {
    "a ConfigMap": (
        {"env": [{"name": "X", "valueFrom": key_of("configMap", "color", "none")}]},
        'configmap "none" not found',
        ObjectRef("ConfigMap", "default", "none"),
    ),
    "a Secret": (
        {"envFrom": [{"secretRef": {"name": "none"}}]},
        'secret "none" not found',
        ObjectRef("Secret", "default", "none"),
    ),
    "a Secret that is in another namespace": (
        {"envFrom": [{"secretRef": {"name": "away"}}]},
        'secret "away" not found',
        ObjectRef("Secret", "default", "away"),
    ),
    "a key of a ConfigMap": (
        {"env": [{"name": "X", "valueFrom": key_of("configMap", "none")}]},
        "couldn't find key none in ConfigMap default/settings",
        CONFIG,
    ),
    "a key of a Secret": (
        {"env": [{"name": "X", "valueFrom": key_of("secret", "none")}]},
        "couldn't find key none in Secret default/keys",
        SECRET,
    ),
}


@pytest.mark.parametrize(("fields", "message", "ref"), MISSING.values(), ids=MISSING)
def test_a_missing_required_source_is_reported_with_the_kubelets_message(
    fields: dict[str, Any], message: str, ref: ObjectRef
) -> None:
    with pytest.raises(ObjectMissing) as missing:
        variables(fields)
    assert (str(missing.value), missing.value.ref) == (message, ref)


FILES: dict[str, tuple[dict[str, Any], str]] = {
    "no such volume": (file_key("PORT", volume="none"), 'cannot find the volume "none" referenced by FileKeyRef'),
    "no such file": (file_key("PORT", path="no"), "couldn't parse env file: no: it cannot be read"),
    "no such file, which an optional variable needs as well": (
        file_key("PORT", path="no", optional=True),
        "couldn't parse env file: no: it cannot be read",
    ),
    "no such variable": (file_key("NO"), 'environment variable key "NO" not found in file "/pods/u/app.env"'),
    "an empty variable": (file_key("EMPTY"), 'environment variable key "EMPTY" not found in file "/pods/u/app.env"'),
}


@pytest.mark.parametrize(("source", "message"), FILES.values(), ids=FILES)
def test_a_key_missing_in_an_env_file_is_reported_with_the_kubelets_message(
    source: dict[str, Any], message: str
) -> None:
    with pytest.raises(ContainerConfigError) as failed:
        variables({"env": [{"name": "X", "valueFrom": source}]})
    assert str(failed.value) == message


def test_the_error_of_an_invalid_env_file_names_the_line_and_omits_its_content() -> None:
    files = {("shared", "app.env"): EnvFile("/e", b"PASSWORD=s3cret\n")}
    with pytest.raises(ContainerConfigError, match=r"^couldn't parse env file: app\.env: line 1 [a-z' ]+$"):
        variables({"env": [{"name": "X", "valueFrom": file_key("PASSWORD")}]}, Sources({}, files))


def test_non_utf_8_values_reach_the_environment_but_not_the_command_line() -> None:
    env = [{"name": "RAW", "valueFrom": key_of("secret", "raw")}]
    assert variables({"env": env}) == {"RAW": "\udcff"}
    with pytest.raises(ContainerConfigError, match=r"^spec\.containers\[0\]\.command\[1\]: .* not UTF-8 text$"):
        variables({"env": env, "command": ["echo", "$(RAW)"]})


def test_a_value_with_a_nul_byte_is_refused_without_showing_it() -> None:
    sources = Sources({SECRET: {"token": b"s3\0cret"}})
    with pytest.raises(ContainerConfigError) as failed:
        variables({"env": [{"name": "X", "valueFrom": key_of("secret", "token")}]}, sources)
    assert str(failed.value) == "spec.containers[0]: the value of variable X has a NUL byte, which none can have"


def test_environment_sources_hide_values_in_their_repr_and_list_the_secrets() -> None:
    assert "s3cret" not in repr(SOURCES)
    assert "8080" not in repr(SOURCES) + repr(SOURCES.files)
    assert SOURCES.secrets() == {"s3cret", "red", "\udcff", "1"}


def test_objects_and_files_that_an_environment_needs_are_listed_once_each() -> None:
    pod, container = make_container(
        {
            "envFrom": [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}],
            "env": [
                {"name": "A", "valueFrom": key_of("secret", "token")},
                {"name": "B", "valueFrom": key_of("configMap", "x", "more")},
                {"name": "C", "valueFrom": file_key("PORT")},
            ],
        },
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    assert wanted_objects(pod, container) == (SECRET, CONFIG, ObjectRef("ConfigMap", "default", "more"))
    assert wanted_files(container) == {("shared", "app.env")}


def test_labels_and_annotations_are_printed_one_per_line_with_go_quoting() -> None:
    entries = {"b": "two\nlines\t\x00\x7f", "a": 'quote " and \\ and ☃ and \u00a0'}
    assert format_map(entries) == 'a="quote \\" and \\\\ and ☃ and \\u00a0"\nb="two\\nlines\\t\\x00\\x7f"'
