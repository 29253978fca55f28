# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of objects that a service is made of, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of object: `kind`, its `api_version`, the plural in URLs, and whether it lives in a namespace."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object when `name` is given."""
        prefix = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{prefix}{scope}/{self.plural}" + (f"/{name}" if name else "")


_ALL = (
    Kind("Namespace", "v1", "namespaces", namespaced=False),
    Kind("Node", "v1", "nodes", namespaced=False),
    Kind("ConfigMap", "v1", "configmaps"),
    Kind("Secret", "v1", "secrets"),
    Kind("Pod", "v1", "pods"),
    Kind("Service", "v1", "services"),
    Kind("Event", "v1", "events"),
    Kind("ServiceAccount", "v1", "serviceaccounts"),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    Kind("Role", "rbac.authorization.k8s.io/v1", "roles"),
    Kind("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings"),
    Kind("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    Kind("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
    Kind("Deployment", "apps/v1", "deployments"),
    Kind("StatefulSet", "apps/v1", "statefulsets"),
    Kind("ControllerRevision", "apps/v1", "controllerrevisions"),
    Kind("Lease", "coordination.k8s.io/v1", "leases"),
    Kind("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers"),
    Kind("APIService", "apiregistration.k8s.io/v1", "apiservices", namespaced=False),
    Kind("ScaledObject", "keda.sh/v1alpha1", "scaledobjects"),
    Kind("InferServiceSet", "mindcluster.huawei.com/v1", "inferservicesets"),
    Kind("InferService", "mindcluster.huawei.com/v1", "inferservices"),
    Kind("InstanceSet", "mindcluster.huawei.com/v1", "instancesets"),
    Kind("AscendJob", "mindxdl.gitee.com/v1", "ascendjobs"),
    Kind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups"),
)

KINDS = {kind.kind: kind for kind in _ALL}
