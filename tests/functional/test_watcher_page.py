# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status page as somebody on call opens it: of the watcher as installed, through `kubectl proxy` and the API server, in a browser."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, build
from tests.cluster.fault_proxy import FaultProxy
from tests.functional.jobs import JobDriver
from tests.support.browser import CHROMIUM, NEEDS, Browser
from tests.support.watcher import NAME, Watcher

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDS)
PATIENCE = 30.0


@pytest.fixture(scope="module")
def reachable() -> Iterator[Cluster]:
    """A control plane whose API server reaches pods."""
    with Cluster(a2_nodes=4, a3_nodes=1, cpu_nodes=1, ascend_operator=True, sessions=0.2, egress=True) as running:
        yield running


@pytest.fixture
def chat(reachable: Cluster) -> Iterator[JobDriver]:
    """A service of two prefill instances and one decode instance that runs."""
    with FaultProxy(reachable) as proxy:
        service = JobDriver(reachable, proxy, reachable.create_namespace("chat"))
        done = service.deploy()
        assert not done.get("failed"), done
        yield service


@pytest.fixture
def watcher(reachable: Cluster, chat: JobDriver) -> Iterator[Watcher]:
    """It only observes, so that faults stay to be seen."""
    with Watcher(reachable, "mindie-system") as found:
        found.install(chat.namespace, acts=())
        found.until_running(chat.namespace)
        yield found
        found.play(state="absent", namespaces=[chat.namespace])


@pytest.fixture
def kubectl_proxy(reachable: Cluster) -> Iterator[str]:
    """Where `kubectl proxy` listens."""
    command = [str(build.control_plane() / "kubectl"), "--kubeconfig", str(reachable.kubeconfig), "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", said)
        assert found, said
        yield f"http://{found[0]}"
        process.terminate()


def test_the_page_shows_a_fault_through_the_api_server_without_a_reload(
    watcher: Watcher, chat: JobDriver, kubectl_proxy: str, tmp_path: Path
) -> None:
    address = f"{kubectl_proxy}/api/v1/namespaces/{watcher.namespace}/services/{NAME}:http/proxy/"
    tile = f"document.querySelector({json.dumps(f'.service[data-namespace={json.dumps(chat.namespace)}] [data-name=mindie-server-p1]')})"
    with Browser(tmp_path / "profile") as browser:
        browser.open(address)
        browser.until(f"{tile}?.classList.contains('running')", PATIENCE)
        browser.run("window.marker = 1")
        assert browser.run("document.querySelector('#verdict').innerText.trim()") == "The service is well."
        assert (
            browser.run("document.querySelectorAll('.server').length") == 5 and browser.run("document.querySelectorAll('.step').length") > 1
        )
        chat.cluster.request("DELETE", f"/apis/mindxdl.gitee.com/v1/namespaces/{chat.namespace}/ascendjobs/mindie-server-p1")
        browser.until(f"{tile}?.classList.contains('missing')", PATIENCE)
        assert browser.run("window.marker") == 1 and chat.namespace in browser.run("document.querySelector('#verdict').innerText")
        for pod in watcher.pods():
            pod.stop()
        browser.until("!document.querySelector('#stale').hidden", PATIENCE)
        assert browser.errors == []
