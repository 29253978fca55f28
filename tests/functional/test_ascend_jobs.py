# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of AscendJobs: rule first, then jobs, both ways; rank tables come and go with their jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.functional.jobs import JobDriver
from tests.functional.test_modules import succeeded


@pytest.fixture
def jobs(job_cluster: Cluster, job_namespace: str) -> Iterator[JobDriver]:
    """A service of 2 prefill and 1 decode instances, not yet deployed."""
    with FaultProxy(job_cluster) as proxy:
        yield JobDriver(job_cluster, proxy, job_namespace)


def test_a_service_is_deployed_scaled_and_removed(jobs: JobDriver) -> None:
    result = succeeded(jobs.deploy())
    assert result["service"]["counts"] == {"prefill": 2, "decode": 1}
    assert jobs.tiers() == [(2, 1), (1, 1)]
    assert set(jobs.phases().values()) == {"Running"}
    assert jobs.rank_tables() == {f"rings-config-{name}" for name in jobs.workloads()}
    again = succeeded(jobs.deploy())
    assert not again["changed"] and jobs.mutating() == []
    before = jobs.workloads()
    succeeded(jobs.scale(prefill=3, decode=1))
    assert jobs.tiers() == [(3, 1), (2, 1), (1, 1)]
    assert set(jobs.workloads()) - set(before) == {"mindie-server-p2"}
    succeeded(jobs.scale(prefill=1, decode=1))
    assert jobs.tiers() == [(1, 1)]
    assert set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-d0"}
    assert jobs.rank_tables() == {"rings-config-mindie-server-p0", "rings-config-mindie-server-d0"}
    assert not succeeded(jobs.scale(prefill=1, decode=1))["changed"] and jobs.mutating() == []
    succeeded(jobs.remove())
    left = jobs.get("configmaps", "v1")
    assert jobs.jobs() == {} and set(left) == {"kube-root-ca.crt"}
    assert not succeeded(jobs.remove())["changed"] and jobs.mutating() == []
