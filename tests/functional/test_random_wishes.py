# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random wishes, one after the other, on a live service that others change, too: check mode foretells each real run and writes
nothing, and the second run changes nothing and writes nothing.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils import _entry
from tests.functional.conftest import QUICK, RELEASE, Driver

CASES = 25
SEEDS = {"deployments": 20260501, "infer_service_set": 20260502}
COUNTS = (1, 1, 2, 2, 3)
# What a result says that was done, or in check mode would be done.
FORETOLD = ("failed", "reason", "changed", "actions", "removed", "diff")


@dataclass(frozen=True)
class Task:
    """A module with its options."""

    module: str
    options: dict[str, Any]


def deploy(driver: Driver, rng: random.Random) -> Task:
    """New counts, a new log level and (rarely) a change that takes new pods, which may be allowed or not."""
    deploy_config = driver.config["motor_deploy_config"]
    deploy_config.update(p_instances_num=rng.choice(COUNTS), d_instances_num=rng.choice(COUNTS))
    driver.config["motor_controller_config"]["logging_config"]["log_level"] = rng.choice(("INFO", "DEBUG"))
    given = copy.deepcopy(driver.config)
    if rng.random() < 0.25:
        given["motor_deploy_config"]["image_name"] = f"registry.example/motor:{rng.choice('345')}"
    options = {"user_config_content": given, "env_content": driver.env, "release": str(RELEASE), "node_ports": "auto"}
    return Task("motor_service", {**options, "allow_restart": rng.random() < 0.3, **choice(rng)})


def scale(driver: Driver, rng: random.Random) -> Task:
    """New counts, by options alone or with a user config."""
    counts = {"prefill": rng.choice(COUNTS), "decode": rng.choice(COUNTS)}
    options = {"namespace": driver.namespace, "instances": counts, "on_drift": rng.choice(("repair", "repair", "fail"))}
    return Task("motor_instance_scale", {**options, "allow_during_fault": True, **choice(rng)})


def choice(rng: random.Random) -> dict[str, Any]:
    """Which instances may go."""
    order = rng.choice(("highest_index", "highest_index", "unhealthy_first"))
    return {"order": order, "protect": {rng.choice(("prefill", "decode")): [rng.randrange(3)]} if rng.random() < 0.3 else None}


def update(driver: Driver, rng: random.Random) -> Task:
    """A user config with the live baseline's counts (or not), and another log level."""
    given = driver.with_config("motor_controller_config", "logging_config", "log_level", value=rng.choice(("INFO", "DEBUG", "WARN")))
    if rng.random() < 0.2:
        given["motor_deploy_config"]["p_instances_num"] = rng.choice(COUNTS)
    return Task("motor_config_baseline", {"user_config_content": given})


def adopt(driver: Driver, rng: random.Random) -> Task:
    """The live service as it is, or as it is not."""
    counts = {role: sum(name.startswith(driver.name(role, 0)[:-1]) for name in driver.workloads()) for role in ("prefill", "decode")}
    counts = {role: count for role, count in counts.items() if count} if rng.random() < 0.7 else {"prefill": rng.choice(COUNTS)}
    return Task("motor_config_baseline", {"namespace": driver.namespace, "state": "adopted", "instances": counts})


def remove(driver: Driver, rng: random.Random) -> Task:
    """Everything goes."""
    return Task("motor_service", {"namespace": driver.namespace, "state": "absent", "remove_claims": rng.random() < 0.5})


VERBS: tuple[Callable[[Driver, random.Random], Task], ...] = (*(deploy,) * 4, *(scale,) * 5, *(update,) * 2, adopt, remove)


def meddle(driver: Driver, rng: random.Random) -> None:
    """Now and then somebody deletes an instance, adds an autoscaler, or takes it away again."""
    scaler = f"/apis/autoscaling/v2/namespaces/{driver.namespace}/horizontalpodautoscalers"
    what = rng.choice(("nothing", "nothing", "nothing", "delete", "own", "disown"))
    workloads = sorted(driver.workloads())
    if what == "delete" and workloads:
        kind = "deployments" if driver.backend == "deployments" else "statefulsets"
        driver.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{driver.namespace}/{kind}/{rng.choice(workloads)}")
    if what == "own":
        deployments = {"apiVersion": "apps/v1", "kind": "Deployment", "name": driver.name("prefill", 0)}
        instance_set = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}
        target = deployments if driver.backend == "deployments" else instance_set
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4}
        body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "by-load"}, "spec": spec}
        driver.cluster.request("POST", scaler, body)
    if what == "disown":
        driver.cluster.request("DELETE", f"{scaler}/by-load")


def foretold(result: dict[str, Any]) -> dict[str, Any]:
    """What check mode and the real run have to agree on."""
    return {name: result.get(name) for name in FORETOLD}


def test_check_mode_foretells_random_runs_and_second_runs_change_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    # How long a finished state has to hold is no matter of what is written.
    monkeypatch.setattr(_entry, "GANG_STABLE_SECONDS", 0.0)
    rng = random.Random(SEEDS[driver.backend])
    ended: Counter[str] = Counter()
    for number in range(CASES):
        task = deploy(driver, rng) if number == 0 else rng.choice(VERBS)(driver, rng)
        meddle(driver, rng)
        where = f"case {number}: {task}"
        before = driver.get("configmaps", "v1"), driver.get("leases", "coordination.k8s.io/v1")
        expected = driver.run(task.module, **QUICK, **task.options, check_mode=True, diff=True)
        assert driver.proxy.mutating() == [], where
        assert (driver.get("configmaps", "v1"), driver.get("leases", "coordination.k8s.io/v1")) == before, where
        done = driver.run(task.module, **QUICK, **task.options, diff=True)
        assert foretold(expected) == foretold(done), f"{where}: {expected.get('msg')} / {done.get('msg')}"
        ended[done.get("reason", "failed") if done.get("failed") else f"changed: {done['changed']}"] += 1
        if done.get("failed"):
            assert driver.proxy.mutating() == [], where
            continue
        again = driver.run(task.module, **QUICK, **task.options)
        assert not again.get("failed") and not again["changed"] and again["actions"] == [], f"{where}: {again}"
        assert driver.proxy.mutating() == [], where
    assert ended["changed: True"] >= CASES // 3 and len(ended) >= 3, f"too much alike: {ended}"
