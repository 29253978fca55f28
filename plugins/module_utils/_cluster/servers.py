# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers of the cluster, and the pods that have NPUs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .api import Api, ApiError

Objects = tuple[Mapping[str, Any], ...]


def observe_servers(api: Api, pods_of_service: Objects, warn: Callable[[str], None]) -> tuple[Objects, Objects]:
    """All nodes, and the pods of all namespaces. Who may not read these has the pods of the service, and is told so."""
    with ThreadPoolExecutor(2) as pool:
        nodes, pods = pool.submit(api.list_objects, "Node", None), pool.submit(api.list_objects, "Pod", None)
        found = nodes.result().items
        try:
            return found, pods.result().items
        except ApiError as error:
            if error.status != 403:
                raise
            warn(f"What pods of other namespaces have of the servers is not known, so that less may be free than is shown: {error}")
            return found, pods_of_service
