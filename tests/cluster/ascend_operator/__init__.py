# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for MindCluster's Ascend Operator: what tests need of it, written from its observed behaviour.

``python -m tests.cluster.ascend_operator --kubeconfig FILE`` runs it. It makes a PodGroup, a Service and pods for each AscendJob.

What it reproduces, traps included:

* an invalid AscendJob is ``Failed/JobValidFailed`` for good, whatever is corrected later;
* one whose ``fault-retry-times`` is no integer is ignored until something of it changes, then it is like any other;
* while the PodGroup is not enqueued there are no pods: condition ``Created`` with ``PodGroupNotInitialized`` or ``PodGroupPending``;
* the scaling rule is asked when pods are missing. A broken rule and a rule that holds the job look the same: ``Created/PodCreateFailed`` and
  no event. The next attempt comes after 5 ms, doubling up to 20 s, and at once when the job, its PodGroup, its pods or its Service change, but
  not when the rule does or another job. Attempts in between do not move that timer;
* the tier that counts has no entry for the job's group: the process **ends** (status 2), and does so again after each restart. It takes jobs
  by namespace and name then, so that those before the one that kills it advance by one step per restart;
* conditions: once true ``Running`` stays although pods are gone; the same type and reason again changes neither message nor order; replica
  counts are old while the PodGroup waits. Only the PodGroup's phase and the pods tell the truth;
* a failed pod ends the job for good unless ``fault-retry-times`` and ``volcano-system/vcjob-fault-npu-cm`` grant a retry; its PodGroup goes,
  its other pods run on. So does the restart that exceeds ``backoffLimit`` (or, without one, ``fault-retry-times``);
* a pod that is going still counts as there; nothing forces it from a dead node;
* ``rings-config-<job>`` is filled when it was there before the job, never created and never removed.

What it does not: jobs that decorate a Deployment, hot-switch backups, the 950 class, training environments, cleanPodPolicy, deadlines,
the limit of ten retries a second over all jobs, and leader election.

* ``objects``: which objects follow from an AscendJob; ``validation``: which AscendJobs it refuses; both are pure functions
* ``conditions``: how a condition enters the status, a pure function
* ``gate``: what the scaling rule says of a job
* ``retries``: the queue with its timers
* ``jobs``: reconciling one AscendJob; ``rank_table``: its ``rings-config``
* ``operator``: one running operator
"""
