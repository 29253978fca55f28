# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a program that runs in the cluster: its code and settings, its account and rights, its Deployment and Service."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .certificates import AUTHORITY, CERTIFICATE, PRIVATE_KEY, SINCE, Serving, encoded
from .digests import sha256
from .kinds import KINDS
from .ownership import COMPONENT, PART_OF, PROGRAMS, program_labels

Object: TypeAlias = "dict[str, Any]"
# Kind, namespace ("" for what lies in none), name.
Key: TypeAlias = "tuple[str, str, str]"
Rules: TypeAlias = "list[Mapping[str, Any]]"

RBAC_GROUP = "rbac.authorization.k8s.io"
# On the ConfigMap: in which namespaces there are, or may be, rights of the program (JSON list).
NAMESPACES = "ascend.mindie/namespaces"
# On the ConfigMap: objects that only some programs have, and this one has or had (JSON list of KIND/NAME).
OBJECTS = "ascend.mindie/objects"
# On the pod template: what the pods are started from. Code and settings are no part of a template, and pods do not see new ones.
CHECKSUM = "ascend.mindie/checksum"
ARCHIVE, SETTINGS = "program.pyz", "settings.json"
# Any number but that of root; the image does not have to know it.
USER = 65532
DEFAULT_RESOURCES: Mapping[str, Any] = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
GRACE_SECONDS = 30
# Where pods find the files of their certificate, which are renewed without a restart, and where the API server finds their API.
CERTIFICATES, HTTPS = "/certificate", 443
READABLE_BY_GROUP = 0o440
# Each of many threads would keep memory of its own that it needed once.
_PYTHON = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True)
class ServedApi:
    """An API that the API server passes on to the program, which serves it over TLS on `port`.

    `serving` is the certificate, which there is since `since` (seconds since the epoch); `trusted` are the authorities that vouch for
    it, and for the one before while that may still be shown.
    """

    group: str
    version: str
    port: int
    serving: Serving
    trusted: str
    since: float

    @property
    def name(self) -> str:
        """The name of the APIService."""
        return api_name(self.group, self.version)


@dataclass(frozen=True)
class Program:
    """A program as it is wanted. `archive` is the zip application in base64, `settings` the text of settings.json.

    `rights` has the rules by namespace, with the key "" for those that hold in the whole cluster.
    """

    name: str
    namespace: str
    image: str
    archive: str
    settings: str
    port: int
    replicas: int = 2
    service: bool = True
    rights: Mapping[str, Rules] = field(default_factory=dict)
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_RESOURCES)
    api: ServedApi | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces in which it has rights, sorted."""
        return tuple(sorted(name for name in self.rights if name))


def api_name(group: str, version: str) -> str:
    """How an APIService has to be called."""
    return f"{version}.{group}"


def api_objects(name: str, api: str) -> tuple[str, ...]:
    """What a program has besides when it serves an API, as the ConfigMap remembers it."""
    return f"Secret/{name}", f"APIService/{api}"


def key_of(obj: Mapping[str, Any]) -> Key:
    """How an object is found."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or "", metadata["name"]


def rights_name(name: str, namespace: str) -> str:
    """The name of all objects that give rights: several programs may have some in one namespace. Neither part has a dot."""
    return f"{name}.{namespace}"


def objects(program: Program) -> tuple[Object, ...]:
    """All objects of a program, in the order of creation: what others refer to comes first, the Deployment last."""
    made = [config_map(program), _service_account(program), *_roles(program)]
    if program.service:
        made.append(_service(program))
    if program.replicas > 1:
        made.append(_disruption_budget(program))
    served = program.api
    secrets, services = ([_secret(program, served)], [_api_service(program, served)]) if served else ([], [])
    return (*made, *secrets, *_bindings(program), deployment(program), *services)


def possible(name: str, namespace: str, namespaces: Iterable[str], more: Iterable[str] = ()) -> tuple[Key, ...]:
    """Where each object of a program is, if it is there; `namespaces` are those in which it may have rights, `more` what only some have."""
    others = sorted({(kind, own) for kind, dummy, own in (text.partition("/") for text in more)})
    rights = rights_name(name, namespace)
    return (
        ("ConfigMap", namespace, name),
        ("ServiceAccount", namespace, name),
        ("ClusterRole", "", rights),
        *(("Role", place, rights) for place in sorted(namespaces)),
        ("Service", namespace, name),
        ("PodDisruptionBudget", namespace, name),
        ("ClusterRoleBinding", "", rights),
        *(("RoleBinding", place, rights) for place in sorted(namespaces)),
        ("Deployment", namespace, name),
        ("Lease", namespace, name),
        *((kind, namespace if KINDS[kind].namespaced else "", own) for kind, own in others),
    )


def belongs(obj: Mapping[str, Any], name: str, namespace: str) -> bool:
    """True for an object of this very program. The Lease, which the program itself makes, has no labels."""
    labels = obj["metadata"].get("labels") or {}
    return program_labels(name, namespace).items() <= labels.items()


def remembered(ledger: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The namespaces that the ConfigMap says there are or may be rights in."""
    return _texts_of(ledger, NAMESPACES)


def remembered_objects(ledger: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What it says there is or may be of objects that only some programs have."""
    return tuple(text for text in _texts_of(ledger, OBJECTS) if text.partition("/")[0] in KINDS)


def _texts_of(ledger: Mapping[str, Any] | None, annotation: str) -> tuple[str, ...]:
    text = ((ledger or {}).get("metadata") or {}).get("annotations") or {}
    try:
        found = json.loads(text.get(annotation) or "[]")
    except ValueError:
        return ()
    return tuple(sorted(item for item in found if isinstance(item, str) and item)) if isinstance(found, list) else ()


def told(texts: Iterable[str]) -> str:
    """The text that `remembered` and `remembered_objects` read."""
    return json.dumps(sorted(set(texts)))


def config_map(program: Program, namespaces: Iterable[str] | None = None, more: Iterable[str] = ()) -> Object:
    """Code and settings. `namespaces` are those to remember (by default those of the program), `more` objects besides its own."""
    found = _object("ConfigMap", program, program.name)
    found["metadata"]["annotations"] = {NAMESPACES: told(program.namespaces if namespaces is None else namespaces)}
    others = {*more, *(api_objects(program.name, program.api.name) if program.api else ())}
    if others:
        found["metadata"]["annotations"][OBJECTS] = told(others)
    return {**found, "binaryData": {ARCHIVE: program.archive}, "data": {SETTINGS: program.settings}}


def digest(archive: str) -> str:
    """SHA-256 of the bytes of an archive, as sha256sum tells it."""
    return hashlib.sha256(base64.b64decode(archive)).hexdigest()


def size(program: Program) -> int:
    """Bytes of code and settings, as the API server counts them."""
    return len(base64.b64decode(program.archive)) + len(program.settings.encode())


def deployment(program: Program) -> Object:
    """The Deployment, which never has fewer pods ready than it should while it is updated."""
    spec = {
        "replicas": program.replicas,
        "revisionHistoryLimit": 2,
        "selector": {"matchLabels": _pod_labels(program)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": _pod_template(program),
    }
    return {**_object("Deployment", program, program.name), "spec": spec}


def checksum(workload: Mapping[str, Any]) -> str:
    """What the pods of a Deployment, or a pod, are started from."""
    metadata = workload["spec"]["template"]["metadata"] if "template" in workload["spec"] else workload["metadata"]
    return str((metadata.get("annotations") or {}).get(CHECKSUM, ""))


def _pod_labels(program: Program) -> dict[str, str]:
    """By these its pods are found; they must not change, as the selector of a Deployment cannot."""
    return {PART_OF: PROGRAMS, COMPONENT: program.name}


def _pod_template(program: Program) -> Object:
    spec = _pod_spec(program)
    started_from = sha256(json.dumps([program.archive, program.settings, spec], sort_keys=True))
    return {"metadata": {"labels": _pod_labels(program), "annotations": {CHECKSUM: started_from}}, "spec": spec}


def _pod_spec(program: Program) -> Object:
    return {
        "serviceAccountName": program.name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "imagePullSecrets": [{"name": name} for name in program.image_pull_secrets],
        "nodeSelector": dict(program.node_selector),
        "tolerations": list(program.tolerations),
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart(program)]}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(program)],
        "volumes": [
            {"name": "program", "configMap": {"name": program.name}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *([_certificate_volume(program)] if program.api else ()),
        ],
    }


def _apart(program: Program) -> Object:
    """Two pods on one server are lost together; yet better two there than one."""
    term = {"labelSelector": {"matchLabels": _pod_labels(program)}, "topologyKey": "kubernetes.io/hostname"}
    return {"weight": 100, "podAffinityTerm": term}


def _container(program: Program) -> Object:
    return {
        "name": "program",
        "image": program.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"/program/{ARCHIVE}", "--settings", f"/settings/{SETTINGS}"],
        "env": _environment(program),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port, dummy in _ports(program)],
        "resources": dict(program.resources),
        "startupProbe": _probe(period=2, timeout=3, failures=60),
        "readinessProbe": _probe(period=5, timeout=3, failures=3),
        "livenessProbe": _probe(period=10, timeout=5, failures=6),
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        # A file mounted by its path stays what it was when the container started: Python reads the archive as it goes on.
        "volumeMounts": [
            {"name": "program", "mountPath": f"/program/{ARCHIVE}", "subPath": ARCHIVE, "readOnly": True},
            {"name": "program", "mountPath": f"/settings/{SETTINGS}", "subPath": SETTINGS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            # By its folder, so that a new certificate gets there.
            *([{"name": "certificate", "mountPath": CERTIFICATES, "readOnly": True}] if program.api else ()),
        ],
    }


def _certificate_volume(program: Program) -> Object:
    """Of the Secret only what a program needs, readable by its group alone."""
    items = [{"key": key, "path": key} for key in (CERTIFICATE, PRIVATE_KEY)]
    return {"name": "certificate", "secret": {"secretName": program.name, "defaultMode": READABLE_BY_GROUP, "items": items}}


def _ports(program: Program) -> list[tuple[str, int, int]]:
    """Name, port of the pods and port of the Service, for everything that is listened on."""
    served = [("api", program.api.port, HTTPS)] if program.api else []
    return [("http", program.port, program.port), *served]


def _environment(program: Program) -> list[Object]:
    downward = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}
    rows: list[Object] = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in downward.items()]
    version = digest(program.archive)[:12]  # it tells which code runs, and changes with nothing else
    plain = {"PROGRAM_NAME": program.name, "PROGRAM_VERSION": version, "HOME": "/tmp", **_PYTHON}
    return [*rows, *({"name": name, "value": value} for name, value in plain.items())]


def _probe(*, period: int, timeout: int, failures: int) -> Object:
    where = {"path": "/healthz", "port": "http", "scheme": "HTTP"}
    return {"httpGet": where, "periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures}


def _service(program: Program) -> Object:
    ports = [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, dummy, port in _ports(program)]
    spec = {"type": "ClusterIP", "selector": _pod_labels(program), "ports": ports}
    return {**_object("Service", program, program.name), "spec": spec}


def _secret(program: Program, api: ServedApi) -> Object:
    found = _object("Secret", program, program.name)
    found["metadata"]["annotations"] = {SINCE: str(int(api.since))}
    texts = {CERTIFICATE: api.serving.certificate, PRIVATE_KEY: api.serving.private_key, AUTHORITY: api.serving.authority}
    return {**found, "type": "kubernetes.io/tls", "data": {key: encoded(text) for key, text in texts.items()}}


def _api_service(program: Program, api: ServedApi) -> Object:
    spec = {
        "group": api.group,
        "version": api.version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": encoded(api.trusted),
        "service": {"name": program.name, "namespace": program.namespace, "port": HTTPS},
    }
    return {**_object("APIService", program, api.name, ""), "spec": spec}


def _disruption_budget(program: Program) -> Object:
    """Servers that are emptied give the other pod time to come up elsewhere."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _pod_labels(program)}}
    return {**_object("PodDisruptionBudget", program, program.name), "spec": spec}


def _service_account(program: Program) -> Object:
    return {**_object("ServiceAccount", program, program.name), "automountServiceAccountToken": False}


def _roles(program: Program) -> list[Object]:
    name = rights_name(program.name, program.namespace)
    return [{**_object(_role(place), program, name, place), "rules": list(rules)} for place, rules in sorted(program.rights.items())]


def _bindings(program: Program) -> list[Object]:
    name, made = rights_name(program.name, program.namespace), []
    subject = {"kind": "ServiceAccount", "name": program.name, "namespace": program.namespace}
    for place in sorted(program.rights):
        reference = {"apiGroup": RBAC_GROUP, "kind": _role(place), "name": name}
        made.append({**_object(f"{_role(place)}Binding", program, name, place), "roleRef": reference, "subjects": [subject]})
    return made


def _role(place: str) -> str:
    return "Role" if place else "ClusterRole"


def _object(kind: str, program: Program, name: str, namespace: str | None = None) -> Object:
    """The frame of an object, in the program's namespace unless told otherwise ("": in none)."""
    place = program.namespace if namespace is None else namespace
    metadata: Object = {"name": name, "labels": program_labels(program.name, program.namespace)}
    if place:
        metadata["namespace"] = place
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata}
