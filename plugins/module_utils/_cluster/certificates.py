# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes and reads certificates with the library cryptography. Keys are random, and times are the caller's."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._motor.certificates import LIFETIME, Facts, Serving

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    CRYPTOGRAPHY_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    CRYPTOGRAPHY_IMPORT_ERROR = None if hasattr(x509.Certificate, "not_valid_after_utc") else "cryptography is older than 42"

if TYPE_CHECKING:
    Key = ec.EllipticCurvePrivateKey

# Seconds by which clocks may differ.
SKEW = 3600
# So long may the name of a certificate be.
LONGEST_NAME = 64


def make(names: Sequence[str], now: float) -> Serving:
    """A new certificate for these names, valid for a year from now, and the authority that signed it and whose key is forgotten here."""
    serial = x509.random_serial_number()
    key, authority_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _name(f"{names[0][: LONGEST_NAME - 20]} CA {serial & 0xFFFFFFFF:08x}")
    begun = _builder(authority_name, authority_name, authority_key, now)
    begun = begun.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = begun.add_extension(_usage(signs=True), critical=True).sign(authority_key, hashes.SHA256())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    leaf = _builder(_name(names[0][:LONGEST_NAME]), authority_name, key, now).add_extension(alternatives, critical=False)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True).add_extension(_usage(), critical=True)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    signed = leaf.add_extension(issuer, critical=False).sign(authority_key, hashes.SHA256())
    return Serving(_pem(signed), _key_pem(key), _pem(authority))


def read(serving: Serving) -> Facts:
    """What is to be known of a certificate. What cannot be used is told by `Facts.problem`."""
    try:
        chain = x509.load_pem_x509_certificates(serving.certificate.encode())
        trusted = x509.load_pem_x509_certificates(serving.authority.encode())
        key = serialization.load_pem_private_key(serving.private_key.encode(), password=None)
    except (ValueError, TypeError, ArithmeticError):
        # What the library says may show what it was given.
        return Facts(problem="certificate, key or authority cannot be read as PEM (the key must have no password)")
    leaf = chain[0]
    if _public(leaf.public_key()) != _public(key.public_key()):
        return Facts(problem="the key is not that of the certificate")
    path = _path(leaf, chain[1:], trusted)
    if path is None:
        return Facts(problem="the authority has not signed it")
    until = min(found.not_valid_after_utc.timestamp() for found in path)
    return Facts(_names(leaf), max(found.not_valid_before_utc.timestamp() for found in path), until)


def _path(leaf: x509.Certificate, between: list[x509.Certificate], trusted: list[x509.Certificate]) -> list[x509.Certificate] | None:
    """The certificates from the leaf up to an authority; None when no way leads there."""
    path = [leaf]
    while len(path) <= len(between) + 1:
        root = next((found for found in trusted if _signed(path[-1], found)), None)
        if root is not None:
            return [*path, root]
        step = next((found for found in between if found not in path and _signed(path[-1], found)), None)
        if step is None:
            return None
        path.append(step)
    return None


def _signed(found: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(leaf: x509.Certificate) -> frozenset[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(found.get_values_for_type(x509.DNSName))


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, now: float) -> x509.CertificateBuilder:
    public, begin = key.public_key(), datetime.datetime.fromtimestamp(int(now), datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
    builder = builder.not_valid_before(begin - datetime.timedelta(seconds=SKEW)).not_valid_after(
        begin + datetime.timedelta(seconds=LIFETIME)
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(*, signs: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _public(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    found: bytes = key.public_bytes(serialization.Encoding.DER, form)
    return found


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _key_pem(key: Key) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode("ascii")
