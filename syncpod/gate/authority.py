"""The fleet's certificate authorities: they issue certificates to nodes, and revoke them.

Everything is kept in files of a directory that only its owner may enter::

    id                      the fleet's id
    authorities/<n>.key     an authority's private key; the highest n issues to nodes, the lowest to the gate
    authorities/<n>.crl     its revocation list, in the format of TLS servers
    authorities/<n>.crt     its certificate; written last, so an authority that has one is complete
    certificates/<serial>   each certificate that a node was given, without its key
    dismissed/<serial>      empty; the certificate's node was removed from the fleet while it was away

The gate uses a new authority for itself only when the older one has been removed. So a node that has both authorities
in its invitation trusts the gate before and after that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncpod.kernel.atomic_file import replace_file, sync_directory
from syncpod.kernel.ownership import NotOurs, require_ours
from syncpod.settings.invitation import is_node_name
from syncpod.settings.values import SettingsInvalid

AUTHORITY_LIFE: Final = timedelta(days=3650)
GATE_LIFE: Final = timedelta(days=30)
"""Lifetime of the gate's own certificate. The gate replaces it long before it expires."""
COMMANDER_LIFE: Final = timedelta(minutes=10)
"""Lifetime of a command's certificate for a node's own endpoint."""
_SKEW: Final = timedelta(hours=1)
"""The begin of a certificate's validity is this long before its issue, since a node's clock may be slow."""
_URI: Final = re.compile(r"syncpod://fleet/([0-9a-f]{16})/node/([-a-z0-9.]{1,253})")
_ID: Final = re.compile(r"[0-9a-f]{16}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_ID_FILE: Final = "id"
_AUTHORITIES: Final = "authorities"
_CERTIFICATES: Final = "certificates"
_DISMISSED: Final = "dismissed"


@dataclass(frozen=True)
class IssuedToNode:
    """A certificate that a node was given."""

    node: str
    serial: str
    """Its serial number in lower-case hexadecimal; `openssl x509 -serial` prints it in upper case."""
    not_after: datetime
    authority: int
    """The number of the authority that issued it."""
    revoked: bool
    """The gate does not accept the certificate. If `dismissed` is True too, the gate only answers that the node was
    removed."""
    issued: datetime
    """When it was issued, in whole seconds."""
    dismissed: bool = False
    """Its node was removed from the fleet while the node was away. When the node is back, the gate answers only that it
    was removed."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class _Authority:
    number: int
    certificate: x509.Certificate
    revoked: x509.CertificateRevocationList


class Fleet:
    """The directory of one fleet.

    Each method blocks. Each raises OSError, and SettingsInvalid for a damaged file.
    """

    def __init__(self, directory: Path, identity: str) -> None:
        self.directory = directory
        self.id = identity

    @property
    def server_name(self) -> str:
        """The name in the gate's certificate, which nodes check."""
        return gate_name(self.id)

    def authorities(self) -> list[int]:
        """Return the numbers of the authorities whose certificates are trusted, oldest first."""
        found = (path.stem for path in (self.directory / _AUTHORITIES).glob("*.crt"))
        return sorted(int(stem) for stem in found if _NUMBER.fullmatch(stem))

    def authorities_pem(self) -> str:
        """Return the certificates of all authorities, PEM."""
        return "".join(self._path(number, "crt").read_text() for number in self.authorities())

    def trusted_pem(self) -> str:
        """Return the certificates and revocation lists of all authorities, PEM, for a TLS server."""
        return self.authorities_pem() + "".join(self._path(number, "crl").read_text() for number in self.authorities())

    def issue(self, node: str, life: timedelta, now: datetime) -> Pair:
        """Return a node's new certificate from the newest authority, and its key.

        The certificate is recorded on disk first.
        """
        with locked(self.directory):
            # The node is a member again. If it comes back with its earlier certificate, it must not be dismissed.
            self._revoke([each for each in self.issued() if each.node == node and each.dismissed], now)
            serial, pair = self._make(
                self.authorities()[-1],
                _common_name(node),
                [x509.UniformResourceIdentifier(f"syncpod://fleet/{self.id}/node/{node}")],
                (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH),
                now,
                life,
            )
            replace_file(self.directory / _CERTIFICATES / f"{serial:x}", pair.certificate, durable=True)
        return pair

    def issue_gate(self, names: Sequence[str], now: datetime) -> Pair:
        """Return a certificate for the gate from the oldest authority, and its key.

        The certificate is valid for `names`, for `server_name`, and for each name below it: a node requests such a name
        in its hello (:mod:`syncpod.gate.hello`).
        """
        hosts = [_host(name) for name in dict.fromkeys((self.server_name, f"*.{self.server_name}", *names))]
        usages = (ExtendedKeyUsageOID.SERVER_AUTH,)
        return self._make(self.authorities()[0], _common_name("syncpod gate"), hosts, usages, now, GATE_LIFE)[1]

    def issue_commander(self, now: datetime) -> Pair:
        """Return a certificate, of the oldest authority, by which a command reaches a node's own endpoint.

        The certificate is valid for minutes and has no record. The gate does not accept it, since it names no node.
        """
        names, usages = [x509.UniformResourceIdentifier(_commander(self.id))], (ExtendedKeyUsageOID.CLIENT_AUTH,)
        return self._make(self.authorities()[0], _common_name("syncpod commander"), names, usages, now, COMMANDER_LIFE)[
            1
        ]

    def _make(
        self,
        number: int,
        subject: x509.Name,
        names: Sequence[x509.GeneralName],
        usages: Sequence[x509.ObjectIdentifier],
        now: datetime,
        life: timedelta,
    ) -> tuple[int, Pair]:
        """Return the serial of a new certificate, and the certificate with its key.

        The certificate never outlives its authority.
        """
        authority, key = self._read(number).certificate, ec.generate_private_key(ec.SECP256R1())
        made = _signed(
            self._key(number),
            authority,
            key.public_key(),
            subject=subject,
            names=names,
            usages=usages,
            begins=now - _SKEW,
            ends=min(now + life, authority.not_valid_after_utc),
        )
        return made.serial_number, Pair(_pem(made), _key_pem(key))

    def issued(self) -> list[IssuedToNode]:
        """Return all certificates of nodes, sorted by node and expiry.

        A certificate whose authority is gone counts as revoked.
        """
        authorities = {_authority_key(known.certificate): known for known in map(self._read, self.authorities())}
        found = []
        for path in (self.directory / _CERTIFICATES).iterdir():
            if path.name.startswith("."):  # it is still being written
                continue
            certificate = _certificate(path)
            node = node_of(certificate, self.id)
            if node is None:
                raise SettingsInvalid(f"{path}: is not a certificate of a node of this fleet: remove it")
            by = authorities.get(_issuer_key(certificate))
            gone = by is None or by.revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
            serial = f"{certificate.serial_number:x}"
            number = by.number if by is not None else 0
            dismissed = not gone and (self.directory / _DISMISSED / serial).exists()
            ends = certificate.not_valid_after_utc
            revoked, begins = bool(gone) or dismissed, certificate.not_valid_before_utc + _SKEW
            found.append(IssuedToNode(node, serial, ends, number, revoked=revoked, issued=begins, dismissed=dismissed))
        return sorted(found, key=lambda each: (each.node, each.not_after, each.serial))

    def has_issued(self, serial: str) -> bool:
        """Return whether a certificate has a record. A certificate without one counts as revoked."""
        return (self.directory / _CERTIFICATES / serial).is_file()

    def revoke(self, node: str, now: datetime, serial: str = "") -> list[str]:
        """Revoke a node's certificates, or only the one with this `serial`; return the newly revoked serials."""
        with locked(self.directory):
            ours = [each for each in self.issued() if each.node == node and (not each.revoked or each.dismissed)]
            ours = [each for each in ours if serial in ("", each.serial)]
            self._revoke(ours, now)
        return [each.serial for each in ours]

    def _revoke(self, ours: Sequence[IssuedToNode], now: datetime) -> None:
        for number in {each.authority for each in ours}:
            known = self._read(number)
            serials = [int(each.serial, 16) for each in ours if each.authority == number]
            self._write_list(number, known.certificate, [*known.revoked, *(_revoked(s, now) for s in serials)])

    def dismiss(self, node: str) -> list[str]:
        """Mark the certificates of a node that is removed while it is away; return their serials.

        When the node is back, the gate answers that it was removed, and nothing else. `issue` and `revoke` end this
        state.
        """
        with locked(self.directory):
            ours = [each.serial for each in self.issued() if each.node == node and not each.revoked]
            for serial in ours:
                replace_file(self.directory / _DISMISSED / serial, "", durable=True)
        return ours

    def rotate(self, now: datetime) -> int:
        """Make a new authority, which issues to nodes from now on; return its number."""
        with locked(self.directory):
            return self._make_authority(max(self.authorities(), default=0) + 1, now)

    def retire(self) -> int | None:
        """Remove the oldest authority and return its number; None if it is the only one.

        Certificates of a removed authority are not trusted any more.
        """
        with locked(self.directory):
            numbers = self.authorities()
            if len(numbers) < 2:
                return None
            for kind in ("crt", "crl", "key"):
                self._path(numbers[0], kind).unlink(missing_ok=True)
            sync_directory(self.directory / _AUTHORITIES)
            return numbers[0]

    def changed(self) -> frozenset[tuple[str, int, int]]:
        """Return a value that changes with each new or removed authority, and each revoked or dismissed certificate."""
        paths = [*(self.directory / _AUTHORITIES).glob("[1-9]*.*"), *(self.directory / _DISMISSED).glob("[0-9a-f]*")]
        found = ((path.name, path.stat()) for path in paths)
        # Each file is replaced whole. If two changes have the same time, their inodes differ.
        return frozenset((name, status.st_ino, status.st_mtime_ns) for name, status in found)

    def issued_changed(self) -> int:
        """Return a number that changes whenever a certificate is issued."""
        return (self.directory / _CERTIFICATES).stat().st_mtime_ns

    def record(self, serial: str) -> bytes:
        """Return the record of an issued certificate: the certificate itself, PEM."""
        return (self.directory / _CERTIFICATES / serial).read_bytes()

    def _path(self, number: int, kind: str) -> Path:
        return self.directory / _AUTHORITIES / f"{number}.{kind}"

    def _key(self, number: int) -> ec.EllipticCurvePrivateKey:
        path = self._path(number, "key")
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except ValueError:
            raise SettingsInvalid(f"{path}: is not a private key: restore it") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SettingsInvalid(f"{path}: is not a private key of this fleet: restore it")
        return key

    def _read(self, number: int) -> _Authority:
        path = self._path(number, "crl")
        try:
            revoked = x509.load_pem_x509_crl(path.read_bytes())
        except ValueError:
            raise SettingsInvalid(f"{path}: is not a revocation list: restore it") from None
        return _Authority(number, _certificate(self._path(number, "crt")), revoked)

    def _make_authority(self, number: int, now: datetime) -> int:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(f"syncpod fleet {self.id} authority {number}")
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        made = builder.sign(key, SHA256())
        replace_file(self._path(number, "key"), _key_pem(key), durable=True)
        self._write_list(number, made, [])
        replace_file(self._path(number, "crt"), _pem(made), durable=True)
        return number

    def _write_list(self, number: int, authority: x509.Certificate, revoked: Sequence[x509.RevokedCertificate]) -> None:
        # An expired list would keep all nodes out, so the list is valid for as long as its authority.
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(authority.not_valid_before_utc)
            .next_update(authority.not_valid_after_utc)
            .add_extension(x509.CRLNumber(len(revoked) + 1), critical=False)
        )
        for each in revoked:
            builder = builder.add_revoked_certificate(each)
        made = builder.sign(self._key(number), SHA256()).public_bytes(Encoding.PEM)
        replace_file(self._path(number, "crl"), made, durable=True)


def open_fleet(directory: Path, now: datetime) -> Fleet:
    """Return the fleet with this directory. If there is none, it is created with its first authority. Blocks.

    Raises SettingsInvalid if another account could write to the directory, and OSError.
    """
    try:
        require_ours(directory)
    except NotOurs as why:
        raise SettingsInvalid(f"fleet directory {directory}: {why}: it must belong to this user alone") from None
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o700)
    for name in (_AUTHORITIES, _CERTIFICATES, _DISMISSED):
        (directory / name).mkdir(mode=0o700, exist_ok=True)
    with locked(directory):
        path = directory / _ID_FILE
        if not path.exists():
            replace_file(path, secrets.token_hex(8) + "\n", durable=True)
        identity = path.read_text(errors="replace").strip()
        if not _ID.fullmatch(identity):
            raise SettingsInvalid(f"{path}: is not the id of a fleet: restore it")
        fleet = Fleet(directory, identity)
        if not fleet.authorities():
            fleet._make_authority(1, now)
    return fleet


def has_fleet(directory: Path) -> bool:
    """Return whether a directory is that of a fleet. Blocks. Raises OSError."""
    return (directory / _ID_FILE).exists()


def gate_name(fleet: str) -> str:
    """Return the name in the certificate of a fleet's gate."""
    return f"gate.{fleet}.syncpod"


def _commander(fleet: str) -> str:
    return f"syncpod://fleet/{fleet}/commander"


def is_commander(certificate: x509.Certificate, fleet: str) -> bool:
    """Return whether a certificate was issued by :meth:`Fleet.issue_commander` of this fleet."""
    return _uris(certificate) == [_commander(fleet)]


def node_of(certificate: x509.Certificate, fleet: str) -> str | None:
    """Return the node that a certificate names; None if it names no node of this fleet, or more than one."""
    uris = _uris(certificate)
    named = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
    return named[2] if named is not None and named[1] == fleet and is_node_name(named[2]) else None


def _uris(certificate: x509.Certificate) -> list[str]:
    """Return the URIs that a certificate names; [] if its names cannot be read."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return []
    return extension.value.get_values_for_type(x509.UniformResourceIdentifier)


def _signed(
    by: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    public: ec.EllipticCurvePublicKey,
    *,
    subject: x509.Name,
    names: Sequence[x509.GeneralName],
    usages: Sequence[x509.ObjectIdentifier],
    begins: datetime,
    ends: datetime,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    return builder.sign(by, SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])  # the most that X.509 allows


def _host(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ip_address(name))
    return x509.DNSName(name)


def _revoked(serial: int, now: datetime) -> x509.RevokedCertificate:
    return x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()


def _authority_key(certificate: x509.Certificate) -> bytes:
    return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def _issuer_key(certificate: x509.Certificate) -> bytes:
    return certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise SettingsInvalid(f"{path}: is not a certificate: restore it") from None


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory against other writers during the block."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def now() -> datetime:
    """Return the current time, for new certificates."""
    return datetime.now(UTC)
