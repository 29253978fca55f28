# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate by which a program serves an API, and which authorities the API server is to trust for it.

A certificate is made together with an authority of its own, whose key is kept nowhere: it signs this one certificate and no other. When
the certificate is replaced, the pods go on with the old one until they have seen the new one, so that the API server trusts both
authorities: the new one before anything else changes, the old one for `HANDOVER` seconds from then.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DAY = 86400
LIFETIME = 365 * DAY
RENEW_BEFORE = 30 * DAY
# Seconds after which every pod surely shows the new certificate: a kubelet brings new files within two minutes.
HANDOVER = 3600

CERTIFICATE, PRIVATE_KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
# On the Secret: since when it has this certificate, in seconds since the epoch.
SINCE = "ascend.mindie/certificate-since"

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


@dataclass(frozen=True)
class Serving:
    """A certificate with its chain, its key, and the authorities that vouch for it, as PEM texts."""

    certificate: str
    private_key: str = field(repr=False)
    authority: str

    @classmethod
    def of(cls, secret: Mapping[str, Any]) -> Serving:
        """What a Secret holds; what it lacks or what is no text is empty."""
        return cls(*(decoded((secret.get("data") or {}).get(key)) for key in (CERTIFICATE, PRIVATE_KEY, AUTHORITY)))


@dataclass(frozen=True)
class Facts:
    """What a certificate says: `names` it is for, and until when (seconds since the epoch) it and its authority hold.

    `problem` says in words why it cannot be used at all.
    """

    names: frozenset[str] = frozenset()
    not_before: float = 0.0
    not_after: float = 0.0
    problem: str = ""


def names(name: str, namespace: str) -> tuple[str, ...]:
    """How a Service is called; the API server asks for the first one."""
    return f"{name}.{namespace}.svc", f"{name}.{namespace}", f"{name}.{namespace}.svc.cluster.local"


def unusable(facts: Facts, name: str, now: float) -> str:
    """Why nobody could be served under this name, in words; "" when it can be."""
    if facts.problem:
        return facts.problem
    if not {name, f"*.{name.partition('.')[2]}"} & facts.names:
        return f"it is not for {name}"
    if now < facts.not_before:
        return "it is not valid yet"
    return "it has expired" if now >= facts.not_after else ""


def ends_soon(facts: Facts, now: float) -> bool:
    """True below 30 days."""
    return facts.not_after - now < RENEW_BEFORE


def renewal(facts: Facts | None, name: str, now: float) -> str:
    """Why a certificate has to be made, in words; "" when the one there is will do. `facts` is None when there is none."""
    if facts is None:
        return "it is missing"
    wrong = unusable(facts, name, now)
    return wrong or ("it ends within 30 days" if ends_soon(facts, now) else "")


def since(secret: Mapping[str, Any] | None, now: float) -> float:
    """Since when a Secret has its certificate; for ever, when it does not say so. What lies ahead is taken for now."""
    text = str((((secret or {}).get("metadata") or {}).get("annotations") or {}).get(SINCE, ""))
    return min(float(text), now) if text.isdecimal() else 0.0


def bundle(own: str, trusted: str, begun: float, now: float) -> str:
    """The authorities that the API server is to trust: that of the certificate, which there is since `begun`, and for a while those so far."""
    mine = blocks(own)
    former = blocks(trusted) if now - begun < HANDOVER else ()
    return "".join(f"{block}\n" for block in dict.fromkeys((*mine, *former)))


def blocks(text: str) -> tuple[str, ...]:
    """The certificates of a PEM text."""
    return tuple(found.replace("\r", "") for found in _BLOCK.findall(text))


def encoded(text: str) -> str:
    """As objects have it."""
    return base64.b64encode(text.encode()).decode("ascii")


def decoded(text: Any) -> str:
    """The text again; "" for what is none."""
    try:
        return base64.b64decode(text or "", validate=True).decode()
    except (TypeError, ValueError):
        return ""


def told(facts: Facts) -> dict[str, Any]:
    """What is shown of a certificate."""
    return {"names": sorted(facts.names), "not_after": int(facts.not_after)}
