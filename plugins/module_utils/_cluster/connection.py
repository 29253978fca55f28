# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection, made with the client of kubernetes.core."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

from .api import _TLS, _UNREACHABLE, Api, ApiError, Response, _error
from .retry import TRANSIENT, Attempts
from .transport import Sender, is_tls, retry_after

try:
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError
except ImportError:
    pass  # AnsibleK8SModule reports the missing library by name before any of these is used

_NO_CONFIGURATION = "Name a readable kubeconfig (option kubeconfig, K8S_AUTH_KUBECONFIG, KUBECONFIG) and a context that it has."


def connect(module: Any) -> Api:
    """Connect as kubernetes.core does (options, K8S_AUTH_* variables, kubeconfig, in-cluster) and return the verbs.

    The client asks the server for /version and its API groups; a failure is an ApiError like any other.
    """
    attempts, started = Attempts(), time.time()
    while True:
        try:
            dynamic = get_api_client(module=module).client
            known = dynamic.resources.parse_api_groups(request_resources=False, update=_remembered(dynamic.resources, started))
            groups = frozenset(known["apis"])
            break
        except CoreException as error:
            attempted = f"connect with {_named_kubeconfig(module)}"
            raise ApiError(attempted, str(error), reason="NoConfiguration", status=None, remedy=_NO_CONFIGURATION) from error
        except ApiException as error:
            pause = attempts.pause(retry_after(error.headers)) if error.status in TRANSIENT else None
            if pause is None:
                raise _refused(error) from error
            time.sleep(pause)
        except (HTTPError, OSError) as error:
            remedy = _TLS if is_tls(error) else _UNREACHABLE
            reason = "CertificateInvalid" if is_tls(error) else "Unreachable"
            raise ApiError("connect to the Kubernetes API server", str(error), reason=reason, status=None, remedy=remedy) from error
    return Api(Sender.of(dynamic.client), groups)


def _remembered(resources: Any, started: float) -> bool:
    """True when the client has not read the API groups just now, but keeps in a file what an earlier run has read.

    What was installed since then is not in there; and to ask a client that has just asked would be a request too many.
    """
    try:
        written = os.path.getmtime(resources._Discoverer__cache_file)
    except (AttributeError, OSError):
        return True
    return written < started - 1.0


def _named_kubeconfig(module: Any) -> str:
    """The kubeconfig in words; its content may be given instead of a path, and is not shown."""
    given = module.params.get("kubeconfig") or os.environ.get("K8S_AUTH_KUBECONFIG")
    return f"kubeconfig {given}" if isinstance(given, str) else "the kubeconfig that was given" if given else "the default kubeconfig"


def _refused(error: Any) -> ApiError:
    attempted = "connect to the Kubernetes API server"
    if not error.status:
        return ApiError(attempted, str(error.reason), reason="CertificateInvalid", status=None, remedy=_TLS)
    return _error(attempted, "Namespace", Response(error.status, _as_bytes(error.body)))


def _as_bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else str(body or "").encode()
