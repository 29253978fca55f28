# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of objects: enough to say the same of a service, and nothing that is large."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import drift, siblings
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kept import KEPT
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import standing
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import stored_config
from tests.support.ascend_jobs import Task
from tests.support.cut import cut
from tests.unit.plugins.module_utils._motor import services
from tests.unit.plugins.module_utils._motor.job_services import READY, job, node, pod, pod_group

LARGE = "x" * 5000
# What a program may spend on one object, in bytes; with three objects per AscendJob and its rank table, 10,000 jobs stay far below its memory.
MOST = {"AscendJob": 2500, "PodGroup": 2500, "Pod": 3500, "ConfigMap": 1500}


def whole(obj: dict[str, Any]) -> dict[str, Any]:
    """The object with all that an API server adds."""
    found: dict[str, Any] = json.loads(json.dumps(obj))
    found["metadata"]["managedFields"] = [{"manager": LARGE, "fieldsV1": {"f:spec": {"f:x": {}}}}]
    found["metadata"].setdefault("annotations", {})["kubectl.kubernetes.io/last-applied-configuration"] = LARGE
    for spec in found.get("spec", {}).get("replicaSpecs", {}).values():
        spec["template"]["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": LARGE}]
    for container in found.get("spec", {}).get("containers", ()):
        container["env"] = [{"name": "LARGE", "value": LARGE}]
    return found


def test_large_things_are_cut_off() -> None:
    found = [job("p0"), pod_group(job("p0"), "Running"), pod(job("p0"), "a"), services.deployment("prefill", 0), node("a")]
    for obj in map(whole, found):
        kind = obj.get("kind", "Pod")
        text = json.dumps(KEPT[kind](obj))
        assert "xxxx" not in text and len(text) < 1500, kind
        assert KEPT[kind](obj) == KEPT[kind](copy.deepcopy(obj))


def test_an_object_is_not_changed_by_cutting() -> None:
    found = whole(job("p0"))
    before = copy.deepcopy(found)
    KEPT["AscendJob"](found)
    assert found == before


def test_the_standing_of_a_motor_config_needs_none_of_its_scripts() -> None:
    config = services.user_config()
    applied, by_deployer = services.config_map(config), services.config_map(config, applied=False)
    edited = {**applied, "data": {**applied["data"], "boot.sh": "edited"}}
    for found, expected in ((applied, "applied"), (by_deployer, "deployer"), (edited, "unfinished")):
        kept = KEPT["ConfigMap"](found)
        assert standing(kept) == standing(found) == expected
        assert list(kept["data"]) == ["user_config.json"]
        read = stored_config(kept)
        assert read is not None and read.counts == config.counts


def test_other_config_maps_are_known_by_their_keys_and_rank_tables_by_their_name() -> None:
    other = KEPT["ConfigMap"]({"metadata": {"name": "other"}, "data": {"elastic-scaling.json": LARGE}})
    assert other == {"metadata": {"name": "other"}, "data": {"elastic-scaling.json": ""}}
    assert KEPT["ConfigMap"]({"metadata": {"name": "rings-config-p0"}, "data": {"hccl.json": LARGE}}) == {
        "metadata": {"name": "rings-config-p0"}
    }
    rule = {"metadata": {"name": "rule"}, "data": {"elastic_scaling.json": "{}", "more": LARGE}}
    wrote = [{"manager": "me", "time": READY, "fieldsV1": {"f:data": {"f:a": {}}}}, {"manager": "x", "fieldsV1": {"f:metadata": {}}}]
    kept = KEPT["ConfigMap"]({**rule, "metadata": {"name": "rule", "managedFields": wrote}})
    assert kept["data"] == {"elastic_scaling.json": "{}"}
    assert kept["metadata"]["managedFields"] == [{"manager": "me", "time": READY, "fieldsV1": {"f:data": {}}}]


@pytest.mark.parametrize("cut_off", [False, True])
def test_altered_instances_are_found_by_digests(cut_off: bool) -> None:
    config = services.user_config(prefill=3, decode=1)
    found = services.snapshot(config, services.running(prefill=3, decode=1))
    odd = copy.deepcopy(found.deployments[1])
    odd["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    found = replace(found, deployments=(found.deployments[0], odd, *found.deployments[2:]))
    assert drift.find(cut(found) if cut_off else found).altered == ("vllm-p1",)


def test_the_rank_table_of_a_job_is_no_difference_and_its_place_in_a_list_is_none() -> None:
    def mounting(short: str, *volumes: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(job(short)))
        found["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["volumes"] = list(volumes)
        return found

    data = {"name": "zz", "hostPath": {"path": "/data"}}
    first = mounting("p0", {"name": "ranks", "configMap": {"name": "rings-config-mindie-server-p0"}}, data)
    second = mounting("p1", data, {"name": "ranks", "configMap": {"name": "rings-config-mindie-server-p1"}})
    third = mounting("p2", {"name": "ranks", "configMap": {"name": "other"}}, data)
    assert siblings.digest(first) == siblings.digest(second) != siblings.digest(third)
    assert siblings.digest(KEPT["AscendJob"](first)) == siblings.digest(first)
    assert first["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == "rings-config-mindie-server-p0"


def test_a_server_to_which_nothing_happens_stays_the_same() -> None:
    before, after = node("a"), node("a")
    after["status"]["conditions"][0]["lastHeartbeatTime"] = "2027-01-01T00:00:00Z"
    after["status"]["conditions"].append({"type": "MemoryPressure", "status": "False"})
    after["status"]["images"] = [{"names": [LARGE]}]
    assert KEPT["Node"](before) == KEPT["Node"](after)


def test_objects_share_what_they_have_in_common() -> None:
    pods = [KEPT["Pod"](whole(pod(job(short), "a"))) for short in ("p0", "p1")]
    assert pods[0]["spec"]["containers"] is pods[1]["spec"]["containers"]


def test_thousands_of_objects_take_little_memory(show: Callable[[str], None]) -> None:
    task = Task(None, "chat")  # type: ignore[arg-type]  # it only makes bodies
    for kind, most in MOST.items():
        texts = [json.dumps(_of_kind(kind, task, number)) for number in range(1000)]
        tracemalloc.start()
        try:
            kept = [KEPT[kind](json.loads(text)) for text in texts]
            each = tracemalloc.get_traced_memory()[0] // len(kept)
        finally:
            tracemalloc.stop()
        show(f"{kind}: {sum(map(len, texts)) // len(texts)} bytes of JSON, {each} bytes kept")
        assert each < most


def _of_kind(kind: str, task: Task, number: int) -> dict[str, Any]:
    """An object as it is found in a cluster, with what is its own."""
    body = whole(task.body(f"mindie-server-p{number}", "g0"))
    body["metadata"].update(uid=f"uid-{number}", resourceVersion=str(number), creationTimestamp=READY)
    if kind == "AscendJob":
        return body
    if kind == "ConfigMap":
        return {"kind": kind, "metadata": {**body["metadata"], "name": f"rings-config-p{number}"}, "data": {"hccl.json": LARGE}}
    made = pod_group(body, "Running") if kind == "PodGroup" else pod(body, f"a2-{number}")
    made["metadata"].update(uid=f"{kind}-{number}", resourceVersion=str(number))
    return whole(made)
