# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection, made as kubernetes.core makes its own."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core

from .api import Api, ApiError
from .retry import TRANSIENT, Attempts
from .transport import Sender

try:
    from kubernetes.client import ApiClient
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError
except ImportError:
    pass  # AnsibleK8SModule reports the missing library by name before any of these is used

_NO_CONFIGURATION = "Name a readable kubeconfig (option kubeconfig, K8S_AUTH_KUBECONFIG, KUBECONFIG) and a context that it has."


def connect(module: Any) -> Api:
    """Connect as kubernetes.core does (options, K8S_AUTH_* variables, kubeconfig, in-cluster) and return the verbs.

    The server is asked for its API groups; a failure is an ApiError like any other. A server that is not there is not waited for.
    """
    once, attempts = Api(Sender.of(_client(module))).pausing(None), Attempts()
    while True:
        try:
            return once.discovered().pausing(time.sleep)
        except ApiError as error:
            pause = attempts.pause(error.retry_after) if error.status in TRANSIENT else None
            if pause is None:
                raise
        time.sleep(pause)


def _client(module: Any) -> Any:
    """A client with the configuration that kubernetes.core makes of the options.

    Its own client, which comes with it, would ask for the version and for the API groups, one after the other, and keep in a file
    what was installed then.
    """
    try:
        client = ApiClient(core._create_configuration(core._create_auth_spec(module)))
    except (ConfigException, HTTPError, OSError) as error:
        attempted = f"connect with {_named_kubeconfig(module)}"
        raise ApiError(attempted, str(error), reason="NoConfiguration", status=None, remedy=_NO_CONFIGURATION) from error
    for name, value in core._create_headers(module).items():
        core._set_header(client, name, value)
    return client


def _named_kubeconfig(module: Any) -> str:
    """The kubeconfig in words; its content may be given instead of a path, and is not shown."""
    given = module.params.get("kubeconfig") or os.environ.get("K8S_AUTH_KUBECONFIG")
    return f"kubeconfig {given}" if isinstance(given, str) else "the kubeconfig that was given" if given else "the default kubeconfig"
