# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates and keys of one cluster."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs what the cluster needs."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str) -> Authority:
        """A self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        builder = _builder(subject, subject, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        return cls(name, key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, name: str, certificate: Path, key: Path) -> Authority:
        """An authority that was written to files."""
        found = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(found, ec.EllipticCurvePrivateKey)
        return cls(name, found, x509.load_pem_x509_certificate(certificate.read_bytes()))

    def issue(self, name: str, *, organizations: tuple[str, ...] = (), server: bool = False) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) for a user (`organizations` are its groups) or for a server on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name, organizations), self.certificate.subject, key)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if server:
            names: list[x509.GeneralName] = [x509.DNSName(item) for item in SERVER_NAMES]
            names += [x509.IPAddress(ipaddress.ip_address(item)) for item in SERVER_ADDRESSES]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return pem(builder.sign(self.key, hashes.SHA256())), key_pem(key)


def write_all(directory: Path) -> Authority:
    """Write what the programs of the control plane read; returns the cluster's authority."""
    authority, front = Authority.new("cluster"), Authority.new("front-proxy")
    signing = ec.generate_private_key(ec.SECP256R1())
    files = {"ca.crt": pem(authority.certificate), "front-ca.crt": pem(front.certificate), "front-ca.key": key_pem(front.key)}
    files["api.crt"], files["api.key"] = authority.issue("kube-apiserver", server=True)
    files["front.crt"], files["front.key"] = front.issue("front-proxy-client")
    files["sa.key"] = key_pem(signing)
    files["sa.pub"] = signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for name, content in files.items():
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    return authority


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def _subject(name: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, item) for item in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )
