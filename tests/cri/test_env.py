"""Variables: how references expand, in which order, and what the downward API gives."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.cri.config_error import ContainerConfigError
from syncpod.cri.downward import format_map
from syncpod.cri.expansion import expand
from tests.cri.translation import configured, make_container, make_pod

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
def test_expands(written: str, read: str) -> None:
    assert expand(written, VALUES) == read


@given(st.text())
def test_text_with_every_dollar_doubled_comes_back_as_it_was(text: str) -> None:
    assert expand(text.replace("$", "$$"), VALUES) == text


def env(fields: list[dict[str, Any]], **spec: Any) -> dict[str, str]:
    config = configured(*make_container({"env": fields}, **spec))
    return {variable.key: variable.value.decode() for variable in config.envs}


def test_variables_come_in_the_order_of_declaration() -> None:
    names = ["Z", "A", "M", "B"]
    assert list(env([{"name": name, "value": "x"} for name in names])) == names


def test_a_later_variable_of_a_name_wins_in_the_place_of_the_first() -> None:
    declared = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A", "value": "$(A)$(B)"}]
    assert list(env(declared).items()) == [("A", "11"), ("B", "1")]


def test_a_value_sees_what_was_declared_before_it_and_nothing_after() -> None:
    assert env([{"name": "A", "value": "$(B)"}, {"name": "B", "value": "$(A)"}]) == {"A": "$(B)", "B": "$(B)"}


def test_an_empty_value_is_a_variable_too() -> None:
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
def test_a_field_of_the_pod(path: str, value: str) -> None:
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


def test_a_pod_on_the_nodes_network_has_the_nodes_address() -> None:
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


@pytest.mark.parametrize(("resource", "more", "value"), RESOURCES.values(), ids=RESOURCES)
def test_a_resource_of_a_container(resource: str, more: dict[str, Any], value: str) -> None:
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
    "a ConfigMap": (
        {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]},
        r"valueFrom\.configMapKeyRef: not supported",
    ),
    "a Secret": (
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        r"valueFrom\.secretKeyRef: not supported",
    ),
    "all of a ConfigMap": ({"envFrom": [{"configMapRef": {"name": "a"}}]}, r"^spec\.containers\[0\]\.envFrom: "),
    "no source at all": ({"env": [{"name": "X", "valueFrom": {}}]}, r"\.valueFrom: required"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_given_is_an_error_that_names_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        configured(*make_container(fields))


def test_a_map_is_quoted_as_go_quotes_so_that_each_entry_is_one_line() -> None:
    entries = {"b": "two\nlines\t\x00\x7f", "a": 'quote " and \\ and ☃ and \u00a0'}
    assert format_map(entries) == 'a="quote \\" and \\\\ and ☃ and \\u00a0"\nb="two\\nlines\\t\\x00\\x7f"'
