# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures that all tests share: one cluster for the whole run, a namespace per test, and what may be absent."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools.environment import COLLECTIONS, ROOT

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from tests.cluster import Cluster

_NUMBERS = itertools.count(1)


_SHOWN = "shown in the summary"


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says something in the summary of the run, such as how many cases were compared."""
    return lambda text: record_property(_SHOWN, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to say, after all of them have run."""
    reports = [*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())]
    texts = [(report.nodeid, text) for report in reports for name, text in report.user_properties if name == _SHOWN]
    for nodeid, text in sorted(texts):
        terminalreporter.section(nodeid, sep="-")
        terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A control plane with A2, A3 and plain nodes and the stand-ins for both operators and for gang scheduling (quicker than Volcano)."""
    with Cluster(a2_nodes=4, a3_nodes=40, cpu_nodes=2, infer_operator=True, ascend_operator=True, sessions=0.2, restart_after=1) as running:
        yield running


@pytest.fixture(scope="session")
def job_cluster() -> Iterator[Cluster]:
    """A control plane with A2 nodes and the stand-ins for the Ascend Operator and for gang scheduling, whose sessions are short."""
    with Cluster(a2_nodes=8, a3_nodes=0, cpu_nodes=1, ascend_operator=True, sessions=0.2) as running:
        yield running


@pytest.fixture
def job_namespace(job_cluster: Cluster) -> Iterator[str]:
    """A namespace of its own in the cluster of AscendJobs, deleted without waiting."""
    name = job_cluster.create_namespace(f"mindie-jobs-{next(_NUMBERS)}")
    yield name
    job_cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of its own, deleted without waiting."""
    name = cluster.create_namespace(f"mindie-test-{next(_NUMBERS)}")
    yield name
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with recorded data; tests that need it are skipped where it is absent."""
    found = Path(os.environ.get("MINDIE_SHARED") or ROOT.parent / "shared")
    if not found.is_dir():
        pytest.skip("needs ../shared (recorded data)")
    return found
