# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs on plain JSON objects, and errors that say what was attempted, on which object, and what to do."""

from __future__ import annotations

import copy
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .._motor.errors import MotorError
from .._motor.kinds import KINDS
from .retry import TRANSIENT, Attempts

PAGE = 500
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
PROXY_SECONDS = 10.0

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

_REMEDIES = {
    401: "Check the credentials (kubeconfig, K8S_AUTH_* variables): the server does not know this user.",
    403: "Give this user the right named above (docs/rbac.md lists the rights each verb needs).",
    409: "Somebody else changed the object at the same time; run the task again.",
    422: "The server refuses the content of the object; correct what it names and run the task again.",
    429: "The server is overloaded; run the task again later.",
}
_UNREACHABLE = "Check the address in the kubeconfig, the network and whether the API server runs."
_TLS = "The certificate of the server is not signed by the CA of the kubeconfig (or not for this address): check certificate-authority and ca_cert."


@dataclass(frozen=True)
class Form:
    """What is asked for (Accept), and how the answer is read. ValueError is for what is no such answer."""

    accept: str
    read: Callable[[bytes], dict[str, Any]]


PLAIN = Form(JSON, json.loads)


class ApiError(MotorError):
    """A request that failed. `status` is the HTTP status, or None when no answer came; `retry_after` (seconds) what the server asked for."""

    retry_after: float | None = None

    def __init__(self, attempted: str, said: str, *, reason: str, status: int | None, remedy: str = "") -> None:
        answer = f"the server answered {status} {reason}: {said}" if status else f"no answer: {said}"
        super().__init__(f"Cannot {attempted}: {answer}".rstrip(".") + f". {remedy}".rstrip(), reason=reason, status=status)
        self.status = status


class KindMissing(ApiError):
    """The server does not know this kind of object: its CRD is not installed."""


class Conflict(ApiError):
    """A conditional write met another state than the one it was made for: observe and plan again.

    `uncertain`: an earlier attempt got no answer, so it may have been this very write that changed the state.
    """

    uncertain = False


class Transport(Protocol):
    """How a request is sent; raises TransportError when no answer came."""

    def __call__(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Any,
        content_type: str,
        timeout: tuple[float, float],
        stream: bool = False,
        fence: Callable[[], None] | None = None,
        accept: str = JSON,
    ) -> Response: ...


@dataclass(frozen=True)
class Response:
    """Status and body of an answer; `stream` yields the lines of a watch. `retry_after` (seconds) is what the server asked for."""

    status: int
    body: bytes
    stream: Iterator[bytes] | None = None
    retry_after: float | None = None


class TransportError(Exception):
    """No answer: refused, timed out, reset, or a TLS failure (`tls`)."""

    def __init__(self, message: str, *, tls: bool = False) -> None:
        super().__init__(message)
        self.tls = tls


@dataclass(frozen=True)
class ObjectList:
    """All objects of a list, and the resourceVersion a watch may start from."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


class _Counter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self) -> None:
        with self._lock:
            self.value += 1


class _Groups:
    """API groups of a server, read by whoever asks first; the others wait for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: frozenset[str] | None = None

    def get(self, read: Callable[[], frozenset[str]]) -> frozenset[str]:
        with self._lock:
            if self._found is None:
                self._found = read()
            return self._found


class Api:
    """Kubernetes verbs on plain dicts. Thread-safe.

    Every write is conditional (a name that must be free, a resourceVersion, a uid, a JSON patch with tests), so that a request
    which failed for a passing reason, or got no answer, is simply sent again: done twice it is refused, which is a Conflict.
    """

    def __init__(self, send: Transport) -> None:
        self._send = send
        self._sent = _Counter()
        self._fence: Callable[[], None] | None = None
        self._pause: Callable[[float], None] | None = time.sleep
        self._patience = READ_SECONDS
        self._groups = _Groups()
        self._answered = threading.Event()

    @property
    def groups(self) -> frozenset[str]:
        """The names of the API groups that the server has, for which it is asked once."""
        return self._groups.get(self._read_groups)

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._sent.value

    def fenced(self, check: Callable[[], None]) -> Api:
        """The same verbs; each write is preceded by `check`, which raises to stop it."""
        api = copy.copy(self)
        api._fence = check
        return api

    def pausing(self, pause: Callable[[float], None] | None) -> Api:
        """The same verbs with another way to pause between attempts; None: each request is sent once."""
        api = copy.copy(self)
        api._pause = pause
        return api

    def within(self, seconds: float) -> Api:
        """The same verbs; an answer that does not come within so many seconds will not come."""
        api = copy.copy(self)
        api._patience = seconds
        return api

    def anew(self) -> Api:
        """The same verbs for who runs for long: API groups that came meanwhile are known, too."""
        api = copy.copy(self)
        api._groups = _Groups()
        return api

    def discovered(self) -> Api:
        """The same, after the server has told which API groups it has."""
        self._groups.get(self._read_groups)
        return self

    def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any] | None:
        """The object, or None when the server said 404 for this very object."""
        path = KINDS[kind].path(namespace, name)
        attempted = f"read {_label(kind, namespace, name)}"
        try:
            return self._json("GET", path, attempted, kind)
        except KindMissing:
            raise
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list_objects(self, kind: str, namespace: str | None, label_selector: str = "", *, field_selector: str = "") -> ObjectList:
        """Every object of the kind, read in pages of 500."""
        items: list[dict[str, Any]] = []
        version = ""
        for page in self.pages(kind, namespace, label_selector, field_selector=field_selector):
            items.extend(page.items)
            version = page.resource_version
        return ObjectList(tuple(items), version)

    def pages(
        self, kind: str, namespace: str | None, label_selector: str = "", *, field_selector: str = "", form: Form = PLAIN
    ) -> Iterator[ObjectList]:
        """The same page by page: the next one is asked for when the last one is done with. All are of one moment."""
        path = KINDS[kind].path(namespace)
        selectors = [(name, text) for name, text in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if text]
        token = ""
        while True:
            query = [("limit", str(PAGE)), *selectors, *([("continue", token)] if token else [])]
            page = self._json("GET", path, f"list {kind}s in {_scope(namespace)}", kind, query=query, form=form)
            # Items of a list say neither what they are nor in which version.
            items = tuple({**item, "kind": kind, "apiVersion": KINDS[kind].api_version} for item in page.get("items") or ())
            token = page["metadata"].get("continue") or ""
            version = page["metadata"].get("resourceVersion", "")
            del page  # whoever cuts objects must not have to hold two pages of whole ones
            yield ObjectList(items, version)
            del items
            if not token:
                return

    def list_if_known(self, kind: str, namespace: str | None) -> ObjectList:
        """As `list_objects`, but empty when the server does not know the kind at all."""
        try:
            return self.list_objects(kind, namespace)
        except KindMissing:
            return ObjectList((), "")

    def schemas(self, api_version: str) -> dict[str, Any] | None:
        """The OpenAPI document of a group and version, which everybody may read; None when the server does not serve it."""
        try:
            return self._json("GET", f"/openapi/v3/apis/{api_version}", f"read the schemas of {api_version}", "InferServiceSet")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and return it as the server stored it."""
        kind, namespace, name = _identity(obj)
        return self._json("POST", KINDS[kind].path(namespace), f"create {_label(kind, namespace, name)}", kind, body=obj)

    def replace(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object; with its resourceVersion this is a compare-and-swap."""
        kind, namespace, name = _identity(obj)
        return self._json("PUT", KINDS[kind].path(namespace, name), f"update {_label(kind, namespace, name)}", kind, body=obj)

    def patch(self, kind: str, namespace: str | None, name: str, patch: Any, content_type: str = JSON_PATCH) -> dict[str, Any]:
        """Patch an object (JSON patch unless told otherwise)."""
        attempted = f"patch {_label(kind, namespace, name)}"
        return self._json("PATCH", KINDS[kind].path(namespace, name), attempted, kind, body=patch, content_type=content_type)

    def delete(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        *,
        preconditions: Mapping[str, str] | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object; False when it was gone already. `preconditions` holds uid and/or resourceVersion.

        `grace_seconds` 0 removes a pod without waiting for its server.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if preconditions:
            body["preconditions"] = dict(preconditions)
        try:
            self._json("DELETE", KINDS[kind].path(namespace, name), f"delete {_label(kind, namespace, name)}", kind, body=body)
        except ApiError as error:
            if error.status == 404 and not isinstance(error, KindMissing):
                return False
            raise
        return True

    def open_watch(
        self, kind: str, namespace: str | None, resource_version: str, seconds: float, silence: float, *, field_selector: str = ""
    ) -> Iterator[bytes]:
        """Open a watch for at most `seconds`; returns its lines. Reading them raises TransportError after `silence` seconds without a word."""
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", resource_version)]
        if field_selector:
            query.append(("fieldSelector", field_selector))
        query.append(("timeoutSeconds", str(max(1, math.ceil(seconds)))))
        attempted = f"watch {kind}s in {_scope(namespace)}"
        path = KINDS[kind].path(namespace)
        response = self._exchange("GET", path, query, None, JSON, attempted, stream=True, silence=silence)
        if response.status >= 300:
            raise _error(attempted, kind, response)
        return response.stream or iter(())

    def through_service(self, namespace: str, service: str, path: str, query: list[tuple[str, str]]) -> Response:
        """What a Service answers to one GET through the API server; `service` is `SCHEME:NAME:PORT`, with an empty port for the only one.

        Sent once. Raises ApiError when no answer came, when the user lacks the right, and (status 404) when there is no such Service.
        """
        attempted = f"read {path} of Service {namespace}/{service.split(':')[1]}"
        url = f"{KINDS['Service'].path(namespace, service)}/proxy/{path}"
        response = self._exchange("GET", url, query, None, "text/plain", attempted, silence=PROXY_SECONDS)
        if response.status in (401, 403, 404) and _status_of(response.body).get("kind") == "Status":
            raise _error(attempted, "Service", response)
        return response

    def pass_on(self, method: str, namespace: str, service: str, path: str, body: Any, seconds: float) -> Response:
        """One request to a Service (as in `through_service`), with a JSON body if any, whatever the status of its answer.

        Sent once. Raises ApiError when no answer came within so many seconds, and when the user lacks the right.
        """
        url = f"{KINDS['Service'].path(namespace, service)}/proxy{path}"
        attempted = f"send {path} to Service {namespace}/{service.split(':')[1]}"
        response = self._exchange(method, url, [], body, "application/json", attempted, silence=seconds)
        if response.status in (401, 403) and _status_of(response.body).get("kind") == "Status":
            raise _error(attempted, "Service", response)
        return response

    def ask(self, path: str, query: list[tuple[str, str]], attempted: str) -> Response:
        """The answer to one GET of any path, whatever its status. Sent once; ApiError when no answer came."""
        return self._exchange("GET", path, query, None, "application/json", attempted, silence=PROXY_SECONDS)

    def _read_groups(self) -> frozenset[str]:
        answer = self._json("GET", "/apis", "read the API groups of the server", "Namespace")
        return frozenset(group["name"] for group in answer.get("groups") or ())

    def _json(
        self,
        method: str,
        path: str,
        attempted: str,
        kind: str,
        *,
        query: list[tuple[str, str]] | None = None,
        body: Any = None,
        content_type: str = JSON,
        form: Form = PLAIN,
    ) -> dict[str, Any]:
        response, attempts, uncertain = self._persist(method, path, query or [], body, content_type, attempted, form.accept)
        if response.status >= 300:
            raise _error(attempted, kind, response, write=method, uncertain=uncertain, tried=attempts.said())
        return form.read(response.body)

    def _persist(
        self, method: str, path: str, query: list[tuple[str, str]], body: Any, content_type: str, attempted: str, accept: str
    ) -> tuple[Response, Attempts, bool]:
        """Send until there is an answer that lasts. Also tells whether an earlier attempt may have been carried out."""
        attempts, uncertain = Attempts(), False
        while True:
            try:
                response = self._exchange(method, path, query, body, content_type, attempted, tried=attempts, accept=accept)
                if response.status not in TRANSIENT:
                    return response, attempts, uncertain
                pause = attempts.pause(response.retry_after) if self._pause else None
                if pause is None:
                    return response, attempts, uncertain
                uncertain = uncertain or response.status != 429
            except ApiError as error:
                stranger = not self._answered.is_set()
                pause = attempts.pause(stranger=stranger) if self._pause and error.reason == "Unreachable" else None
                if pause is None:
                    raise
                uncertain = True
            if self._pause:
                self._pause(pause)

    def _exchange(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Any,
        content_type: str,
        attempted: str,
        stream: bool = False,
        tried: Attempts | None = None,
        silence: float | None = None,
        accept: str = JSON,
    ) -> Response:
        fence = None if method == "GET" else self._fence
        if fence:
            fence()
        self._sent.add()
        patience = silence or self._patience
        try:
            times = (min(CONNECT_SECONDS, patience), patience)
            response = self._send(method, path, query, body, content_type, times, stream, fence, accept)
        except TransportError as error:
            reason, remedy = ("CertificateInvalid", _TLS) if error.tls else ("Unreachable", _UNREACHABLE)
            said = f"{error}{tried.said() if tried else ''}"
            raise ApiError(attempted, said, reason=reason, status=None, remedy=remedy) from error
        self._answered.set()
        return response


def _identity(obj: Mapping[str, Any]) -> tuple[str, str | None, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace"), metadata["name"]


def _scope(namespace: str | None) -> str:
    return namespace or "the cluster"


def _label(kind: str, namespace: str | None, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace and KINDS[kind].namespaced else f"{kind} {name}"


def _error(attempted: str, kind: str, response: Response, *, write: str = "GET", uncertain: bool = False, tried: str = "") -> ApiError:
    """Turn a Status answer into an error; a 404 without an object's name means that the kind is unknown."""
    status = _status_of(response.body)
    said = str(status.get("message") or response.body[:300].decode("utf-8", "replace")) + tried
    reason = str(status.get("reason") or f"HTTP{response.status}")
    if response.status == 404 and not (status.get("details") or {}).get("name"):
        remedy = f"The cluster does not know the kind {kind} ({KINDS[kind].api_version}): install its CRD and operator first."
        return KindMissing(attempted, said, reason="KindMissing", status=404, remedy=remedy)
    remedy = "" if _is_terminating(status) else _REMEDIES.get(response.status, "")
    if _is_conflict(write, response.status):
        conflict = Conflict(attempted, said, reason=reason, status=response.status, remedy=remedy)
        conflict.uncertain = uncertain
        return conflict
    error = ApiError(attempted, said, reason=reason, status=response.status, remedy=remedy)
    error.retry_after = response.retry_after
    return error


def _is_conflict(write: str, status: int) -> bool:
    """What a condition of a write does when it is not met: 409; 404 for an object that is gone; 422 for a test of a JSON patch,
    which the server does not tell from a patch whose result is invalid.
    """
    return write != "GET" and (status == 409 or (status == 404 and write in ("PUT", "PATCH")) or (status == 422 and write == "PATCH"))


def _is_terminating(status: Mapping[str, Any]) -> bool:
    """Whether a namespace takes nothing new because it is being deleted, which is said with 403, too."""
    causes = (status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _status_of(body: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
