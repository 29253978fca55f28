# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods on a node that turns NotReady are removed by force, so that they start elsewhere without a wait."""

from __future__ import annotations

import logging

from ..kube_client import NODES, PODS, Informer, Key, KubeClient, Obj
from . import objects, status
from .work_queue import Worker

LOG = logging.getLogger(__name__)


class NodeCleaner:
    """Watches nodes. A node counts as turned when its condition Ready is no longer True."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.worker = Worker("nodes", self.clean)
        self.informer = Informer(client, NODES, self._changed)

    def _changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is None or status.is_ready(after) or (before is not None and not status.is_ready(before)):
            return
        if any(row["type"] == "Ready" for row in after.get("status", {}).get("conditions") or ()):
            self.worker.add(("", after["metadata"]["name"]))

    def clean(self, key: Key) -> None:
        """Force-delete all managed pods of a node that is still not ready."""
        node = self.informer.get(*key)
        if node is None or status.is_ready(node):
            return
        query = {"labelSelector": objects.MANAGED_SELECTOR, "fieldSelector": f"spec.nodeName={key[1]}"}
        for pod in self._client.list(PODS, **query)["items"]:
            metadata = pod["metadata"]
            self._client.delete(PODS, metadata["namespace"], metadata["name"], gracePeriodSeconds=0)
            LOG.info("node %s is not ready: removed pod %s/%s", key[1], metadata["namespace"], metadata["name"])
