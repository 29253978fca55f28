# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers and their NPUs: healthy, used, reserved and free, as they are shown and as simulations take them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import Server
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import enqueued, servers, servers_view, totals, without
from tests.unit.plugins.module_utils._motor.job_services import DEAD, NPU, job, node, pod, pod_group

HALF = job("p0", npus=4)
OVER = {"phase": "Failed"}


def numbers(found: Any, *pods: Any) -> dict[str, Any]:
    (row,) = servers_view([found], pods)
    return {key: row[key] for key in ("npus", "healthy", "used", "reserved", "free")}


@pytest.mark.parametrize(
    ("found", "pods", "healthy", "used", "reserved", "free"),
    [
        (node("a"), [], 8, 0, 0, 8),
        (node("a"), [pod(HALF, "a")], 8, 4, 0, 4),
        (node("a"), [pod(HALF, "a", ready=False)], 8, 0, 4, 4),
        (node("a"), [pod(HALF, "a", leaving=True)], 8, 4, 0, 4),
        (node("a"), [pod(HALF, "a", **OVER)], 8, 0, 0, 8),
        (node("a"), [pod(HALF, "b"), pod(HALF)], 8, 0, 0, 8),
        (node("a", healthy=6), [pod(HALF, "a")], 6, 4, 0, 2),
        (node("a", healthy=2), [pod(HALF, "a")], 2, 4, 0, 0),
        (node("a", ready="Unknown"), [pod(HALF, "a")], 0, 4, 0, 0),
        (node("a", unschedulable=True), [], 8, 0, 0, 0),
    ],
)
def test_what_a_server_has_is_accounted_for(found: Any, pods: Any, healthy: int, used: int, reserved: int, free: int) -> None:
    assert numbers(found, *pods) == {"npus": 8, "healthy": healthy, "used": used, "reserved": reserved, "free": free}
    (server,) = servers([found], pods)
    assert (server.npus - server.used if server.usable else 0) == free, "a simulation has the same room"


def test_a_server_is_shown_with_its_pods_and_since_when_it_is_what_it_is() -> None:
    in_set = pod(job("d0"), "a", ready=False, phase="Running")
    in_set["metadata"]["labels"] = {"app": "vllm", "infer.huawei.com/instanceset-name": "decode", "infer.huawei.com/instanceset-index": "3"}
    (row,) = servers_view([node("a", npus=16, super_pod="7"), node("cpu", npus=0)], [pod(HALF, "a", leaving=True), in_set])
    assert {key: row[key] for key in ("name", "ready", "cordoned", "super_pod", "since")} == {
        "name": "a",
        "ready": True,
        "cordoned": False,
        "super_pod": "7",
        "since": DEAD,
    }
    assert [(item["name"], item["instance"], item["npus"], item["state"]) for item in row["pods"]] == [
        ("mindie-server-d0-master-0", "decode-3", 8, "unready"),
        ("mindie-server-p0-master-0", "mindie-server-p0", 4, "terminating"),
    ]


def test_a_server_that_tells_no_allocatable_has_what_its_capacity_says() -> None:
    found = node("a")
    del found["status"]["allocatable"]
    assert numbers(found)["healthy"] == 8 and servers([found], ()) == (Server("a", 8),)
    assert servers([{"metadata": {"name": "new"}}], ()) == () and servers_view([{"metadata": {"name": "new"}}], ()) == []


def test_servers_without_the_pods_of_a_task_have_their_room() -> None:
    own, other = pod(job("p0"), "a"), pod(job("d0", npus=4), "b")
    all_of_them = servers([node("a"), node("b", healthy=6)], [own, other])
    assert [server.used for server in all_of_them] == [8, 6]
    assert [server.used for server in without(all_of_them, [own])] == [0, 6]


def test_jobs_that_were_let_in_without_pods_reserve_npus_of_no_server() -> None:
    held, waits, runs, going = job("p1"), job("p2"), job("p0"), job("p3")
    groups = [pod_group(held, "Inqueue"), pod_group(waits, "Pending"), pod_group(runs, "Inqueue"), pod_group(going, "Inqueue")]
    groups[3]["metadata"]["deletionTimestamp"] = DEAD
    pods = [pod(runs, "a")]
    waiting = enqueued(groups, pods)
    assert waiting == [{"namespace": "chat", "job": "mindie-server-p1", "npus": 8}]
    found = totals(servers_view([node("a"), node("b", healthy=4)], pods), waiting)
    assert found == {
        "servers": 2,
        "npus": 16,
        "healthy": 12,
        "used": 8,
        "reserved": 0,
        "free": 4,
        "enqueued": 8,
        "enqueued_jobs": waiting,
    }


def test_npus_of_both_resource_names_count() -> None:
    found = node("a")
    found["status"]["capacity"] = {"huawei.com/npu": "16", NPU: "0"}
    found["status"]["allocatable"] = {"huawei.com/npu": "12"}
    assert numbers(found) == {"npus": 16, "healthy": 12, "used": 0, "reserved": 0, "free": 12}
