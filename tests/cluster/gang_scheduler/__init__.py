# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Volcano's scheduler: what tests need of gang scheduling, written from its observed behaviour.

``python -m tests.cluster.gang_scheduler --kubeconfig FILE`` runs it; it places the pods whose schedulerName is ``volcano``.
Once a second it holds a session, as Volcano does:

* enqueue: a PodGroup leaves ``Pending`` for ``Inqueue`` when the whole cluster's capacity, less what is allocated and what
  enqueued PodGroups have been promised, reaches its ``minResources``. Nodes that are not ready count, and so do PodGroups without pods:
  a job that is held elsewhere keeps others out. Pods whose PodGroup is gone do not count: what waits for their NPUs is let in and gets
  pods, which find no place. ``--enqueue always`` lets all in.
* allocate: the pods of a PodGroup are bound when ``minMember`` of them have a place, else none. A node must have room, match the node
  selector and the required node affinity, be schedulable and have no taint that the pod does not tolerate. A pod that waits says why in
  ``PodScheduled``: ``Unschedulable`` when it lacks a place, ``Schedulable`` when it waits for others of its PodGroup that do.
* close: the phase is that of the pods as the session found them: ``Running`` with ``minMember`` bound pods (one session after they were
  bound); ``Unknown`` when some run and the rest has no place; else ``Pending``, unless it is ``Inqueue``. Conditions are never taken back.

Pods without a PodGroup are placed one by one and at once (Volcano makes a PodGroup of one for each workload first).

``--reschedule`` also deletes the pods of instances that a fault has hit, as Huawei's plugin for Volcano does; see ``faults``.

Not here: queues other than an open ``default``, priorities, preemption, affinity between pods, the choice by super-pod.

* ``resources``: quantities, and what pods ask for; ``placing``: which node suits a pod
* ``session``: one session, as a pure function
* ``faults``: what ``--reschedule`` does
* ``scheduler``: one running scheduler
"""
