# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `rule`: write or remove the ConfigMap of a scaling rule, in one write that is a compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import plan, rule_object, scaling_rule
from .errors import MotorError, Refused
from .findings import ERROR, Finding
from .guard import RULE_VERB as VERB
from .guard import require_finished
from .job_facts import RULE_LABEL
from .ownership import metadata_labels
from .plan import Plan, Step, Write
from .rule_codes import OF_JOBS
from .rule_reader import DATA_KEY, NAME, Reading, RuleError, read_data
from .state import Snapshot, is_deleted

LiveLint = Callable[[Snapshot], Sequence[Finding]]


class RuleRefused(MotorError):
    """A rule with error findings, which is never `done` (applied, simulated)."""

    def __init__(self, source: str, findings: Sequence[Finding], done: str = "applied") -> None:
        errors = [finding for finding in findings if finding.severity == ERROR]
        count = f"{len(errors)} error{'s' if len(errors) > 1 else ''}"
        message = "\n".join([f"The scaling rule ({source}) is not {done}, because of {count}:", *map(_told, errors)])
        super().__init__(message, reason="RuleRefused", findings=[finding.to_dict() for finding in findings])


@dataclass(frozen=True)
class WantedRule:
    """The rule to be applied: `name` of its ConfigMap, and the rule as the operator will read it."""

    name: str
    reading: Reading
    source: str

    @property
    def text(self) -> str:
        """The value of the data key: the same bytes for the same rule, however it was given."""
        return strict_text(self.reading)


def refuse_errors(source: str, findings: Sequence[Finding]) -> None:
    """Raise RuleRefused when there is an error among the findings."""
    if any(finding.severity == ERROR for finding in findings):
        raise RuleRefused(source, findings)


def strict_text(reading: Reading) -> str:
    """A rule as we write it."""
    return scaling_rule.write(reading.tiers)


def plan_rule(snapshot: Snapshot, wanted: WantedRule, lint: LiveLint, at: str) -> Plan:
    """Plan to have the rule applied; `at` is the time (RFC 3339). Raises RuleRefused when it does not go with what is live."""
    refuse_errors(wanted.source, [finding for finding in lint(snapshot) if finding.code not in OF_JOBS])
    live = snapshot.rule
    if live is not None and live_means(live) == meaning(wanted.reading):
        return Plan(VERB, snapshot.namespace)
    require_finished(snapshot, VERB)
    return _one_write(snapshot, _write(snapshot, wanted, at))


def plan_rule_absent(snapshot: Snapshot, name: str) -> Plan:
    """Plan to have no rule of this name. Raises Refused while jobs name it: without it, they could create no pod any more."""
    if snapshot.rule is None:
        return Plan(VERB, snapshot.namespace)
    jobs = naming(snapshot, name)
    if jobs:
        shown = ", ".join(jobs)
        raise Refused(
            f"Cannot remove the scaling rule ConfigMap {snapshot.namespace}/{name}: {len(jobs)} AscendJobs name it ({shown}), and without it "
            "none of them can create a pod, so that a lost instance would never come back. Delete the jobs first.",
            reason="RuleInUse",
            paths=jobs,
        )
    require_finished(snapshot, VERB)
    return _one_write(snapshot, plan.delete("ConfigMap", snapshot.rule, "no job names the scaling rule"))


def naming(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Names of the AscendJobs that are to stay and name the rule."""
    found = (job for job in snapshot.jobs if (job["metadata"].get("labels") or {}).get(RULE_LABEL) == name and not is_deleted(job))
    return tuple(sorted(job["metadata"]["name"] for job in found))


def meaning(reading: Reading) -> tuple[Any, ...]:
    """What readers of a rule go by: the tiers, and the order of groups in the first one (by which Motor's controller counts)."""
    first = reading.decoded[0].entries() if reading.decoded else []
    return reading.tiers, tuple(group.texts.get(NAME, "") for group in first)


def live_means(config_map: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The meaning of a live rule; None when the operator refuses it."""
    reading = live_reading(config_map)
    return None if isinstance(reading, RuleError) else meaning(reading)


def live_reading(config_map: Mapping[str, Any]) -> Reading | RuleError:
    """A live rule as the operator reads it, or why it refuses it."""
    metadata = config_map["metadata"]
    try:
        return read_data(config_map.get("data") or {}, source=f"ConfigMap {metadata.get('namespace', '')}/{metadata['name']}")
    except RuleError as error:
        return error


def shown_text(config_map: Mapping[str, Any] | None) -> str:
    """A live rule as a diff shows it: as we would write it, so that white space is no difference; a broken one as it is."""
    if config_map is None:
        return ""
    reading = live_reading(config_map)
    return str((config_map.get("data") or {}).get(DATA_KEY, "")) if isinstance(reading, RuleError) else strict_text(reading)


def _write(snapshot: Snapshot, wanted: WantedRule, at: str) -> Write:
    live = snapshot.rule
    obj = rule_object.made(wanted.name, snapshot.namespace, wanted.text) if live is None else rule_object.changed(live, wanted.text)
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **metadata_labels(rule_object.COMPONENT)}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), rule_object.CHANGED: at}
    if live is None:
        return plan.create(obj, "there is no scaling rule yet")
    broken = live_means(live) is None
    return plan.update(obj, "the operator refuses the live rule" if broken else "the live rule is another one")


def _one_write(snapshot: Snapshot, write: Write) -> Plan:
    step = Step("remove the scaling rule" if write.verb == "delete" else "write the scaling rule", (write,))
    return Plan(VERB, snapshot.namespace, steps=(step,), settles=False)


def _told(finding: Finding) -> str:
    """One finding as a line of a message. Its own message says where."""
    return f"{finding.code} {finding.message.rstrip('.')}. {finding.effect} {finding.remedy}"
