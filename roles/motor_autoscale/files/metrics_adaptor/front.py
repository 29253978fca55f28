# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in: the API server, and nobody else.

The aggregation layer of the API server asks with a client certificate. Which authority signs it, and for which names, is in a ConfigMap
that the API server itself writes. Whoever comes without such a certificate could say that he is anybody, so he is refused, be he who he is.
The serving certificate is read again when its files change.
"""

from __future__ import annotations

import calendar
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.http_limits import Asked
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import rfc3339
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError

LOG = logging.getLogger(__name__)
CONFIG_MAP, NAMESPACE = "extension-apiserver-authentication", "kube-system"
AUTHORITY, NAMES = "requestheader-client-ca-file", "requestheader-allowed-names"
# Seconds between two looks at the files of the certificate, and at the ConfigMap.
FILES_EVERY, RULES_EVERY = 2.0, 20.0
CERTIFICATE, KEY = "tls.crt", "tls.key"


@dataclass(frozen=True)
class Rules:
    """Whose certificates are good: those that `authority` (PEM) has signed for one of the `names`; for any name, when there are none."""

    authority: str
    names: frozenset[str]


def rules(config_map: Mapping[str, Any] | None) -> Rules:
    """What the ConfigMap says. Raises ValueError when it does not name an authority, so that nobody could be let in."""
    data = (config_map or {}).get("data") or {}
    authority = data.get(AUTHORITY) or ""
    if "-----BEGIN CERTIFICATE-----" not in authority:
        raise ValueError(f"ConfigMap {NAMESPACE}/{CONFIG_MAP} has no {AUTHORITY}: the API server has no aggregation layer")
    names = json.loads(data.get(NAMES) or "[]")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{NAMES} in ConfigMap {NAMESPACE}/{CONFIG_MAP} is no list of names")
    return Rules(authority, frozenset(names))


def refusal(certificate: Mapping[str, Any] | None, names: frozenset[str], clock: float) -> tuple[int, str] | None:
    """Status and words for a client with this certificate, which the authority has signed; None lets it in. `clock`: the time of day."""
    if not certificate:
        return 401, "only the API server is answered here, by its client certificate: ask it, and it asks the adaptor"
    if clock >= ssl.cert_time_to_seconds(certificate["notAfter"]):
        return 401, "the client certificate has expired"
    common = next((value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), "")
    if names and common not in names:
        return 403, f"the client certificate is for {common[:100]!r}, which is none of the allowed names"
    return None


@dataclass
class Front:
    """Keeps certificate and rules up to date in a thread. `changed` is called when what is let in must be asked for its certificate anew."""

    api: Api
    folder: Path
    changed: Callable[[], None] = lambda: None
    problems: dict[str, str] = field(default_factory=dict)
    expires: float = 0.0
    reloads: int = 0
    _context: ssl.SSLContext | None = None
    _rules: Rules | None = None
    _files: tuple[bytes, bytes] | None = None
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Look once, then again and again."""
        self._look_at_rules()
        self._look_at_files()
        self._thread = threading.Thread(target=self._follow, name="front", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ending.set()
        if self._thread:
            self._thread.join(1)

    @property
    def ready(self) -> bool:
        """Whether anybody can be let in."""
        return self._context is not None

    @property
    def alive(self) -> bool:
        """Whether somebody looks."""
        return self._thread is not None and self._thread.is_alive()

    def secured(self) -> ssl.SSLContext:
        """The TLS settings for the next connection. Raises OSError as long as there are none."""
        if self._context is None:
            raise ConnectionRefusedError("there is no certificate or no authority yet")
        return self._context

    def refusal(self, asked: Asked) -> tuple[int, str] | None:
        """Why a request is not answered; None when it is."""
        certificate = asked.connection.getpeercert() if isinstance(asked.connection, ssl.SSLSocket) else None
        names = self._rules.names if self._rules else frozenset()
        return refusal(certificate, names, time.time())

    def _follow(self) -> None:
        looked = time.monotonic()
        while not self._ending.wait(FILES_EVERY):
            if time.monotonic() - looked >= RULES_EVERY or not self._rules:
                looked = time.monotonic()
                self._look_at_rules()
            self._look_at_files()

    def _look_at_rules(self) -> None:
        """What cannot be read just now stays as it was."""
        try:
            found = rules(self.api.get("ConfigMap", NAMESPACE, CONFIG_MAP))
            if found != self._rules:
                self._use(self._files, found)
        except (MotorError, ValueError, OSError) as error:
            self._trouble("rules", f"cannot read who may come in: {error}")
        else:
            self._trouble("rules", "")

    def _look_at_files(self) -> None:
        try:
            found = ((self.folder / CERTIFICATE).read_bytes(), (self.folder / KEY).read_bytes())
            if found != self._files:
                self._use(found, self._rules)
        except (OSError, ValueError) as error:
            # The old one holds on. Files change all at one moment, which this may have been; the next look sees what is there then.
            self._trouble("certificate", f"cannot use the certificate in {self.folder}: {error}")
        else:
            self._trouble("certificate", "")

    def _use(self, files: tuple[bytes, bytes] | None, rules: Rules | None) -> None:
        """From now on, for connections to come. Those of a former authority end."""
        context = _context(self.folder, rules) if files and rules else None
        authority_before = self._rules.authority if self._rules else None
        self._files, self._rules = files, rules
        if context is None or files is None or rules is None:
            return
        self._context, self.reloads = context, self.reloads + 1
        self.expires = expiry(files[0])
        LOG.info("the certificate is valid until %s; let in: %s", rfc3339(self.expires), ", ".join(sorted(rules.names)) or "any name")
        if authority_before not in (None, rules.authority):
            self.changed()

    def _trouble(self, what: str, said: str) -> None:
        """Tell each trouble once, and that it is over."""
        if said and self.problems.get(what) != said:
            LOG.error("%s", said)
        if not said and self.problems.pop(what, ""):
            LOG.info("%s: can be read again", what)
        if said:
            self.problems[what] = said


def _context(folder: Path, rules: Rules) -> ssl.SSLContext:
    """TLS 1.2 or later. What a connection has shown is good for others until the authority changes, as these settings are new then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL  # who has none is told so
    context.load_verify_locations(cadata=rules.authority)
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    return context


def expiry(certificate: bytes) -> float:
    """Until when the first certificate of a PEM text holds, in seconds since the epoch. The library that Python has does not tell."""
    text = certificate.decode("ascii", "replace")
    first = text[text.index("-----BEGIN") : text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")]
    outer = next(_parts(ssl.PEM_cert_to_DER_cert(first)))[1]
    fields = list(_parts(next(_parts(outer))[1]))
    # Version (left out in version 1), serial number, algorithm, issuer, validity.
    tag, until = list(_parts(fields[4 if fields[0][0] == 0xA0 else 3][1]))[1]
    form = "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ"
    return float(calendar.timegm(time.strptime(until.decode("ascii"), form)))


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of what stands one after the other."""
    place = 0
    while place < len(der):
        tag, size, place = der[place], der[place + 1], place + 2
        if size & 0x80:
            count = size & 0x7F
            size, place = int.from_bytes(der[place : place + count], "big"), place + count
        yield tag, der[place : place + size]
        place += size
