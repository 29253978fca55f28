# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kubelet makes of a pod's spec: environment, command line, files. Plain data in, plain data out."""

from __future__ import annotations

import base64
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping

from .kube_client import Obj

REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
ALLOCATABLE = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
"""What a resource field says when the container has no limit."""

Fetch = Callable[[str, str], Obj | None]
"""``fetch("ConfigMap" or "Secret", name)`` within the pod's namespace."""
Token = Callable[[Obj], str]
"""Gives a token for the serviceAccountToken source of a projected volume."""


class PodSpecError(Exception):
    """The spec asks for something that does not exist or that a local process cannot have."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace $(NAME) as a kubelet does: unknown names stay as they are, $$ is a single dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return known.get(match.group(1), match.group(0))

    return REFERENCE.sub(value, text)


def field(pod: Obj, path: str, address: str) -> str:
    """A field of the downward API. The pod's address is the loopback address that it really has."""
    found = SUBSCRIPT.fullmatch(path)
    if found:
        return str(pod["metadata"].get(found.group(1), {}).get(found.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        rows: Mapping[str, str] = pod["metadata"].get(path.partition(".")[2], {})
        return "\n".join(f'{key}="{value}"' for key, value in sorted(rows.items()))
    values = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.hostIP": pod.get("status", {}).get("hostIP", ""),
        "status.hostIPs": pod.get("status", {}).get("hostIP", ""),
        "status.podIP": address,
        "status.podIPs": address,
    }
    if path not in values:
        raise PodSpecError(f"no field {path} in the downward API")
    return str(values[path])


def resource_field(container: Obj, source: Obj) -> str:
    """limits.cpu and the like, divided by the divisor and rounded up."""
    group, dummy, name = source["resource"].partition(".")
    resources = container.get("resources", {})
    quantity = resources.get(group, {}).get(name) or resources.get("limits", {}).get(name) or ALLOCATABLE[name]
    divisor = source.get("divisor") or "1"
    return str(math.ceil(amount(str(quantity)) / amount("1" if divisor == "0" else str(divisor))))


def amount(quantity: str) -> float:
    """A Kubernetes quantity as a number."""
    units = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    found = re.fullmatch(r"([0-9.]+)(\D*)", quantity)
    if not found or found.group(2) not in units:
        raise PodSpecError(f"cannot read the quantity {quantity}")
    return float(found.group(1)) * units[found.group(2)]


def _text_data(obj: Obj) -> dict[str, bytes]:
    """The keys of a ConfigMap or Secret, decoded."""
    if obj["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    data = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    data.update({key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()})
    return data


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads what the spec of one pod refers to. ``address``: the pod's loopback address."""

    pod: Obj
    address: str
    fetch: Fetch
    token: Token

    def _keys(self, kind: str, name: str, optional: bool) -> dict[str, bytes]:
        obj = self.fetch(kind, name)
        if obj is None:
            if optional:
                return {}
            raise PodSpecError(f"{kind} {name} not found")
        return _text_data({"kind": kind, **obj})

    def _env_value(self, container: Obj, source: Obj) -> str | None:
        if "fieldRef" in source:
            return field(self.pod, source["fieldRef"]["fieldPath"], self.address)
        if "resourceFieldRef" in source:
            return resource_field(container, source["resourceFieldRef"])
        for word, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if word in source:
                ref = source[word]
                keys = self._keys(kind, ref["name"], ref.get("optional", False))
                if ref["key"] in keys:
                    return keys[ref["key"]].decode()
                if ref.get("optional", False):
                    return None
                raise PodSpecError(f"{kind} {ref['name']} has no key {ref['key']}")
        raise PodSpecError(f"unknown source of a variable: {sorted(source)}")

    def environment(self, container: Obj) -> dict[str, str]:
        """envFrom, then env in its order; later ones win and may refer to earlier ones."""
        known: dict[str, str] = {}
        for source in container.get("envFrom", []):
            for word, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if word in source:
                    ref = source[word]
                    keys = self._keys(kind, ref["name"], ref.get("optional", False))
                    prefix = source.get("prefix", "")
                    known.update({prefix + key: value.decode() for key, value in keys.items()})
        for row in container.get("env", []):
            if "valueFrom" in row:
                value = self._env_value(container, row["valueFrom"])
                if value is not None:
                    known[row["name"]] = value
            else:
                known[row["name"]] = expand(row.get("value", ""), known)
        return known

    def files(self, volume: Obj) -> dict[str, tuple[bytes, int]] | None:
        """Relative path -> content and mode of a volume made of files; None for a volume that is a directory."""
        for word, kind, name in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
            if word in volume:
                source = volume[word]
                keys = self._keys(kind, source[name], source.get("optional", False))
                return self._items(keys, source, source.get("defaultMode", 0o644), f"{kind} {source[name]}")
        if "downwardAPI" in volume:
            return self._downward(volume["downwardAPI"], volume["downwardAPI"].get("defaultMode", 0o644))
        if "projected" in volume:
            return self._projected(volume["projected"])
        return None

    @staticmethod
    def _items(keys: Mapping[str, bytes], source: Obj, mode: int, what: str) -> dict[str, tuple[bytes, int]]:
        if "items" not in source:
            return {key: (value, mode) for key, value in keys.items()}
        files = {}
        for item in source["items"]:
            if item["key"] in keys:
                files[item["path"]] = keys[item["key"]], item.get("mode", mode)
            elif not source.get("optional", False):
                raise PodSpecError(f"{what} has no key {item['key']}")
        return files

    def _downward(self, source: Obj, mode: int) -> dict[str, tuple[bytes, int]]:
        containers = {row["name"]: row for row in self.pod["spec"]["containers"]}
        files = {}
        for item in source.get("items", []):
            if "fieldRef" in item:
                text = field(self.pod, item["fieldRef"]["fieldPath"], self.address)
            else:
                reference = item["resourceFieldRef"]
                text = resource_field(containers[reference["containerName"]], reference)
            files[item["path"]] = text.encode(), item.get("mode", mode)
        return files

    def _projected(self, volume: Obj) -> dict[str, tuple[bytes, int]]:
        mode = volume.get("defaultMode", 0o644)
        files: dict[str, tuple[bytes, int]] = {}
        for source in volume.get("sources", []):
            if "serviceAccountToken" in source:
                token = source["serviceAccountToken"]
                files[token["path"]] = self.token(token).encode(), 0o600
            elif "downwardAPI" in source:
                files.update(self._downward(source["downwardAPI"], mode))
            for word, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                if word in source:
                    part = source[word]
                    keys = self._keys(kind, part["name"], part.get("optional", False))
                    files.update(self._items(keys, part, mode, f"{kind} {part['name']}"))
        return files


def command_line(container: Obj, environment: Mapping[str, str]) -> list[str]:
    """command and args with variables replaced. The entry point of an image is not known here."""
    words: Iterable[str] = [*container.get("command", []), *container.get("args", [])]
    if not container.get("command"):
        raise PodSpecError(f"container {container['name']} has no command; what its image starts is not known")
    return [expand(word, environment) for word in words]
