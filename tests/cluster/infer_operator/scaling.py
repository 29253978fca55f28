# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HorizontalPodAutoscaler of an InstanceSet with a scaling policy."""

from __future__ import annotations

from ..kube_client import Obj
from . import objects
from .view import AUTOSCALERS, View, labelled

COUNTS = ("minReplicas", "maxReplicas")
GO_KIND = {str: "string", float: "number", bool: "bool", list: "array", dict: "object"}


class Scaling:
    """Makes, re-asserts and removes autoscalers."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._said: dict[str, str] = {}

    def reconcile(self, parent: Obj) -> Obj | None:
        """Bring the autoscaler in line with the policy and return the new scalingResourceStatus; None without a policy.

        Raises KubeError when the server refuses the autoscaler; then the old status stays.
        """
        policy: Obj | None = parent["spec"].get("scalingPolicy")
        if policy is None:
            self._remove(parent)
            return None
        kind = policy.get("type", "")
        if kind != "HPA":
            # The autoscaler of an earlier policy stays alive while the count of the role counts again: they fight.
            return {"type": kind, "message": f"unsupported scaling policy type: {kind}"}
        for field in COUNTS:
            value = policy.get("spec", {}).get(field)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                text = (
                    f"failed to unmarshal HPA spec: json: cannot unmarshal {GO_KIND[type(value)]} into Go struct field "
                    f"HorizontalPodAutoscalerSpec.{field} of type int32"
                )
                return {"type": "HPA", "message": text}
        return self._assert(objects.autoscaler(parent))

    def _assert(self, wanted: Obj) -> Obj:
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        live = self._view.client.get(AUTOSCALERS, namespace, name)
        if live is None:
            made = self._view.client.create(AUTOSCALERS, wanted)
            self._said[made["metadata"]["uid"]] = "created"
        else:
            patch = [{"op": "replace", "path": "/spec", "value": wanted["spec"]}]
            made = self._view.client.patch(AUTOSCALERS, namespace, name, patch)
            if made["spec"] != live["spec"]:
                self._said[made["metadata"]["uid"]] = "updated"
        done = self._said.setdefault(made["metadata"]["uid"], "updated")
        return {"type": "HPA", "name": name, "ready": True, "message": f"HPA {done} successfully"}

    def _remove(self, parent: Obj) -> None:
        metadata = parent["metadata"]
        label = objects.PREFIX + "scaling-owned-by"
        for hpa in labelled(self._view.autoscalers.items(), metadata["namespace"], label, metadata["name"]):
            self._view.client.delete(AUTOSCALERS, metadata["namespace"], hpa["metadata"]["name"])
