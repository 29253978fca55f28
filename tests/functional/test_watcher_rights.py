# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher's ServiceAccount has what it needs and no more; without a right, what it says names verb, resource and namespace.

Each operation is done once with every right of the role's table, through a proxy that sees what it uses. Then each right is taken away in
turn, and an operation that uses it is done again.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from logging.handlers import BufferingHandler

import pytest
from rescheduling_watcher import acts
from rescheduling_watcher.repairs import Repair
from rescheduling_watcher.settings import NUDGE, RECREATE_FAILED, RELEASE_STUCK, RESTORE_MISSING, Settings
from rescheduling_watcher.tell import Teller
from rescheduling_watcher.world import World

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.signals import Signals
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.events import News
from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import CONFIG_MAPS, PODS, KubeClient, Obj, wait_for
from tests.functional import rights
from tests.functional.conftest import Driver
from tests.functional.jobs import JobDriver
from tests.functional.rights import Right
from tests.functional.test_rbac import SCALED_OBJECTS, Stage
from tests.functional.watcher_rights import ACTING, OBSERVING, SERVERS
from tests.support.ascend_jobs import Task

NAME = "mindie-watcher"
ELECTING = [
    Right("create", "coordination.k8s.io", "leases"),
    Right("get", "coordination.k8s.io", "leases"),
    Right("update", "coordination.k8s.io", "leases"),
]
_NUMBERS = itertools.count(1)


def _table() -> list[Right]:
    """Every right of the role's table, with all acts switched on."""
    rules = [*OBSERVING, *(rule for found in ACTING.values() for rule in found)]
    scopes = [(rule, False) for rule in rules] + [(rule, True) for rule in SERVERS]
    found = [
        Right(verb, group, resource, cluster)
        for rule, cluster in scopes
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    return list(dict.fromkeys([*found, *ELECTING]))


TABLE = _table()


class Bench:
    """Services in all backends, and what the watcher does to them, as users with certain rights."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy) -> None:
        self.cluster = cluster
        self.client = KubeClient.from_kubeconfig(cluster.kubeconfig)
        self._stage = Stage(cluster, proxy)
        self._proxy = proxy
        self._services: dict[str, Driver] = {}

    def operations(self) -> dict[str, Callable[[str], str]]:
        """What takes the kubeconfig of a user, and returns what was said."""
        return {
            "watch": self._watch,
            "elect": self._elect,
            "tell": self._tell,
            NUDGE: self._nudge,
            RELEASE_STUCK: self._release,
            RECREATE_FAILED: self._recreate,
            **{f"{RESTORE_MISSING} {backend}": self._restoring(backend) for backend in ("deployments", "infer_service_set", "ascend_jobs")},
        }

    def service(self, backend: str) -> Driver:
        """A service of two prefill instances and one decode instance; for the backend "" a namespace without any."""
        if backend not in self._services:
            self._services[backend] = self._deployed(backend)
        return self._services[backend]

    def _deployed(self, backend: str) -> Driver:
        namespace = self.cluster.create_namespace(f"watched-{next(_NUMBERS)}")
        jobs = backend in ("ascend_jobs", "")
        driver = JobDriver(self.cluster, self._proxy, namespace) if jobs else Driver(self.cluster, self._proxy, namespace, backend)
        config = driver.config if jobs else driver.with_config("motor_deploy_config", "p_instances_num", value=2)
        if backend:
            done = driver.deploy(config)
            assert not done.get("failed"), done
        return driver

    def as_user(self, operation: str, held: list[Right]) -> str:
        """What is said when a user with these rights does it. The rights hold in the namespace of the operation."""
        dummy, kubeconfig = self._stage.user(self._place(operation), held)
        return self._do(operation, kubeconfig)

    def _do(self, operation: str, kubeconfig: str) -> str:
        """What is said and what is logged, but for what is no trouble."""
        handler = BufferingHandler(100)
        handler.setLevel(logging.WARNING)
        logging.getLogger("rescheduling_watcher").addHandler(handler)
        try:
            return "; ".join([self.operations()[operation](kubeconfig), *(record.getMessage() for record in handler.buffer)]).strip("; ")
        finally:
            logging.getLogger("rescheduling_watcher").removeHandler(handler)

    def uses(self, operation: str) -> set[Right]:
        """The rights that it uses; all of the table are enough."""
        dummy, kubeconfig = self._stage.user(self._place(operation), TABLE)
        with FaultProxy(self.cluster, kubeconfig=kubeconfig) as proxy:
            said = self._do(operation, proxy.kubeconfig)
            assert not said, f"{operation} with every right: {said}"
            return rights.of_requests(proxy.requests)

    def _place(self, operation: str) -> Driver:
        backend = operation.partition(" ")[2]
        return self.service(backend or ("" if operation in (NUDGE, RECREATE_FAILED) else "deployments"))

    def _watch(self, kubeconfig: str) -> str:
        world = World(connect_program(kubeconfig), Settings((self.service("deployments").namespace,)), threading.Event())
        world.start()
        try:
            wait_for(lambda: all(health.listed or health.errors for health in world.health()), 20, "everything is listed or refused")
            wait_for(lambda: all(health.heard > 0 or health.errors for health in world.health()), 20, "everything is watched or refused")
            time.sleep(0.5)
            return "; ".join(health.errors for health in world.health() if health.errors and not health.unknown)
        finally:
            world.stop()

    def _elect(self, kubeconfig: str) -> str:
        election = Election(connect_program(kubeconfig), self.service("deployments").namespace, f"{NAME}-{next(_NUMBERS)}", "pod", 1.5)
        election.start()
        try:
            wait_for(lambda: election.leading or election.error, 20, "it leads or is refused")
            election.note("x")
            return election.error
        except MotorError as error:
            return f"{election.error}; {error}"
        finally:
            election.stop()

    def _tell(self, kubeconfig: str) -> str:
        about = self.client.get(CONFIG_MAPS, self.service("deployments").namespace, "motor-config")
        news = News("Test", f"number {next(_NUMBERS)}")
        Teller(connect_program(kubeconfig), "me").tell({"apiVersion": "v1", "kind": "ConfigMap", **(about or {})}, news, for_good=True)
        return ""

    def _nudge(self, kubeconfig: str) -> str:
        return self._act(kubeconfig, NUDGE, "AscendJob", self._refused_job())

    def _recreate(self, kubeconfig: str) -> str:
        return self._act(kubeconfig, RECREATE_FAILED, "AscendJob", self._refused_job())

    def _release(self, kubeconfig: str) -> str:
        """A pod on a server that is not there."""
        namespace = self.service("deployments").namespace
        spec = {"nodeName": "gone", "containers": [{"name": "c", "image": "registry.example/x:1"}]}
        pod = self.client.create(PODS, {"metadata": {"name": f"stuck-{next(_NUMBERS)}", "namespace": namespace}, "spec": spec})
        return self._act(kubeconfig, RELEASE_STUCK, "Pod", pod)

    def _refused_job(self) -> Obj:
        """A job that the operator has given up at once, with a rank table."""
        task, name = Task(self.client, self.service("").namespace), f"job-{next(_NUMBERS)}"
        task.rings(name)
        task.job(name, labels={"jobID": None})
        return wait_for(lambda: (job := task.get(name)).get("status", {}).get("conditions") and job, 20, "the operator has refused the job")

    def _restoring(self, backend: str) -> Callable[[str], str]:
        def restore(kubeconfig: str) -> str:
            driver = self.service(backend)
            lose(driver)
            config_map = self.client.get(CONFIG_MAPS, driver.namespace, "motor-config")
            assert config_map
            return self._act(kubeconfig, RESTORE_MISSING, "ConfigMap", config_map)

        return restore

    def _act(self, kubeconfig: str, act: str, kind: str, obj: Obj) -> str:
        metadata = obj["metadata"]
        api = connect_program(kubeconfig)
        world = World(api, Settings((metadata["namespace"],)), threading.Event())
        repair = Repair(act, metadata["namespace"], kind, metadata["name"], "why", metadata["uid"], metadata["resourceVersion"], "cause")
        try:
            outcome = acts.Acts(api, NAME, f"pod-{next(_NUMBERS)}", 2.0, Signals(), world.build).carry_out(repair, lambda: None)
            return "" if outcome.done else outcome.said
        except MotorError as error:
            return str(error)


def lose(driver: Driver) -> None:
    """Instances of the baseline are not there any more, nor are their pods."""
    # Of Deployments all of the engine role, so that there is no sibling to copy, and the history is needed.
    names = tuple(driver.name("prefill", index) for index in ((0, 1) if driver.backend == "deployments" else (1,)))
    if driver.backend == "infer_service_set":
        path = f"/apis/mindcluster.huawei.com/v1/namespaces/{driver.namespace}/inferservicesets/vllm"
        roles = driver.cluster.get(path)["spec"]["template"]["roles"]
        index = next(index for index, role in enumerate(roles) if role["name"] == "prefill")
        patch = [{"op": "replace", "path": f"/spec/template/roles/{index}/replicas", "value": 1}]
        driver.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")
    else:
        kind = "mindxdl.gitee.com/v1", "ascendjobs"
        api, plural = kind if driver.backend == "ascend_jobs" else ("apps/v1", "deployments")
        for name in names:
            driver.cluster.request("DELETE", f"/apis/{api}/namespaces/{driver.namespace}/{plural}/{name}")
    wait_for(lambda: not [name for name in driver.get("pods", "v1") if name.startswith(names)], 20, "the pods are gone")


@pytest.fixture(scope="module")
def bench(cluster: Cluster) -> Iterator[Bench]:
    status, answer = cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SCALED_OBJECTS)
    assert status in (201, 409), answer
    with FaultProxy(cluster) as proxy:
        yield Bench(cluster, proxy)
    cluster.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh")


@pytest.fixture(scope="module")
def used(bench: Bench) -> dict[str, set[Right]]:
    """By operation, the rights that it uses."""
    return {operation: bench.uses(operation) for operation in bench.operations()}


def test_the_table_has_every_right_that_is_used_and_no_other(used: dict[str, set[Right]]) -> None:
    everything = set().union(*used.values())
    assert not everything - set(TABLE), "more is used than the table gives"
    assert not set(TABLE) - everything, "more is given than is used"


@pytest.mark.parametrize("right", TABLE, ids=str)
def test_without_a_right_the_message_names_it(bench: Bench, used: dict[str, set[Right]], right: Right) -> None:
    operation = next((name for name, found in used.items() if right in found), None)
    assert operation, f"{right} is used by nothing"
    said = bench.as_user(operation, [one for one in TABLE if one != right])
    place = "at the cluster scope" if right.cluster else f'in the namespace "{bench._place(operation).namespace}"'
    assert f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}" {place}' in said, said or "nothing was said"
