# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of AscendJobs as manifests that somebody else applies: just what deploying into an empty namespace would create."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import Finding, by_severity
from .job_facts import BACKEND
from .job_settings import JobSettings
from .plan_deploy import plan_deploy
from .rank_tables import RANK_TABLE_PREFIX, rank_table_name
from .rendered import Rendered
from .rule_lint import lint_data
from .rule_live import LiveTask, lint_live
from .rule_reader import DATA_KEY
from .state import Snapshot
from .user_config import UserConfig
from .workloads import ASCEND_JOB

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """`manifests` in the order in which they are to be created, and what the checks have `findings` about them, the worst first."""

    manifests: tuple[Object, ...]
    findings: tuple[Finding, ...]


def prepare(config: UserConfig, rendered: Rendered, settings: JobSettings) -> Prepared:
    """The objects of a new service: its rule, what jobs need, control jobs, then the instances, decode before prefill.

    A rank table comes before its job, as the Ascend Operator remembers that there was none.
    """
    empty = Snapshot(namespace=config.namespace, backend=BACKEND, base_name=settings.name_prefix, settings=settings)
    plan = plan_deploy(empty, config, rendered, None)
    created = [write.body for step in plan.steps for write in step.writes]
    manifests = _ordered(created)
    return Prepared(manifests, check(manifests, settings, config.namespace))


def _ordered(created: Sequence[Object]) -> tuple[Object, ...]:
    """The rule before everything else, as here nothing waits for anything; each rank table right before its job."""
    tables = {obj["metadata"]["name"]: obj for obj in created if _is_rank_table(obj)}
    others = [obj for obj in created if not _is_rule(obj) and not _is_rank_table(obj)]
    found = [*filter(_is_rule, created)]
    for obj in others:
        table = tables.get(rank_table_name(obj["metadata"]["name"])) if obj["kind"] == ASCEND_JOB else None
        found.extend([table, obj] if table else [obj])
    return tuple(found)


def check(manifests: Sequence[Object], settings: JobSettings, namespace: str) -> tuple[Finding, ...]:
    """What there is to say of the rule, and of the jobs beside it."""
    rule = next(filter(_is_rule, manifests))
    lint = lint_data(rule["data"], source=f"ConfigMap {namespace}/{settings.scaling_rule}")
    task = LiveTask(
        namespace=namespace,
        rule_name=settings.scaling_rule,
        jobs=tuple(obj for obj in manifests if obj["kind"] == ASCEND_JOB),
        pod_groups=(),
        rule=rule,
        rule_names=(settings.scaling_rule,),
        rank_tables=frozenset(str(obj["metadata"]["name"]) for obj in manifests if _is_rank_table(obj)),
        groups=settings.groups,
        task=namespace,
    )
    return by_severity((*lint.findings, *(lint_live(lint.reading, task) if lint.reading else ())))


def _is_rule(obj: Object) -> bool:
    return bool(obj["kind"] == "ConfigMap" and DATA_KEY in obj["data"])


def _is_rank_table(obj: Object) -> bool:
    return bool(obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith(RANK_TABLE_PREFIX))
