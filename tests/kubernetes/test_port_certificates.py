"""The certificates that the kubelet's port presents and accepts."""

from __future__ import annotations

import base64
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from syncpod.agent.kubelet_port import setup
from syncpod.agent.kubelet_port.serving_certificate import FILE_NAME, own_pair
from syncpod.kubernetes.client_certificates import issuer_of_node, user_of_certificate
from syncpod.kubernetes.kubeconfig import Kubeconfig, read_kubeconfig
from syncpod.settings.node import NodeSettings, node_settings
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.context import Host, NodeContext
from tests.kubernetes.kubelet_port import Authority

NOW = datetime.now(UTC)


def kubeconfig(path: Path, authorities: str, pair: str = "") -> Kubeconfig:
    """A kubeconfig with these authorities, and a certificate or a token."""

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    certificate, _, key = pair.partition("-----BEGIN PRIVATE KEY-----")
    user = {
        "client-certificate-data": encoded(certificate),
        "client-key-data": encoded(f"-----BEGIN PRIVATE KEY-----{key}"),
    }
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": encoded(authorities)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "n1"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "n1", "user": user if pair else {"token": "x"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return read_kubeconfig(path)


def test_the_kubeconfigs_authority_is_one_of_clients_only_if_it_has_issued_the_nodes_certificate(
    tmp_path: Path,
) -> None:
    ours, servers = Authority(), Authority("server-ca")
    own = ours.issue("system:node:n1", "system:nodes")
    path = tmp_path / "node.conf"
    assert issuer_of_node(kubeconfig(path, ours.pem, own)) == ours.pem
    assert issuer_of_node(kubeconfig(path, servers.pem + ours.pem, own)) == ours.pem
    assert issuer_of_node(kubeconfig(path, servers.pem, own)) == ""
    assert issuer_of_node(kubeconfig(path, Authority().pem, own)) == ""  # of the same name
    assert issuer_of_node(kubeconfig(path, ours.pem)) == ""


def test_without_an_authority_the_log_says_which_file_to_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = kubeconfig(tmp_path / "node.conf", Authority().pem, Authority().issue("system:node:n1"))
    with caplog.at_level(logging.WARNING):
        assert setup._client_authorities(node_settings({}, state_dir=str(tmp_path)), config) == ("", "")
    assert "SYNCPOD_CLIENT_CA_FILE names the cluster's client CA" in caplog.text


def test_a_certificate_that_has_ended_names_nobody() -> None:
    pair = Authority().issue("admin", "system:masters")
    der = ssl.PEM_cert_to_DER_cert(pair[: pair.index("-----BEGIN PRIVATE")])
    assert user_of_certificate(der, NOW) is not None
    assert user_of_certificate(der, NOW + timedelta(days=2)) is None


# --- the node's own ---------------------------------------------------------------------------------------------------


def test_the_nodes_certificate_stays_until_it_ends_or_is_for_another_node(tmp_path: Path) -> None:
    first = own_pair(tmp_path, "n1", ["10.0.0.1", "fd00::1"], NOW)
    file = tmp_path / FILE_NAME
    assert file.stat().st_mode & 0o777 == 0o600
    certificate = x509.load_pem_x509_certificate(first.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == f"n1@{int(NOW.timestamp())}"
    assert own_pair(tmp_path, "n1", ["fd00::1", "10.0.0.1"], NOW + timedelta(days=300)) == first
    seen = {first}
    for addresses, now, spoil in (
        (["10.0.0.2"], NOW, ""),
        (["10.0.0.2"], NOW + timedelta(days=340), ""),
        (["10.0.0.2"], NOW + timedelta(days=340), "unreadable"),
        (["10.0.0.2"], NOW + timedelta(days=340), "broken"),
    ):
        if spoil == "broken":
            file.write_text("-----BEGIN CERTIFICATE-----\nx\n")
        elif spoil:
            file.chmod(0o644)
        made = own_pair(tmp_path, "n1", addresses, now)
        assert made not in seen and file.stat().st_mode & 0o777 == 0o600
        seen.add(made)
    assert "PRIVATE KEY" in own_pair(tmp_path, "n" * 253, [], NOW)


def settings(directory: Path, **files: str) -> NodeSettings:
    return node_settings({f"SYNCPOD_{name.upper()}": path for name, path in files.items()}, state_dir=str(directory))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"tls_cert_file": "/nothing.crt"}, "SYNCPOD_TLS_CERT_FILE=/nothing.crt: needs SYNCPOD_TLS_PRIVATE_KEY_FILE"),
        (
            {"tls_cert_file": "/nothing.crt", "tls_private_key_file": "/nothing.key"},
            "SYNCPOD_TLS_CERT_FILE=/nothing.crt: No such file or directory",
        ),
        (
            {"tls_cert_file": "DIR/text", "tls_private_key_file": "DIR/text"},
            "must be a certificate in PEM, with its key",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, files: dict[str, str], said: str) -> None:
    (tmp_path / "text").write_text("no PEM")
    node = NodeContext("n1", tmp_path, tmp_path, tmp_path, "c", host=Host(addresses=("127.0.0.1",)))
    given = {name: path.replace("DIR", str(tmp_path)) for name, path in files.items()}
    with pytest.raises(SettingsInvalid, match=said):
        setup._tls(settings(tmp_path, **given), node, "")


def test_a_client_ca_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no PEM")
    node = NodeContext("n1", tmp_path, tmp_path, tmp_path, "c", host=Host(addresses=("127.0.0.1",)))
    given = settings(tmp_path, client_ca_file=str(tmp_path / "text"))
    with pytest.raises(SettingsInvalid, match=r"SYNCPOD_CLIENT_CA_FILE=.*: must be certificates in PEM"):
        setup._tls(given, node, "no PEM")
