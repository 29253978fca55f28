# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts a service under load, and reports how it was scaled meanwhile."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ._cluster.api import Api
from ._cluster.load_run import Direct, Done, Limits, NoAnswer, Send, Senders, ThroughProxy, run
from ._cluster.signals import Interrupted, Signals
from ._entry_observe import Observer
from ._motor.coordinator import INFERENCE_PORT, scheme, service_name, set_service_name
from ._motor.errors import InputError, MotorError
from ._motor.instances import ENGINE_ROLES, INFER_SERVICE_SET_NAME
from ._motor.load_report import Seen, table
from ._motor.node_port import address_of, node_port_of
from ._motor.state import INFER_LABEL, Snapshot, infer_roles, service_state
from ._motor.stored import readable_config

PROXY, NODE_PORT = "proxy", "node_port"
SPEC: dict[str, Any] = {
    "namespace": {"type": "str", "required": True},
    "requests": {"type": "int", "default": 100},
    "concurrency": {"type": "int", "default": 8},
    "via": {"type": "str", "choices": [PROXY, NODE_PORT], "default": PROXY},
    "url": {"type": "str"},
    "path": {"type": "str", "default": "/v1/chat/completions"},
    "model": {"type": "str"},
    "body": {"type": "dict"},
    "service_api_key": {"type": "str", "no_log": True},
    "api_key_header": {"type": "str", "default": "Authorization", "no_log": False},
    "verify": {"type": "bool", "default": True},
    "ca": {"type": "str"},
    "timeout": {"type": "int", "default": 300},
    "watch_timeout": {"type": "int", "default": 1200},
    "grace": {"type": "int", "default": 60},
}
_BOUNDS = {"requests": (1, 1_000_000), "concurrency": (1, 1000), "timeout": (1, 3600), "watch_timeout": (1, 86_400), "grace": (0, 3600)}
_PROMPT = "Say something about the sea."
_AUTHORIZATION = "authorization"


def put_under_load(module: Any) -> dict[str, Any]:
    """Send and watch (or in check mode only say what would be sent) and return the module's result."""
    params = module.params
    _require_sound(params)
    signals = Signals()
    with signals.handled():
        service = Observer(module, params["namespace"])
        snapshot = service.observe()
        send, where = _sender(service.api, snapshot, params)
        load: dict[str, Any] = {"to": where, "requests": params["requests"], "concurrency": params["concurrency"]}
        if module.check_mode:
            return {"changed": True, "load": {**load, "sent": 0}, "requests": service.api.requests}
        body = _body(send, snapshot, params)
        limits = Limits(params["requests"], params["concurrency"], float(params["watch_timeout"]), float(params["grace"]))
        done = run(Senders(send, params["path"], body, limits), _look(service, snapshot), limits, signals)
    load = _told(load, done)
    if done.interrupted:
        raise Interrupted(
            f"interrupted by {done.interrupted} after {load['sent']} of {params['requests']} requests; nothing is sent any more",
            reason="Interrupted",
            signal=done.interrupted,
            load=load,
        )
    return {"changed": True, "load": load, "requests": service.api.requests}


def _told(load: Mapping[str, Any], done: Done) -> dict[str, Any]:
    told = {
        **load,
        **done.tally.to_dict(done.sending),
        "scaling": done.courses.to_list(),
        "timeline": list(done.courses.timeline),
        "watched": round(done.watched, 1),
        "settled": done.settled,
    }
    return {**told, "table": table(told)}


def _require_sound(params: Mapping[str, Any]) -> None:
    for option, (least, most) in _BOUNDS.items():
        if not least <= params[option] <= most:
            raise InputError.at(f"{params[option]} is not within {least} and {most}", source=option)
    if not params["path"].startswith("/"):
        raise InputError.at("a path begins with /", source="path")
    by_proxy = not params["url"] and params["via"] == PROXY
    if by_proxy and params["service_api_key"]:
        wrong = "the API server does not pass API keys on: send to the service itself, with via=node_port or url"
        raise InputError.at(wrong, source="service_api_key")
    if params["url"]:
        parts = urlsplit(params["url"])
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username is not None:
            raise InputError.at("write http:// or https:// with host and port, such as http://10.0.0.7:31015", source="url")


def _sender(api: Api, snapshot: Snapshot, params: Mapping[str, Any]) -> tuple[Send, str]:
    """What sends, and where to in words."""
    config = readable_config(snapshot.config_map)
    spoken = scheme(config.data if config else {}, INFERENCE_PORT)
    if snapshot.backend == "infer_service_set":
        name = set_service_name(INFERENCE_PORT, infer_roles(snapshot), f"{INFER_SERVICE_SET_NAME}-0")
    else:
        name = service_name(INFERENCE_PORT)
    if not params["url"] and params["via"] == PROXY:
        service = f"{spoken}:{name}:{INFERENCE_PORT}"
        return ThroughProxy(
            api, snapshot.namespace, service, float(params["timeout"])
        ), f"Service {snapshot.namespace}/{name} by the API server"
    base = params["url"] or _node_address(api, snapshot.namespace, name, spoken)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if params["service_api_key"]:
        bearer = "Bearer " if params["api_key_header"].lower() == _AUTHORIZATION else ""
        headers[params["api_key_header"]] = f"{bearer}{params['service_api_key']}"
    return Direct(base, headers, _context(base, params), float(params["timeout"])), base


def _node_address(api: Api, namespace: str, name: str, spoken: str) -> str:
    found = api.get("Service", namespace, name)
    port = node_port_of(found, INFERENCE_PORT)
    address = address_of(api.list_objects("Node", None).items) if port else ""
    if not port or not address:
        lacking = f"Service {namespace}/{name} has no node port" if not port else "no server is ready"
        raise MotorError(f"Cannot send to {namespace}: {lacking}. Give url, or via=proxy.", reason="NoAddress")
    return f"{spoken}://{f'[{address}]' if ':' in address else address}:{port}"


def _context(base: str, params: Mapping[str, Any]) -> ssl.SSLContext | None:
    if not base.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cadata=params["ca"] or None)
    except (ssl.SSLError, ValueError) as error:
        raise InputError.at(f"these are no certificates as PEM text ({error})", source="ca") from error
    if not params["verify"]:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _body(send: Send, snapshot: Snapshot, params: Mapping[str, Any]) -> dict[str, Any]:
    """What each request says. A body that was given needs no model of ours when it has one."""
    given = dict(params["body"] or {})
    model = given.get("model") or params["model"] or _served(send) or _configured(snapshot)
    if not model:
        raise MotorError("Nothing says what the model is called: give model.", reason="NoModel")
    if given:
        return {**given, "model": model}
    asks: dict[str, Any] = {"messages": [{"role": "user", "content": _PROMPT}]}
    if params["path"].endswith("/v1/completions"):
        asks = {"prompt": _PROMPT}
    return {"model": model, "max_tokens": 16, "stream": False, **asks}


def _served(send: Send) -> str:
    """The model that the service says it has; a hybrid service says nothing."""
    try:
        status, body = send("GET", "/v1/models", None)
        data = json.loads(body)["data"] if status == 200 else []
    except (NoAnswer, ValueError, KeyError, TypeError):
        return ""
    return next((str(row["id"]) for row in data if isinstance(row, dict) and row.get("id")), "")


def _configured(snapshot: Snapshot) -> str:
    """The model of the user config."""
    config = readable_config(snapshot.config_map)
    sections = [section for key, section in (config.data if config else {}).items() if key.startswith("motor_engine_")]
    names = (section.get("model_config", {}).get("model_name") for section in sections if isinstance(section, dict))
    return next((str(name) for name in names if name), "")


def _look(service: Observer, snapshot: Snapshot) -> Any:
    """How the instances of each engine role are looked at: of a set by its InstanceSets, in one request."""
    if snapshot.backend != "infer_service_set":
        return lambda: _states(service.observe())
    return lambda: _sets(service.api, service.namespace)


def _sets(api: Api, namespace: str) -> dict[str, Seen]:
    found = {}
    for item in api.list_objects("InstanceSet", namespace).items:
        role = (item["metadata"].get("labels") or {}).get(f"{INFER_LABEL}instanceset-name")
        if role in ENGINE_ROLES:
            ready = int((item.get("status") or {}).get("readyReplicas") or 0)
            found[role] = Seen(int(item["spec"].get("replicas") or 0), ready)
    return found


def _states(snapshot: Snapshot) -> dict[str, Seen]:
    state = service_state(snapshot)
    roles = {role: state.live(role) for role in ENGINE_ROLES}
    return {role: Seen(len(found), sum(item.state == "running" for item in found)) for role, found in roles.items() if found}
