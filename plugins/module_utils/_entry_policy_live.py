# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the autoscaling of a live service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ._cluster.api import Api
from ._cluster.external_metrics import provider, read_metrics
from ._entry_observe import Observer
from ._motor import policy_report
from ._motor.policy_checks import OPENAPI, knows_policies
from ._motor.policy_report import UNKNOWN
from ._motor.state import Snapshot


def show(module: Any, given: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """Observe, ask for each metric, and report. `given` are policies to look at instead of the live ones."""
    service = Observer(module, module.params["namespace"], absent_ok=True)
    api = service.api
    snapshot = _with_instance_sets(api, service.observe())
    found = policy_report.subjects(snapshot, given)
    wanted = {
        (subject.engine_role, target.metric): policy_report.selector(subject.engine_role, target.selector)
        for subject in found
        for target in subject.targets()
        if not target.unsupported
    }
    answers = read_metrics(api, service.namespace, wanted)
    serving = provider(api)
    if serving.whose == UNKNOWN:
        module.warn(
            f"Whether APIService {policy_report.API_SERVICE} is available, and whose it is, is not known: this user may not read it."
        )
    told = policy_report.report(
        snapshot,
        found,
        answers,
        serving,
        adaptor=module.params["adaptor"],
        knows_policies=_knows(api, snapshot) if not found else None,
        live=given is None,
    )
    return {"changed": False, "autoscaling": told, "requests": api.requests}


def _with_instance_sets(api: Api, snapshot: Snapshot) -> Snapshot:
    """Observing reads them only where a policy is live; a policy that is only looked at needs the counts, too."""
    if snapshot.instance_sets or snapshot.infer_service_set is None:
        return snapshot
    return replace(snapshot, instance_sets=api.list_objects("InstanceSet", snapshot.namespace).items)


def _knows(api: Api, snapshot: Snapshot) -> bool | None:
    """Whether the CRD has scalingPolicy, where that may be why there are no policies."""
    if snapshot.infer_service_set is None:
        return None
    response = api.ask(OPENAPI, [], "read what the cluster knows of InferServiceSets")
    return knows_policies(json.loads(response.body)) if response.status == 200 else None
