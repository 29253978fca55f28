# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with the stand-ins for the Ascend Operator and gang scheduling, whose NPU nodes each test brings itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.kube_client import KubeClient
from tests.support.ascend_jobs import Fleet, Task

SESSIONS = 0.25
"""Seconds between sessions of the gang scheduler: all that is asserted is order."""
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def ascend_cluster() -> Iterator[Cluster]:
    with Cluster(a2_nodes=0, a3_nodes=0, cpu_nodes=1, ascend_operator=True, sessions=SESSIONS) as running:
        yield running


@pytest.fixture(scope="module")
def ascend_client(ascend_cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(ascend_cluster.kubeconfig)


@pytest.fixture
def fleet(ascend_cluster: Cluster, ascend_client: KubeClient) -> Iterator[Fleet]:
    made = Fleet(ascend_cluster, ascend_client)
    yield made
    made.clear()


@pytest.fixture
def task(ascend_cluster: Cluster, ascend_client: KubeClient, fleet: Fleet) -> Iterator[Task]:
    made = Task(ascend_client, ascend_cluster.create_namespace(f"task-{next(NUMBERS)}"))
    yield made
    made.clear()
