# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a check of scaling rules can find: the one table of codes, and how a finding is made of a row.

Codes never change their meaning. R1xx: the rule holds every job. R2xx: it can crash the operator. R3xx: what its tiers say.
R4xx: how it is written. R5xx: what relaxed reading made of it. R6xx: jobs and PodGroups beside it. R7xx: the cluster beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .findings import ERROR, NOTE, WARNING, Finding


@dataclass(frozen=True)
class Code:
    """One row: how bad it is, what it is in a few words, what comes of it, what to do."""

    severity: str
    title: str
    effect: str
    remedy: str


_HOLDS = "The operator refuses the rule: no job that names it creates a pod, and only the operator's log says why."
_NEVER = "No job that names the rule ever creates a pod; it looks like a job that is held for a good reason."
_CRASH = "The Ascend Operator crashes, for the whole cluster and again after each restart"
_LATENT = "As soon as a tier without the group counts and one of its jobs lacks pods, the Ascend Operator crashes for the whole cluster."
_DEAD = "The operator gives the job up for good (JobValidFailed); correcting it afterwards changes nothing."
_DIGITS = 'Write plain digits in double quotes, such as "2".'
_CONTROLLER = "Motor's controller reads the first two entries of the first tier as prefill and decode, whatever their names are"
_RECREATE = "Correct its manifest, then delete the job and create it again."

# Errors of single jobs, which no rule causes or mends: they are told, and keep no rule from being applied.
OF_JOBS = frozenset({"R603", "R604", "R605", "R606"})

CODES: dict[str, Code] = {
    "R101": Code(ERROR, "the data key is missing", _HOLDS, "Put the rule under the data key elastic_scaling.json, spelt exactly so."),
    "R102": Code(ERROR, "no JSON document", _HOLDS, "Correct the text at this place; it has to be exactly one JSON document."),
    "R103": Code(ERROR, "a byte order mark", _HOLDS, "Save the text as UTF-8 without a byte order mark."),
    "R104": Code(
        ERROR, "a comment", _HOLDS, "Remove the comments, or have them removed: motor_scaling_rule does so when told to (relaxed: true)."
    ),
    "R105": Code(ERROR, "a comma with nothing behind it", _HOLDS, "Remove the comma."),
    "R106": Code(
        ERROR, "a value of the wrong type", _HOLDS, "All values are texts in double quotes, tiers and groups are objects in lists."
    ),
    "R107": Code(ERROR, "no integer", _HOLDS, _DIGITS),
    "R108": Code(ERROR, "a group that the tier before lacks", _HOLDS, "Name the group in every tier above, or correct its name."),
    "R109": Code(ERROR, "more instances than in the tier before", _HOLDS, "Order the tiers from full size down: group_num never grows."),
    "R110": Code(ERROR, "more servers than in the tier before", _HOLDS, "Give a group the same server_num_per_group in every tier."),
    "R111": Code(ERROR, "no tiers", _NEVER, "Give elastic_scaling_list at least one tier."),
    "R112": Code(ERROR, "no tier asks for any instance", _NEVER, "Ask for at least one instance of each group."),
    "R201": Code(
        ERROR,
        "a tier omits a group",
        f"{_CRASH}, when this tier counts and a job of the group lacks pods.",
        'Give the group "group_num": "0" in this tier.',
    ),
    "R202": Code(
        ERROR,
        "a group without a name",
        'The group is called "". A job of the group that was meant finds no tier with its name, which crashes the operator.',
        "Give every entry a group_name.",
    ),
    "R301": Code(
        WARNING,
        "a tier that never counts",
        "The operator never takes this tier: the tiers below ask for as much.",
        "Remove the tier, or let it ask for more than the tier below.",
    ),
    "R302": Code(
        WARNING,
        "the smallest tier lacks a group",
        "The service is brought up without any instance of the group until all others of this tier run.",
        "Ask for at least one instance of every group in the smallest tier.",
    ),
    "R303": Code(
        WARNING,
        "a group that is never started",
        "No tier asks for an instance of the group, so its jobs are held for ever.",
        "Ask for at least one instance, or remove the group and its jobs.",
    ),
    "R304": Code(
        WARNING,
        "servers differ between tiers",
        "The operator ignores the number; whoever else reads it gets contradicting sizes of one instance.",
        "Give a group the same server_num_per_group in every tier.",
    ),
    "R305": Code(
        WARNING,
        "fewer than one server",
        "The operator ignores the number; an instance without a server cannot be meant.",
        "Give the number of pods (servers) that one instance has.",
    ),
    "R306": Code(WARNING, "a negative number of instances", "It counts as 0.", 'Write "0".'),
    "R307": Code(
        WARNING, "a number in an unusual spelling", "The operator takes it; other readers may not, or may read another number.", _DIGITS
    ),
    "R308": Code(
        WARNING,
        "a group twice in one tier",
        "The last entry of the group counts; Motor's controller, which counts positions, reads the first ones.",
        "Leave one entry.",
    ),
    "R309": Code(
        WARNING,
        "a name that no job can have",
        "Group names are labels of jobs. No job can carry this one, so the tier is never satisfied.",
        "Use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends.",
    ),
    "R310": Code(
        WARNING,
        "fewer than two groups",
        f"{_CONTROLLER}; with fewer than two it does not read the rule.",
        "Give the first tier a prefill group and a decode group, in this order.",
    ),
    "R311": Code(
        WARNING,
        "groups in an order that misleads",
        f"{_CONTROLLER}; here it would take one for the other.",
        "Put the prefill group first and the decode group second.",
    ),
    "R312": Code(
        WARNING,
        "a tier that never counts omits a group",
        "Nothing now. The operator crashes once the tier counts, so it is one edit away.",
        'Give the group "group_num": "0" in this tier.',
    ),
    "R313": Code(
        NOTE, "more than two groups", f"{_CONTROLLER}; it ignores the others.", "Make sure that prefill and decode are the first two."
    ),
    "R314": Code(
        WARNING,
        "an empty group name",
        "Only jobs whose label mind-cluster/group-name is there and empty belong to it.",
        "Give the group a name.",
    ),
    "R401": Code(
        WARNING, "a key that is probably misspelt", "The operator ignores the key, and what was meant is missing.", "Correct the key."
    ),
    "R402": Code(
        WARNING,
        "a key in another spelling",
        "The operator takes it; readers that compare keys exactly, such as Motor's controller, do not find it.",
        "Spell the key exactly.",
    ),
    "R403": Code(WARNING, "a key twice in one object", "The later one counts.", "Leave one of them."),
    "R404": Code(
        WARNING,
        "a list twice in one object",
        "The later list is read over the earlier one, entry by entry; what it leaves out stays from the earlier one.",
        "Leave one of them.",
    ),
    "R405": Code(NOTE, "an unknown key", "The operator ignores it.", "Remove it unless something else reads it."),
    "R406": Code(NOTE, "another version", "Nothing: nobody reads it.", 'Write "1.0", as Motor does.'),
    "R501": Code(
        NOTE, "comments were removed", "What is written has no comments.", "Keep the text with the comments as the source of the rule."
    ),
    "R502": Code(
        WARNING,
        "a bracket at the end of a comment was taken as code",
        "The text is no JSON without the bracket, and is with it.",
        "Check that this is meant, and put the bracket in a line of its own.",
    ),
    "R601": Code(
        ERROR,
        "the tier that counts now has no such group",
        f"{_CRASH}, as soon as the job lacks a pod.",
        "Correct the label, that is delete the job and create it again, or add the group to every tier of the rule.",
    ),
    "R602": Code(
        ERROR,
        "a job of a group that the rule does not have",
        _LATENT,
        "Correct the label, that is delete the job and create it again, or add the group to every tier of the rule.",
    ),
    "R603": Code(ERROR, "a job lacks a label", _DEAD, _RECREATE),
    "R604": Code(ERROR, "a job without a valid framework", _DEAD, _RECREATE),
    "R605": Code(
        ERROR,
        "a PodGroup without group-name",
        "The operator cannot count, so every job of this rule and jobID is held.",
        "Delete the PodGroup's job and create it again with the label mind-cluster/group-name.",
    ),
    "R606": Code(
        ERROR,
        "fault-retry-times is no integer",
        "The operator drops the job until something of it changes, and only the log says why.",
        _RECREATE,
    ),
    "R611": Code(
        WARNING,
        "another jobID",
        "Jobs are counted together only when rule and jobID are the same, so this job is decided upon as if it were alone.",
        "Give all jobs of one inference task the same jobID: " + _RECREATE.lower(),
    ),
    "R612": Code(
        WARNING,
        "a job names another rule",
        "The operator does not find that rule, so the job is held.",
        "Correct the label mind-cluster/scaling-rule of the job's manifest, delete the job and create it again.",
    ),
    "R613": Code(
        WARNING,
        "a job names no rule",
        "The rule does not hold it: it takes NPUs at once, whatever the others lack, and it is not counted.",
        "Add the labels mind-cluster/scaling-rule and mind-cluster/group-name, delete the job and create it again.",
    ),
    "R614": Code(
        WARNING,
        "a PodGroup with labels of the past",
        "Labels of a job are copied when its PodGroup is made and never again; the operator counts by those of the PodGroup.",
        "Delete the job and create it again.",
    ),
    "R615": Code(
        WARNING,
        "a job with pods but no PodGroup",
        "Without gang scheduling no instance is ever counted, so the smallest tier counts for ever and starts all jobs of its groups.",
        "Start the Ascend Operator with --enableGangScheduling=true.",
    ),
    "R616": Code(
        WARNING,
        "a job without its rank table",
        "The operator remembers that there is none, and the instance never gets its ranks.",
        "Create the ConfigMap first, then the job: delete the job and create both.",
    ),
    "R617": Code(
        WARNING,
        "a job with few restarts",
        "When they are used up the job has failed for good, and only deleting and creating it again brings it back.",
        'Leave backoffLimit out, and set the label fault-retry-times to a high number, such as "10000".',
    ),
    "R618": Code(
        WARNING,
        "a job without restarts after software faults",
        "The first pod that fails ends the job for good; its other pods go on and keep their NPUs.",
        'Set the label fault-retry-times to a high number, such as "10000", delete the job and create it again.',
    ),
    "R619": Code(
        WARNING,
        "a job that has failed for good",
        "Nothing brings it back, and pods of it that are left keep their NPUs.",
        "Delete the job and create it again.",
    ),
    "R621": Code(
        WARNING,
        "server_num_per_group differs from the job",
        "The operator ignores the number; what is planned by it does not fit the job.",
        "Let server_num_per_group equal the number of pods of one job of the group.",
    ),
    "R622": Code(
        WARNING,
        "a tier that the servers cannot hold",
        "This tier is never satisfied; the service stays at the tier below.",
        "Add servers, or make the tier smaller.",
    ),
    "R623": Code(
        WARNING,
        "the smallest tier is more than the servers can hold",
        "The service never reaches its smallest tier.",
        "Add servers, or make the tier smaller.",
    ),
    "R624": Code(
        WARNING,
        "more runs than the rule asks for",
        "Every tier is satisfied, so an instance that is lost now is not started again.",
        "Raise the rule to what runs, or remove the surplus jobs.",
    ),
    "R625": Code(
        NOTE,
        "fewer jobs than the rule asks for",
        "The tier is never satisfied; tiers above it do not count.",
        "Create the missing jobs, or make the tier smaller.",
    ),
    "R626": Code(
        WARNING,
        "the first two groups are not prefill and decode",
        f"{_CONTROLLER}; here it would take one for the other.",
        "Put the prefill group first and the decode group second in every tier.",
    ),
    "R701": Code(
        WARNING,
        "a controller with an old rule",
        "Its mount of a single file is never refreshed, so it goes on by the rule of its start.",
        "Restart the controller's pod (delete it) when that does not disturb.",
    ),
}


def finding(
    code: str,
    message: str,
    *,
    severity: str = "",
    remedy: str = "",
    line: int | None = None,
    column: int | None = None,
    path: str = "",
    tier: int | None = None,
    group: str | None = None,
    name: str = "",
) -> Finding:
    """A finding of this code. Severity and remedy are those of the table unless the case is another."""
    row = CODES[code]
    return Finding(code, severity or row.severity, message, row.effect, remedy or row.remedy, line, column, path, tier, group, name)


def table() -> str:
    """The table of all codes for the documentation."""
    rows = [f"| {code} | {row.severity} | {row.title} | {row.effect} | {row.remedy} |" for code, row in CODES.items()]
    return "\n".join(["| code | severity | what | what comes of it | what to do |", "|---|---|---|---|---|", *rows]) + "\n"
