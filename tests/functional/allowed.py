# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two tables of differences between Motor's own deployer and this collection. `docs/differences.md` shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .recorded import ABSENT, NO_FAULTS, Difference, Faults

_SUFFIX = re.compile(r"-[0-9a-f]{8}")


def _added(difference: Difference) -> bool:
    return bool(difference.recorded == ABSENT)


def _left_out(difference: Difference) -> bool:
    return bool(difference.ours == ABSENT)


def _with_namespace(difference: Difference) -> bool:
    return bool(difference.ours == f"{difference.recorded}-{difference.namespace}")


def _with_suffix(difference: Difference) -> bool:
    recorded, ours = str(difference.recorded), str(difference.ours)
    return ours.startswith(recorded) and _SUFFIX.fullmatch(ours[len(recorded) :]) is not None


def _full_host_name(difference: Difference) -> bool:
    return bool(difference.ours == f"{difference.recorded}.{difference.namespace}.svc.cluster.local")


def _multiple(difference: Difference) -> bool:
    return int(difference.ours) > int(difference.recorded) and int(difference.ours) % int(difference.recorded) == 0


RULES: dict[str, Callable[[Difference], bool]] = {
    "ours adds it": _added,
    "ours leaves it out": _left_out,
    "ours appends `-<namespace>`": _with_namespace,
    "ours appends 8 hexadecimal digits": _with_suffix,
    "ours is the full host name": _full_host_name,
    "ours is a multiple": _multiple,
}


@dataclass(frozen=True)
class Row:
    """A difference that is allowed in every state: of objects of a kind (`*`: any), at a JSON path (`*`: anything), by a rule."""

    kind: str
    path: str
    rule: str
    reason: str

    def allows(self, difference: Difference) -> bool:
        """Whether this row explains a difference. The only place where rows are applied."""
        if self.kind not in ("*", difference.kind) or not difference.path or not _fits(difference.path, self.path):
            return False
        return RULES[self.rule](difference)


ALLOWED = (
    Row(
        "*",
        "metadata.labels[app.kubernetes.io/*]",
        "ours adds it",
        "Objects of the collection are recognised by them, for pruning and removal.",
    ),
    Row(
        "ConfigMap",
        "metadata.annotations[ascend.mindie/applied]",
        "ours adds it",
        "The record of success: what the service has reached in full.",
    ),
    Row(
        "Deployment",
        "metadata.annotations[ascend.mindie/generation]",
        "ours adds it",
        "What the pods of the workload read when they started, so that a replacement which was interrupted goes on.",
    ),
    Row(
        "InferServiceSet",
        "spec.template.roles[*].metadata.annotations[ascend.mindie/generation]",
        "ours adds it",
        "The same, for the workloads that the Infer Operator makes of a role.",
    ),
    Row(
        "ClusterRole",
        "metadata.name",
        "ours appends `-<namespace>`",
        "Services do not share cluster-scoped objects (2026-07 does so, too).",
    ),
    Row("ClusterRoleBinding", "metadata.name", "ours appends `-<namespace>`", "Services do not take the binding from each other."),
    Row("ClusterRoleBinding", "roleRef.name", "ours appends `-<namespace>`", "It binds the service's own ClusterRole."),
    Row(
        "Deployment",
        "metadata.labels.job-name",
        "ours appends 8 hexadecimal digits",
        "Engines: a digest of the pod template, so that an unchanged service stays as it is. Control pods: nothing, so that lock and state in etcd stay valid.",
    ),
    Row(
        "Deployment",
        "spec.template.spec.containers[*].env[JOB_NAME].value",
        "ours appends 8 hexadecimal digits",
        "The same value as label job-name.",
    ),
    Row(
        "Deployment",
        "spec.template.spec.containers[*].env[*_SERVICE].value",
        "ours is the full host name",
        "After scaling out, the deployer gives new instances short names; ours are those of their siblings.",
    ),
    Row(
        "InferServiceSet",
        "spec.template.roles[*].spec.template.metadata.annotations.sp-block",
        "ours is a multiple",
        "2026-05 leaves the pods of an instance out of account; the scheduler needs the NPUs of the whole instance (2026-07 does so, too).",
    ),
    Row(
        "ConfigMap",
        "data[user_config.json].motor_deploy_config.deploy_mode",
        "ours leaves it out",
        "2026-07 writes the default into the user's file; ours keeps the file byte for byte.",
    ),
    Row(
        "ConfigMap",
        "data[user_config.json].kv_cache_store_config.port",
        "ours leaves it out",
        "2026-07 writes the default into the user's file and later refuses to scale because of it.",
    ),
)


@dataclass(frozen=True)
class Refusal:
    """Ours refuses with this reason; `path` is what it names, if anything."""

    reason: str
    path: str = ""

    def __str__(self) -> str:
        return f"refused: {self.reason}" + (f", `{self.path}`" if self.path else "")


@dataclass(frozen=True)
class Reached:
    """Ours reaches another state (`what`), which differs from the recorded one in exactly these: patterns of differences."""

    what: str
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.what + "".join(f"; `{pattern}`" for pattern in self.differences)

    def unmet(self, found: list[Difference]) -> list[str]:
        """What contradicts this row: differences that no pattern has, and patterns that no difference has."""
        left = [str(difference) for difference in found if not any(_fits(str(difference), pattern) for pattern in self.differences)]
        idle = [pattern for pattern in self.differences if not any(_fits(str(difference), pattern) for difference in found)]
        return left + [f"nothing is like {pattern}" for pattern in idle]


@dataclass(frozen=True)
class Otherwise:
    """States that the deployer reached by a fault of its own or in which it failed, and what ours does instead."""

    states: tuple[str, ...]
    fault: str
    ours: Refusal | Reached
    faults: Faults = NO_FAULTS


def _input(state: str, fault: str, key: str) -> Otherwise:
    return Otherwise((state,), fault, Refusal("InvalidInput", f"motor_deploy_config.{key}"))


_NPUS = (("p_pod_npu_num", 8), ("d_pod_npu_num", 8))
_CONFIG = "ConfigMap mindie-motor/motor-config data[user_config.json]"

SECOND = (
    _input("e03-p-zero", "A traceback.", "p_instances_num"),
    _input("e04-p-17", "A traceback.", "p_instances_num"),
    _input("e07-p-missing", "A traceback.", "p_instances_num"),
    _input("e09-p-notint", "A traceback.", "p_instances_num"),
    _input("e10-p-float", "Takes 1.9 for 1 and deploys.", "p_instances_num"),
    _input("e12-bad-deploy-mode", "A traceback.", "deploy_mode"),
    _input("f09-job-id-injection", "Runs a part of job_id as a shell command.", "job_id"),
    _input("jul-e01-hybrid-mixed-keys", "A traceback.", "p_instances_num"),
    _input("jul-e02-hybrid-missing", "A traceback.", "hybrid_pod_npu_num"),
    _input("jul-e05-hybrid-notint", "A traceback.", "hybrid_instances_num"),
    _input("jul-e08-unknown-hardware", "A traceback.", "hardware_type"),
    _input("d02-vllm-iss-a2", "Deploys pods with 16 NPUs on servers with 8: they wait for ever.", "p_pod_npu_num"),
    _input("jul-d04-vllm-md-a2", "Deploys pods with 16 NPUs on servers with 8: they wait for ever.", "p_pod_npu_num"),
    _input(
        "jul-u01-update-config/step6-e-changed-ignored",
        "Ignores an added `e_instances_num` with a warning and reports success.",
        "e_pod_npu_num",
    ),
    Otherwise(("e01-scale-no-baseline", "e02-update-config-no-baseline"), "A traceback.", Refusal("NotDeployed")),
    Otherwise(
        ("e30-scale-other-change/step2", "jul-s09-scale-other-change/step2"),
        "A traceback that does not say what differs.",
        Refusal("OtherChanges", "motor_deploy_config.image_name"),
    ),
    Otherwise(
        ("e30-scale-other-change/step3-deploymode", "jul-s09-scale-other-change/step3-mode"),
        "A traceback.",
        Refusal("OtherChanges", "motor_deploy_config.deploy_mode"),
    ),
    Otherwise(
        ("e30-scale-other-change/step4-added-empty-section",),
        "Refuses to scale because of an added empty section.",
        Reached(
            "scales to 2P1D",
            (
                "Deployment mindie-motor/vllm-p1: only ours",
                f"{_CONFIG}.motor_deploy_config.p_instances_num: differs",
                f"{_CONFIG}.north_config: only ours",
            ),
        ),
    ),
    Otherwise(
        ("f01-md-scale-out-apply-fails/step2-out-3p1d-p1-fails", "jul-f02-md-scale-out-apply-fails/step2-out-3p1d-p1-fails"),
        "Creating `vllm-p1` fails; the baseline says 3 and success is reported.",
        Reached("the run fails and the baseline stays", (f"{_CONFIG}.motor_deploy_config.p_instances_num: differs",)),
        Faults(
            ("f01-md-scale-out-apply-fails/step2-out-3p1d-p1-fails", "jul-f02-md-scale-out-apply-fails/step2-out-3p1d-p1-fails"),
            creating=("vllm-p1",),
        ),
    ),
    Otherwise(
        ("f01-md-scale-out-apply-fails/step3-retry-same", "jul-f02-md-scale-out-apply-fails/step3-retry"),
        "Running it again finds nothing to do; `vllm-p1` stays missing.",
        Reached("the second run creates what is missing", ("Deployment mindie-motor/vllm-p1: only ours",)),
        Faults(
            ("f01-md-scale-out-apply-fails/step2-out-3p1d-p1-fails", "jul-f02-md-scale-out-apply-fails/step2-out-3p1d-p1-fails"),
            creating=("vllm-p1",),
        ),
    ),
    Otherwise(
        ("f07-get-forbidden-scale/step2-scale",),
        "Takes a refused read for a service that does not exist and advises to deploy it.",
        Refusal("Forbidden"),
        Faults(("f07-get-forbidden-scale/step2-scale",), forbidden=True),
    ),
    Otherwise(
        ("f12-redeploy-lower-count-md/step2-full-redeploy-1p1d",),
        "Leaves `vllm-p1` and `vllm-p2` running.",
        Reached("removes them", ("Deployment mindie-motor/vllm-p1: only recorded", "Deployment mindie-motor/vllm-p2: only recorded")),
    ),
    Otherwise(
        ("f16-job-id-30-chars",),
        "Makes a label of 64 characters, so the coordinator is refused; success is reported.",
        Reached("deploys everything", (f"Deployment {'a' * 30}/mindie-motor-coordinator: only ours",)),
    ),
    Otherwise(
        ("jul-u01-update-config/step2-loglevel",),
        "A TypeError, as the section was empty.",
        Reached(
            "stores the new level",
            (
                f"{_CONFIG}.motor_coordinator_config: only recorded",
                f"{_CONFIG}.motor_coordinator_config.logging_config.log_level: only ours",
            ),
        ),
    ),
    Otherwise(
        ("jul-u01-update-config/step3-nonwhitelisted-ignored",),
        "Ignores the image with a warning, then a TypeError.",
        Refusal("RestartNeeded", "motor_deploy_config.image_name"),
    ),
    Otherwise(("jul-u01-update-config/step4-instances",), "A traceback.", Refusal("CountsDiffer", "prefill")),
    Otherwise(
        ("jul-u01-update-config/step5-mode", "u05-update-config-deploymode/step3-explicit-md"),
        "A traceback.",
        Refusal("NotAllowed", "motor_deploy_config.deploy_mode"),
    ),
    Otherwise(
        ("jul-u01-update-config/step7-new-section-whitelisted",),
        "A TypeError, as the section is new.",
        Reached(
            "stores the new section (and takes the level of step 2 back, as the file does)",
            (f"{_CONFIG}.north_config.name: only ours",),
        ),
    ),
    Otherwise(
        ("jul-u02-update-config-removed-key/step2-removed",),
        "Stores null in the place of a removed key.",
        Reached(
            "removes the key",
            (
                f"{_CONFIG}.motor_coordinator_config: only ours",
                f"{_CONFIG}.motor_coordinator_config.exception_config.max_retry: only recorded",
            ),
        ),
    ),
    Otherwise(
        ("m01-two-services-one-client/step2-mindie-b",),
        "Takes the ClusterRoleBinding from the first service; a Service is refused, as its node port is taken; success is reported.",
        Reached(
            "each service has its own (with `node_ports: auto` the second one is not refused)",
            (
                "ClusterRole mindie-controller-role-mindie-a: only ours",
                "ClusterRoleBinding mindie-controller-binding-mindie-a: only ours",
                "Service mindie-b/mindie-motor-coordinator-infer: only ours",
            ),
        ),
    ),
    Otherwise(
        ("s06-scale-md-in-fresh-client/step2-in-1p1d-fresh",),
        "On another machine: deletes nothing, and stores scripts without their environment; success is reported.",
        Reached(
            "removes the instances and keeps the scripts",
            (
                "Deployment mindie-motor/vllm-d1: only recorded",
                "Deployment mindie-motor/vllm-p1: only recorded",
                "Deployment mindie-motor/vllm-p2: only recorded",
                "ConfigMap mindie-motor/motor-config data[*.sh].set_*_env: only ours",
            ),
        ),
    ),
    Otherwise(
        ("s10-scale-sglang-md-out/step2-out-2p1d",),
        "The new instance lacks what sglang needs.",
        Reached(
            "the new instance is like its sibling",
            (
                "Deployment mindie-lhb/sglang-p1 spec.template.spec.containers[sglang].env[*]*: only ours",
                "Deployment mindie-lhb/sglang-p1 spec.template.spec.containers[sglang].securityContext.privileged: only ours",
                "Deployment mindie-lhb/sglang-p1 spec.template.spec.containers[sglang].securityContext.*: only recorded",
            ),
        ),
    ),
    Otherwise(
        ("s12-scale-single-container/step2-2p1d",),
        "Creates an engine beside the container that holds everything.",
        Refusal("NotScalable"),
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step2-image",), "A traceback.", Refusal("RestartNeeded", "motor_deploy_config.image_name")
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step3-exception-other-key",),
        "A traceback.",
        Refusal("RestartNeeded", "motor_coordinator_config.exception_config.recompute_enabled"),
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step4-engine-list",),
        "A traceback.",
        Refusal("RestartNeeded", "motor_engine_prefill_config.engine_config.compilation_config.cudagraph_capture_sizes"),
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step5-new-toplevel",),
        "A traceback.",
        Refusal("RestartNeeded", "kv_conductor_config.http_server_port"),
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step6-whitelisted-plus-other",),
        "A traceback.",
        Refusal("RestartNeeded", "motor_coordinator_config.scheduler_config.scheduler_type"),
    ),
    Otherwise(
        ("u03-update-config-nonwhitelisted/step7-empty-dict-added", "u03-update-config-nonwhitelisted/step8-null-added"),
        "Stores an empty section, and later refuses to scale because of it.",
        Reached(
            "nothing changes, as nothing differs",
            (f"{_CONFIG}.motor_coordinator_config: only ours", f"{_CONFIG}.motor_coordinator_config.rate_limit_config: only recorded"),
        ),
    ),
    Otherwise(
        ("u05-update-config-deploymode/step2-explicit-iss",),
        "Refuses to write down the deploy mode that is the default.",
        Reached("nothing changes, as nothing differs"),
    ),
)

# The refused states of A2 servers, with as many NPUs per pod as fit: all else is equal.
REPAIRED = tuple(
    (
        state,
        Faults((state,), repaired=_NPUS),
        Reached("the same with 8 NPUs per pod", (pattern, f"{_CONFIG}.motor_deploy_config.*_pod_npu_num: differs")),
    )
    for state, pattern in (
        ("d02-vllm-iss-a2", "InferServiceSet mindie-motor/vllm *.resources.*[huawei.com/Ascend910]: differs"),
        ("jul-d04-vllm-md-a2", "Deployment mindie-motor/vllm-*0 *.resources.*[huawei.com/Ascend910]: differs"),
    )
)


def second_by_state() -> dict[str, Otherwise]:
    """The row of each state of the second table."""
    return {state: row for row in SECOND for state in row.states}


def tables() -> str:
    """Both tables as they stand in the documentation."""
    first = ["| # | kind | JSON path | rule | reason |", "|---|---|---|---|---|"]
    first += [f"| {number} | {row.kind} | `{row.path}` | {row.rule} | {row.reason} |" for number, row in enumerate(ALLOWED, start=1)]
    second = ["| recorded state | what the deployer does | what the collection does instead |", "|---|---|---|"]
    second += [f"| {', '.join(f'`{state}`' for state in row.states)} | {row.fault} | {row.ours} |" for row in SECOND]
    return "\n".join(["## Allowed differences", "", *first, "", "## States that are not followed", "", *second, ""])


def _fits(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, in which `*` stands for anything."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text) is not None


def explained(differences: list[Difference]) -> tuple[list[Difference], set[int]]:
    """Differences that no row allows, and the numbers (from 0) of the rows that were needed."""
    used: set[int] = set()
    left = []
    for difference in differences:
        rows = [number for number, row in enumerate(ALLOWED) if row.allows(difference)]
        used.update(rows)
        if not rows:
            left.append(difference)
    return left, used
