# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for MindCluster's Infer Operator: what tests need of it, written from its observed behaviour.

``python -m tests.cluster.infer_operator --kubeconfig FILE`` runs it. It turns an InferServiceSet into InferServices,
these into InstanceSets (one per role), and these into Deployments or StatefulSets (one per instance) with Services.

* ``objects``: which objects follow from which, as pure functions
* ``status``: what the status of the three kinds says, as pure functions
* ``work_queue``: keys to reconcile, with delays and back-off
* ``parents``: InferServiceSet and InferService
* ``instance_sets``: InstanceSet; ``scaling``: its HorizontalPodAutoscaler
* ``nodes``: removal of pods from nodes that turned NotReady
* ``operator``: one running operator
"""
