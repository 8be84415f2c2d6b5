"""How the ports of `port-forward` are read, and how one connection of several is passed on."""

from __future__ import annotations

import pytest

from syncpod.cli.failure import BadInput
from syncpod.cli.forwarding import ForwardedPort
from syncpod.cli.port_forward import forwarded_ports
from syncpod.pod import Pod


@pytest.fixture
def pod() -> Pod:
    ports = [
        {"name": "http", "containerPort": 80},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        {"name": "both", "containerPort": 54, "protocol": "UDP"},
        {"containerPort": 54, "protocol": "TCP"},
    ]
    return Pod.model_validate(
        {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "x", "ports": ports}]}}
    )


@pytest.mark.parametrize(
    ("word", "local", "remote"),
    [
        ("8080:80", 8080, 80),
        ("80", 80, 80),
        (":80", 0, 80),
        ("8080:http", 8080, 80),
        (":http", 0, 80),
        ("http", 80, 80),
        ("54", 54, 54),
        ("65535:1", 65535, 1),
    ],
)
def test_ports_are_read_as_kubectl_reads_them(word: str, local: int, remote: int, pod: Pod) -> None:
    assert forwarded_ports(pod, [word]) == [ForwardedPort(local, remote)]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("0", "'0' is no port"),
        ("80:", "'' is no port number"),
        ("65536:80", "'65536' is no port"),
        ("8080:https", "nor the name of a port of the pod, which has both, dns, http"),
        ("a:80", "'a' is no port"),
        ("dns", "port 53 is for UDP"),
        ("53", "port 53 is for UDP"),
        ("1:2:3", "'2:3' is no port number"),
    ],
)
def test_what_is_no_port_is_refused_by_what_was_typed(word: str, sentence: str, pod: Pod) -> None:
    with pytest.raises(BadInput, match=sentence) as refused:
        forwarded_ports(pod, [word])
    assert str(refused.value).startswith(f"{word}: ")
