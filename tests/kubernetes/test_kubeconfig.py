"""A kubeconfig is read, or refused with the path of the invalid field."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.kubernetes.kubeconfig import KubeconfigInvalid, read_credentials, read_kubeconfig, require_usable
from tests.kubernetes.api_server import pair

PEM = "-----BEGIN CERTIFICATE-----\n"
DATA = base64.b64encode(PEM.encode()).decode()


def written(tmp_path: Path, *, cluster: Any = None, user: Any = None, **more: Any) -> Path:
    """A kubeconfig, with the cluster and the user that are given."""
    document = {
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://h:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        **more,
    }
    path = tmp_path / "node.conf"
    path.write_text(yaml.safe_dump(document))
    return path


def test_data_comes_before_files_and_files_lie_beside_the_kubeconfig(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        cluster={"certificate-authority": "ca.crt"},
        user={"client-certificate-data": DATA, "client-certificate": "x", "client-key": "/k/n.key", "tokenFile": "t"},
    )
    found = read_kubeconfig(path)
    assert found.server == "https://h:6443"
    assert found.authorities.path == tmp_path / "ca.crt"
    assert found.certificate.read() == PEM.encode()
    assert found.key.path == Path("/k/n.key")
    assert found.token.path == tmp_path / "t"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "Pod"}, "kind: must be Config"),
        ({"current-context": ""}, "current-context: required"),
        ({"current-context": "d"}, "contexts: must have one with the name 'd'"),
        ({"clusters": "k"}, "clusters: must have one with the name 'k'"),
        (
            {"cluster": {"server": "http://h"}},
            "clusters[0].cluster.server: must be https://HOST[:PORT], not 'http",
        ),
        ({"cluster": {"server": 7}}, "clusters[0].cluster.server: must be a text"),
        (
            {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "ca.crt"}},
            "clusters[0].cluster.insecure-skip-tls-verify: no certificate-authority may stand beside it",
        ),
        (
            {"cluster": {"insecure-skip-tls-verify": "yes"}},
            "clusters[0].cluster.insecure-skip-tls-verify: must be true or false",
        ),
        (
            {"cluster": {"proxy-url": "http://proxy"}},
            "clusters[0].cluster.proxy-url: not supported",
        ),
        ({"user": {}}, "users[0].user: needs client-certificate and client-key, or a token"),
        ({"user": {"client-key-data": DATA}}, "users[0].user.client-certificate: required beside the other half"),
        ({"user": {"client-key-data": "%"}}, "users[0].user.client-key-data: must be PEM in base64"),
        ({"user": {"exec": {"command": "x"}}}, "users[0].user.exec: not supported"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_path(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = written(tmp_path, **change)
    with pytest.raises(KubeconfigInvalid) as wrong:
        read_kubeconfig(path)
    assert f"{path}: {why}" in str(wrong.value)


def test_what_is_no_kubeconfig_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "node.conf"
    with pytest.raises(KubeconfigInvalid, match="No such file"):
        read_kubeconfig(path)
    for text in ("{", "\x00", "[]", "x" * (1 << 20) + "y"):
        path.write_text(text)
        with pytest.raises(KubeconfigInvalid, match=r"node\.conf: "):
            read_kubeconfig(path)


def made_for(common_name: str) -> dict[str, str]:
    """A user entry of a kubeconfig, with a certificate of this name and its key."""
    certificate, key = pair(common_name)
    data = {"client-certificate-data": certificate, "client-key-data": key}
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


@pytest.mark.parametrize("name", ["system:node:n1", "admin"])
def test_a_certificate_of_this_node_or_of_no_node_is_usable(tmp_path: Path, name: str) -> None:
    require_usable(read_kubeconfig(written(tmp_path, user=made_for(name))), "n1")


def test_a_certificate_of_another_node_is_refused(tmp_path: Path) -> None:
    config = read_kubeconfig(written(tmp_path, user=made_for("system:node:n1")))
    with pytest.raises(KubeconfigInvalid, match="is of node n1, but this node is n2: give --node=n1"):
        require_usable(config, "n2")


def test_credentials_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    mixed = {**made_for("a"), "client-key-data": made_for("b")["client-key-data"]}
    absent = {"token": "t", "tokenFile": "absent"}
    for given, why in (
        ({"user": mixed}, "client-certificate, client-key: must be a certificate in PEM and its key, unencrypted"),
        ({"user": {**mixed, "client-key-data": DATA}}, "client-certificate, client-key: must be"),
        ({"user": absent}, f"token: {tmp_path / 'absent'}: No such file or directory"),
        (
            {"cluster": {"certificate-authority-data": base64.b64encode(b"none").decode()}},
            "certificate-authority: must",
        ),
    ):
        with pytest.raises(KubeconfigInvalid) as wrong:
            require_usable(read_kubeconfig(written(tmp_path, **given)), "n1")
        assert f"node.conf: {why}" in str(wrong.value)


def test_without_verification_any_server_is_taken_and_its_credentials_are_still_read(tmp_path: Path) -> None:
    config = read_kubeconfig(written(tmp_path, cluster={"insecure-skip-tls-verify": True}))
    context, token = read_credentials(config)
    assert (config.insecure, context.verify_mode, context.check_hostname, token) == (True, ssl.CERT_NONE, False, "t")
    verified, _ = read_credentials(read_kubeconfig(written(tmp_path, cluster={"insecure-skip-tls-verify": False})))
    assert verified.verify_mode == ssl.CERT_REQUIRED
