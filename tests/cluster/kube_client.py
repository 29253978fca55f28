# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client for the programs of the test cluster: JSON verbs, list and watch.

Only what the stand-ins need, on urllib3 alone, so that a program starts in a tenth of a second. The collection has a
client of its own in ``plugins/module_utils/_cluster``; tests that use this one cannot be fooled by a bug in that one.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
import yaml

LOG = logging.getLogger(__name__)

Obj = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class KubeError(Exception):
    """The server refused a request. ``status`` is the HTTP status, ``reason`` the server's CamelCase word."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        if not isinstance(answer, dict):
            answer = {}
        self.status = status
        self.reason = str(answer.get("reason", ""))
        self.message = str(answer.get("message", body.strip()))
        super().__init__(f"{method} {path}: {status} {self.message}")


class Resource:
    """Where one kind lives in the API: ``Resource("apps/v1", "Deployment", "deployments")``."""

    def __init__(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> None:
        self.api_version = api_version
        self.kind = kind
        self.plural = plural
        self.namespaced = namespaced

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of the whole kind when ``name`` is empty."""
        prefix = "/apis/" if "/" in self.api_version else "/api/"
        parts = [prefix + self.api_version]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


PODS = Resource("v1", "Pod", "pods")
SERVICES = Resource("v1", "Service", "services")
NODES = Resource("v1", "Node", "nodes", namespaced=False)
EVENTS = Resource("v1", "Event", "events")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
SECRETS = Resource("v1", "Secret", "secrets")
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")
STATEFUL_SETS = Resource("apps/v1", "StatefulSet", "statefulsets")


class KubeClient:
    """JSON verbs on one cluster. Safe for use by several threads."""

    def __init__(self, url: str, ca_data: str, token: str) -> None:
        self.url = url.rstrip("/")
        self.ca_data = ca_data
        self.token = token
        self._pool = urllib3.PoolManager(
            num_pools=2, maxsize=24, block=False, retries=False, ca_cert_data=ca_data, cert_reqs="CERT_REQUIRED"
        )

    @classmethod
    def from_kubeconfig(cls, path: str | Path) -> KubeClient:
        """Read the current context of a kubeconfig whose user has a token."""
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))

        def named(kind: str, name: str) -> Obj:
            found: Obj = next(row for row in config[kind + "s"] if row["name"] == name)[kind]
            return found

        context = named("context", config["current-context"])
        cluster = named("cluster", context["cluster"])
        user = named("user", context["user"])
        if "certificate-authority-data" in cluster:
            ca_data = base64.b64decode(cluster["certificate-authority-data"]).decode()
        else:
            ca_data = Path(cluster["certificate-authority"]).read_text(encoding="utf-8")
        return cls(cluster["server"], ca_data, user["token"])

    def _send(self, method: str, path: str, body: Any, content_type: str, **options: Any) -> urllib3.BaseHTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        answer = self._pool.request(method, self.url + path, body=data, headers=headers, **options)
        if answer.status >= 400:
            text = answer.read() if options.get("preload_content") is False else answer.data
            raise KubeError(method, path, answer.status, (text or b"").decode(errors="replace"))
        return answer

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Obj:
        """Send one request and decode the answer. Raises KubeError for status 400 and above."""
        answer = self._send(method, path, body, content_type, timeout=30.0)
        decoded: Obj = json.loads(answer.data)
        return decoded

    def get(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        """The object, or None when the server says 404."""
        try:
            return self.request("GET", resource.path(namespace, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def list(self, resource: Resource, namespace: str = "", **query: str) -> Obj:
        """The list object; its items carry apiVersion and kind like single objects do."""
        suffix = "?" + urlencode(query) if query else ""
        answer = self.request("GET", resource.path(namespace) + suffix)
        for item in answer["items"]:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return answer

    def create(self, resource: Resource, obj: Obj) -> Obj:
        """POST an object whose metadata name the namespace, if any."""
        return self.request("POST", resource.path(obj["metadata"].get("namespace", "")), obj)

    def patch(self, resource: Resource, namespace: str, name: str, body: Any, *, subresource: str = "") -> Obj:
        """A merge patch for a mapping, a JSON patch for a list."""
        kind = JSON_PATCH if isinstance(body, list) else MERGE
        return self.request("PATCH", resource.path(namespace, name, subresource), body, kind)

    def delete(self, resource: Resource, namespace: str, name: str, **options: Any) -> bool:
        """DELETE with DeleteOptions, by default in the background. False when it was not there."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", **options}
        try:
            self.request("DELETE", resource.path(namespace, name), body)
        except KubeError as error:
            if error.status == 404:
                return False
            raise
        return True

    def open_watch(self, resource: Resource, namespace: str, version: str, **query: str) -> urllib3.BaseHTTPResponse:
        """Start a watch of five minutes. Its answer is for `read_watch`; `shutdown()` ends it from another thread."""
        query = {**query, "watch": "1", "resourceVersion": version, "timeoutSeconds": "300"}
        path = f"{resource.path(namespace)}?{urlencode(query)}"
        timeout = urllib3.Timeout(connect=5.0, read=330.0)
        return self._send("GET", path, None, "", preload_content=False, timeout=timeout)


def read_watch(answer: urllib3.BaseHTTPResponse) -> Iterator[Obj]:
    """Yield watch events until the server ends the stream or the connection breaks."""
    rest = b""
    try:
        for chunk in answer.stream(65536, decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)
    finally:
        answer.close()


def key_of(obj: Obj) -> Key:
    """Namespace and name of an object."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


Handler = Callable[[Obj | None, Obj | None], None]
"""Called with the object before and after; None before means new, None after means gone."""


class Informer(threading.Thread):
    """Keeps a copy of all objects of a kind by list and watch, and tells a handler about each change.

    Level-triggered: after a lost watch it lists again and reports the differences, so a handler misses no state.
    A kind that the server does not know yet is asked for again until it is there.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        handler: Handler | None = None,
        *,
        namespace: str = "",
        selector: str = "",
    ) -> None:
        super().__init__(name=f"informer-{resource.plural}", daemon=True)
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.query = {"labelSelector": selector} if selector else {}
        self.handler = handler
        self.synced = threading.Event()
        self._store: dict[Key, Obj] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._answer: urllib3.BaseHTTPResponse | None = None

    def get(self, namespace: str, name: str) -> Obj | None:
        """The known state of one object."""
        with self._lock:
            return self._store.get((namespace, name))

    def items(self) -> list[Obj]:
        """All known objects."""
        with self._lock:
            return list(self._store.values())

    def stop(self) -> None:
        """End the watch. No handler is called after the event in progress."""
        self._stopped.set()
        if self._answer is not None:
            # The thread may be ending the connection itself at this moment.
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                self._answer.shutdown()

    def run(self) -> None:
        """List and watch for ever; a broken connection is no reason to end."""
        while not self._stopped.is_set():
            try:
                self._follow(self._relist())
            except KubeError as error:
                if error.status not in (404, 410):
                    LOG.warning("watch of %s: %s", self.resource.plural, error)
                self._stopped.wait(0.5 if error.status == 404 else 0.1)
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                LOG.debug("watch of %s broke: %s", self.resource.plural, error)
                self._stopped.wait(0.2)

    def _relist(self) -> str:
        answer = self.client.list(self.resource, self.namespace, **self.query)
        fresh = {key_of(item): item for item in answer["items"]}
        for key in [key for key in self._store if key not in fresh]:
            self._change(key, None)
        for key, item in fresh.items():
            self._change(key, item)
        self.synced.set()
        return str(answer["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        while not self._stopped.is_set():
            self._answer = self.client.open_watch(self.resource, self.namespace, version, **self.query)
            for event in () if self._stopped.is_set() else read_watch(self._answer):
                obj = event["object"]
                if event["type"] == "ERROR":
                    raise KubeError("WATCH", self.resource.plural, int(obj.get("code", 500)), json.dumps(obj))
                version = obj["metadata"]["resourceVersion"]
                self._change(key_of(obj), None if event["type"] == "DELETED" else obj)

    def _change(self, key: Key, after: Obj | None) -> None:
        with self._lock:
            before = self._store.pop(key, None)
            if after is not None:
                self._store[key] = after
        if before is not None and after is not None and _version(before) == _version(after):
            return
        if self.handler is not None and not self._stopped.is_set():
            try:
                self.handler(before, after)
            except Exception:
                LOG.exception("handler of %s failed on %s", self.resource.plural, key)


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))


def wait_for(check: Callable[[], Any], timeout: float, what: str, interval: float = 0.05) -> Any:
    """Call ``check`` until it gives something true; return that. Raises TimeoutError naming ``what``."""
    deadline = time.monotonic() + timeout
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout} s: {what}")
        time.sleep(interval)
