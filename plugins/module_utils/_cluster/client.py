# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection of a program: as the ServiceAccount of its pod, or with a kubeconfig. Needs neither Ansible nor kubernetes.core."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from .api import Api, ApiError
from .transport import Sender

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet renews a token when a fifth of its life (ten minutes at least) is left.
TOKEN_SECONDS = 60.0
# One for each watch, and some for the rest.
CONNECTIONS = 64
_OUTSIDE = "Name a kubeconfig, or run in a pod with a ServiceAccount token."


def connect_program(kubeconfig: str | None = None, agent: str = "ascend.mindie") -> Api:
    """The verbs of a program, with a kubeconfig or else as the pod's ServiceAccount. ApiError when the server cannot be reached.

    `agent` is who the server's audit log says it was.
    """
    return Api(_by_kubeconfig(kubeconfig, agent) if kubeconfig else _in_cluster(agent)).discovered()


class Token:
    """The token in a file that is renewed from outside, read again after a minute by a clock that never jumps."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._text, self._read = file.read_text(encoding="utf-8").strip(), time.monotonic()

    def header(self) -> dict[str, str]:
        """The header that shows it. A file that cannot be read just now leaves the token as it was."""
        with self._lock:
            if time.monotonic() - self._read > TOKEN_SECONDS:
                with contextlib.suppress(OSError):
                    self._text, self._read = self._file.read_text(encoding="utf-8").strip() or self._text, time.monotonic()
            return {"Authorization": f"Bearer {self._text}"}


def _in_cluster(agent: str) -> Sender:
    """Without the library kubernetes, whose models of all kinds take as much memory as the program itself."""
    from urllib3 import PoolManager

    try:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        token = Token(ACCOUNT / "token")
    except (KeyError, OSError) as error:
        why = f"the environment has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        raise ApiError("connect as the ServiceAccount of a pod", why, reason="NoConfiguration", status=None, remedy=_OUTSIDE) from error
    pools = PoolManager(maxsize=CONNECTIONS, cert_reqs="CERT_REQUIRED", ca_certs=str(ACCOUNT / "ca.crt"))
    return Sender(pools, f"https://{f'[{host}]' if ':' in host else host}:{port}", lambda: {"User-Agent": agent, **token.header()})


def _by_kubeconfig(file: str, agent: str) -> Sender:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_kube_config

    configuration = Configuration()
    try:
        load_kube_config(config_file=file, client_configuration=configuration, persist_config=False)
    except (ConfigException, OSError) as error:
        raise ApiError(f"connect with kubeconfig {file}", str(error), reason="NoConfiguration", status=None, remedy=_OUTSIDE) from error
    configuration.connection_pool_maxsize = CONNECTIONS
    client = ApiClient(configuration)
    client.user_agent = agent
    return Sender.of(client)
