# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a certificate is renewed, which authorities are trusted meanwhile, and what certificates say. Those here are real ones."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import certificates as library
from ansible_collections.ascend.mindie.plugins.module_utils._motor import certificates
from ansible_collections.ascend.mindie.plugins.module_utils._motor.certificates import DAY, HANDOVER, LIFETIME, SINCE, Facts, Serving
from tests.cluster.certificates import Authority, key_pem, pem

NOW = 1_800_000_000.0
NAMES = certificates.names("adaptor", "system")
HOST = NAMES[0]
GOOD = Facts(frozenset(NAMES), NOW - DAY, NOW + 31 * DAY)


@pytest.fixture(scope="module")
def serving() -> Serving:
    return library.make(NAMES, NOW)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (GOOD, ""),
        (None, "it is missing"),
        (Facts(GOOD.names, GOOD.not_before, NOW + 30 * DAY), ""),
        (Facts(GOOD.names, GOOD.not_before, NOW + 30 * DAY - 1), "it ends within 30 days"),
        (Facts(GOOD.names, GOOD.not_before, NOW), "it has expired"),
        (Facts(GOOD.names, NOW + 1, GOOD.not_after), "it is not valid yet"),
        (Facts(frozenset({"other.system.svc"}), GOOD.not_before, GOOD.not_after), f"it is not for {HOST}"),
        (Facts(frozenset({"*.system.svc"}), GOOD.not_before, GOOD.not_after), ""),
        (Facts(frozenset({"*.svc", "*.other.svc"}), GOOD.not_before, GOOD.not_after), f"it is not for {HOST}"),
        (Facts(problem="the key is not that of the certificate"), "the key is not that of the certificate"),
    ],
)
def test_a_certificate_is_renewed_below_thirty_days_and_when_it_cannot_be_used(facts: Facts | None, why: str) -> None:
    assert certificates.renewal(facts, HOST, NOW) == why


def test_the_new_authority_comes_first_and_the_old_one_stays_for_an_hour() -> None:
    old, new = (library.make(NAMES, NOW).authority for dummy in range(2))
    both = certificates.bundle(new, old, NOW, NOW)
    assert certificates.blocks(both) == (*certificates.blocks(new), *certificates.blocks(old))
    assert certificates.bundle(new, both, NOW, NOW + HANDOVER - 1) == both, "nothing changes meanwhile"
    assert certificates.bundle(new, both, NOW, NOW + HANDOVER) == new
    assert certificates.bundle(new, "", NOW, NOW) == new


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [({SINCE: "1700000000"}, 1.7e9), ({SINCE: "1900000000"}, NOW), ({SINCE: "yesterday"}, 0.0), ({}, 0.0), (None, 0.0)],
)
def test_since_when_there_is_a_certificate_is_never_ahead_and_never_guessed(annotations: Any, wanted: float) -> None:
    assert certificates.since({"metadata": {"annotations": annotations}}, NOW) == wanted
    assert certificates.since(None, NOW) == 0.0


def test_a_secret_is_read_as_it_was_written_and_damage_is_empty(serving: Serving) -> None:
    texts = {"tls.crt": serving.certificate, "tls.key": serving.private_key, "ca.crt": serving.authority}
    assert Serving.of({"data": {key: certificates.encoded(text) for key, text in texts.items()}}) == serving
    assert Serving.of({"data": {"tls.crt": "@@", "tls.key": "/w==", "ca.crt": None}}) == Serving("", "", "")
    assert Serving.of({}) == Serving("", "", "")


def test_what_is_made_is_for_its_names_for_a_year_and_nobody_can_sign_more_with_it(serving: Serving) -> None:
    facts = library.read(serving)
    assert facts == Facts(frozenset(NAMES), NOW - 3600, NOW + LIFETIME) and not certificates.unusable(facts, HOST, NOW)
    leaf, authority = (x509.load_pem_x509_certificate(text.encode()) for text in (serving.certificate, serving.authority))
    key = serialization.load_pem_private_key(serving.private_key.encode(), None)
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    assert key.public_key().public_bytes(*form) == leaf.public_key().public_bytes(*form) != authority.public_key().public_bytes(*form)
    constraints = [found.extensions.get_extension_for_class(x509.BasicConstraints).value for found in (leaf, authority)]
    assert [(found.ca, found.path_length) for found in constraints] == [(False, None), (True, 0)]


def test_no_two_that_are_made_are_alike() -> None:
    made = [library.make(NAMES, NOW) for dummy in range(3)]
    subjects = {x509.load_pem_x509_certificate(found.authority.encode()).subject.rfc4514_string() for found in made}
    assert len({found.private_key for found in made}) == len(subjects) == 3


def test_the_longest_names_make_a_certificate() -> None:
    names = certificates.names("a" * 63, "b" * 63)
    assert library.read(library.make(names, NOW)).names == set(names)


def test_a_key_is_not_in_what_is_shown_of_a_certificate(serving: Serving) -> None:
    assert serving.private_key.splitlines()[1] not in f"{serving} {serving!r}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"certificate": ""}, "cannot be read"),
        ({"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "cannot be read"),
        ({"private_key": "nonsense"}, "cannot be read"),
        ({"authority": "nonsense"}, "cannot be read"),
        ({"private_key": key_pem(library.ec.generate_private_key(library.ec.SECP256R1())).decode()}, "not that of the certificate"),
        ({"authority": library.make(NAMES, NOW).authority}, "has not signed it"),
    ],
)
def test_what_cannot_be_used_is_told_without_showing_it(serving: Serving, change: dict[str, str], problem: str) -> None:
    facts = library.read(
        Serving(**{"certificate": serving.certificate, "private_key": serving.private_key, "authority": serving.authority} | change)
    )
    assert problem in facts.problem and "nonsense" not in facts.problem
    assert certificates.renewal(facts, HOST, NOW) == facts.problem


def between(signer: Authority, name: str, *, ends: float) -> tuple[x509.Certificate, Any]:
    """An intermediate authority."""
    key = library.ec.generate_private_key(library.ec.SECP256R1())
    start = datetime.datetime.fromtimestamp(NOW - DAY, datetime.UTC)
    builder = x509.CertificateBuilder(signer.certificate.subject, library._name(name), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(datetime.datetime.fromtimestamp(ends, datetime.UTC))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(signer.key, library.hashes.SHA256()), key


def test_a_chain_holds_as_long_as_its_shortest_part_and_needs_all_of_its_parts() -> None:
    root = Authority.new("root")
    middle, key = between(root, "middle", ends=NOW + 40 * DAY)
    certificate, private = Authority("middle", key, middle).issue("adaptor", server=True)
    whole = Serving(certificate.decode() + pem(middle).decode(), private.decode(), pem(root.certificate).decode())
    assert library.read(whole).problem == "" and library.read(whole).not_after <= NOW + 40 * DAY
    assert "has not signed it" in library.read(Serving(certificate.decode(), private.decode(), whole.authority)).problem
    assert library.read(Serving(certificate.decode(), private.decode(), pem(middle).decode())).problem == ""


def test_what_is_shown_are_names_and_end() -> None:
    assert certificates.told(GOOD) == {"names": sorted(NAMES), "not_after": int(GOOD.not_after)}
