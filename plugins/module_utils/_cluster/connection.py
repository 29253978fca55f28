# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection, made as kubernetes.core makes its own."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as core

from .api import Api, ApiError
from .transport import Sender

try:
    from kubernetes.client import ApiClient
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError
except ImportError:
    pass  # AnsibleK8SModule reports the missing library by name before any of these is used

_NO_CONFIGURATION = "Name a readable kubeconfig (option kubeconfig, K8S_AUTH_KUBECONFIG, KUBECONFIG) and a context that it has."


def connect(module: Any) -> Api:
    """The verbs, for the server and user that kubernetes.core would take (options, K8S_AUTH_* variables, kubeconfig, in-cluster).

    Nothing is sent yet. ApiError when no configuration is found.
    """
    return Api(Sender.of(_client(module)))


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
