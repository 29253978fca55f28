# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from kube-apiserver, and from programs, to pods that are processes on loopback.

``python -m tests.cluster.egress --kubeconfig FILE --socket PATH`` runs it. It listens twice:

* on a unix socket, as the HTTPConnect proxy of kube-apiserver's egress selector. Through it go service and pod proxies,
  aggregated APIs, admission webhooks and kubelet requests;
* with ``--port``, on 127.0.0.1, as HTTP proxy of programs (plain requests and CONNECT), which knows Service names too.
  A user name in the proxy's address is the namespace of the asking pod, for names without one.

A pod is reached when its annotation ``fake/address`` names a loopback address (same ports), or ``fake/forward`` single
ports: "8000=127.0.0.1:41234,1026=127.0.0.1:41235". Whatever is not known so is answered 502 and never dialled, so that
no packet leaves the machine. It may be started before the API server and be restarted at any time.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import binascii
import contextlib
import ipaddress
import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from .kube_client import PODS, SERVICES, Informer, KubeClient, Obj, Resource, key_of

LOG = logging.getLogger(__name__)

Address = tuple[str, int]
ADDRESS = "fake/address"
FORWARD = "fake/forward"
SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
SERVICE_LABEL = "kubernetes.io/service-name"
HOP_HEADERS = {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "upgrade"}
LONGEST_HEAD = 65536


class Unknown(Exception):
    """The target is none of ours; the text says why."""


def parse_address(text: str) -> Address:
    """ "127.0.0.1:80" as host and port. Raises ValueError."""
    host, dummy, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def loopback(host: str) -> bool:
    """Whether a text is an address within 127.0.0.0/8."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Targets:
    """Where pod addresses, Service names and Service addresses lead."""

    def __init__(self, pods: Informer, services: Informer, slices: Informer, fixed: dict[Address, Address]) -> None:
        self._pods = pods
        self._services = services
        self._slices = slices
        self._fixed = fixed
        self._turn = 0

    def resolve(self, host: str, port: int, namespace: str = "") -> tuple[Address, tuple[str, str] | None]:
        """The loopback address behind a target and the pod it belongs to. Raises Unknown."""
        if (host, port) in self._fixed:
            return self._fixed[host, port], None
        pod_address, pod_port = host, port
        service = self._service(host, namespace)
        if service is not None:
            pod_address, pod_port = self._endpoint(service, host, port)
        if loopback(pod_address):
            if self._listed(pod_address, pod_port):
                return (pod_address, pod_port), None
            raise Unknown(f"{pod_address}:{pod_port} is the address of no endpoint")
        for pod in self._pods.items():
            if pod.get("status", {}).get("podIP") == pod_address:
                found = forwarded(pod, pod_port)
                if found is not None:
                    return found, key_of(pod)
        raise Unknown(f"no live pod {pod_address} that listens on loopback")

    def _service(self, host: str, namespace: str) -> Obj | None:
        """The Service behind a name (NAME, NAME.NS, NAME.NS.svc, NAME.NS.svc.cluster.local) or a cluster address."""
        for service in self._services.items():
            if host in service["spec"].get("clusterIPs", ()):
                return service
        words = host.removesuffix(".").removesuffix(".cluster.local").removesuffix(".svc").split(".")
        if len(words) == 1:
            words.append(namespace)
        return self._services.get(words[-1], words[-2])

    def _endpoint(self, service: Obj, host: str, port: int) -> Address:
        namespace, name = key_of(service)
        headless = service["spec"].get("clusterIP") == "None"
        port_name = ""
        if not headless:
            ports = [row for row in service["spec"].get("ports", []) if row["port"] == port]
            if not ports:
                raise Unknown(f"Service {namespace}/{name} has no port {port}")
            port_name = ports[0].get("name", "")
        # NAME.SERVICE.NS names one pod of a StatefulSet.
        first, dummy, rest = host.partition(".")
        hostname = first if first != name and rest.startswith(f"{name}.") else ""
        found = list(self._endpoints(namespace, name, port_name, port if headless else None, hostname))
        if not found:
            raise Unknown(f"no ready endpoint of Service {namespace}/{name}")
        self._turn += 1
        return found[self._turn % len(found)]

    def _endpoints(self, namespace: str, name: str, port_name: str, port: int | None, hostname: str) -> Iterator[Address]:
        for part in self._slices.items():
            metadata = part["metadata"]
            if metadata["namespace"] != namespace or metadata.get("labels", {}).get(SERVICE_LABEL) != name:
                continue
            numbers = [row["port"] for row in part.get("ports") or () if row.get("name", "") == port_name]
            number = port if port is not None else next(iter(numbers), None)
            for endpoint in part.get("endpoints") or ():
                ready = endpoint.get("conditions", {}).get("ready", True)
                if number is not None and ready and hostname in ("", endpoint.get("hostname")):
                    yield endpoint["addresses"][0], number

    def _listed(self, host: str, port: int) -> bool:
        """An EndpointSlice of type FQDN may hold a loopback address (aggregated APIs on the host)."""
        return any(
            any(row.get("port") == port for row in part.get("ports") or ())
            and any(host in endpoint["addresses"] for endpoint in part.get("endpoints") or ())
            for part in self._slices.items()
        )


def forwarded(pod: Obj, port: int) -> Address | None:
    """Where a port of a pod is found on loopback, by the pod's annotations."""
    annotations = pod["metadata"].get("annotations", {})
    for pair in filter(None, annotations.get(FORWARD, "").split(",")):
        number, dummy, address = pair.partition("=")
        if number.strip() == str(port) and loopback(parse_address(address)[0]):
            return parse_address(address)
    host = annotations.get(ADDRESS, "")
    return (host, port) if loopback(host) else None


class Egress:
    """Both listeners. Connections to a pod are closed when it is gone, as its address may be another's soon."""

    def __init__(self, client: KubeClient, fixed: dict[Address, Address] | None = None) -> None:
        self._pods = Informer(client, PODS, self._pod_changed)
        self._services = Informer(client, SERVICES)
        self._slices = Informer(client, SLICES)
        self._targets = Targets(self._pods, self._services, self._slices, fixed or {})
        self._open: dict[tuple[str, str], set[asyncio.StreamWriter]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0

    async def run(self, socket_path: str, port: int | None, port_file: str | None, end: asyncio.Event) -> None:
        """Serve until ``end`` is set. A ``port`` of 0 takes a free one; ``port_file`` gets its number."""
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket_path)
        servers = [await asyncio.start_unix_server(self._serve, socket_path, limit=LONGEST_HEAD)]
        if port is not None:
            servers.append(await asyncio.start_server(self._serve, "127.0.0.1", port, limit=LONGEST_HEAD))
            self.port = servers[1].sockets[0].getsockname()[1]
            if port_file:
                Path(port_file + ".new").write_text(f"{self.port}\n", encoding="ascii")
                os.replace(port_file + ".new", port_file)
        for informer in (self._pods, self._services, self._slices):
            informer.start()
        await end.wait()
        for informer in (self._pods, self._services, self._slices):
            informer.stop()
        for server in servers:
            server.close()
        for writers in list(self._open.values()):
            for writer in writers:
                writer.close()

    def _pod_changed(self, before: Obj | None, after: Obj | None) -> None:
        if before is None or self._loop is None:
            return
        if after is None or before["metadata"]["uid"] != after["metadata"]["uid"]:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drop, key_of(before))

    def _drop(self, key: tuple[str, str]) -> None:
        for writer in self._open.pop(key, set()):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await self._forward(head.decode("latin-1"), reader, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        except Unknown as error:
            LOG.info("refused: %s", error)
            await _refuse(writer, str(error))
        except (OSError, ValueError) as error:
            LOG.info("failed: %s", error)
            await _refuse(writer, f"{type(error).__name__}: {error}")
        finally:
            writer.close()

    async def _forward(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *headers = head.split("\r\n")
        method, target, version = line.split(" ")
        if method == "CONNECT":
            host, port = parse_address(target)
        else:
            url = urlsplit(target)
            if url.scheme != "http" or not url.hostname:
                raise Unknown(f"{target} is no http URL")
            host, port = url.hostname, url.port or 80
        address, pod = self._targets.resolve(host, port, _user(headers))
        back, there = await asyncio.open_connection(*address)
        LOG.info("%s %s:%d is %s:%d", method, host, port, *address)
        writers = self._open.setdefault(pod, set()) if pod else set()
        writers.update({writer, there})
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                there.write(_origin_request(method, urlsplit(target), version, headers))
            sending = asyncio.create_task(_copy(reader, there))
            await _copy(back, writer)
            sending.cancel()
        finally:
            writers.difference_update({writer, there})
            there.close()


def _user(headers: list[str]) -> str:
    for header in headers:
        name, dummy, value = header.partition(":")
        if name.lower() == "proxy-authorization":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                return base64.b64decode(value.split()[-1]).decode().partition(":")[0]
    return ""


def _origin_request(method: str, url: object, version: str, headers: list[str]) -> bytes:
    """The request as the server itself wants it, on a connection for this one request."""
    path = getattr(url, "path", "") or "/"
    query = getattr(url, "query", "")
    kept = [row for row in headers if row and row.partition(":")[0].lower() not in HOP_HEADERS]
    lines = [f"{method} {path}{'?' + query if query else ''} {version}", *kept, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _refuse(writer: asyncio.StreamWriter, text: str) -> None:
    with contextlib.suppress(ConnectionError):
        text = text.replace("\r", " ").replace("\n", " ")
        head = f"HTTP/1.1 502 {text}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(head.encode("latin-1", "replace"))
        await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _mapping(text: str) -> tuple[Address, Address]:
    source, dummy, target = text.partition("=")
    return parse_address(source), parse_address(target)


async def _run(options: argparse.Namespace) -> None:
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    while not os.path.exists(options.kubeconfig):
        await asyncio.sleep(0.05)
    egress = Egress(KubeClient.from_kubeconfig(options.kubeconfig), dict(options.map))
    await egress.run(options.socket, options.port, options.port_file, end)


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="egress", description="Proxy from the API server and programs to pods.")
    parser.add_argument("--kubeconfig", required=True, help="may appear later")
    parser.add_argument("--socket", required=True, help="path of the unix socket, at most 107 bytes")
    parser.add_argument("--port", type=int, help="also serve as HTTP proxy on 127.0.0.1; 0 takes a free port")
    parser.add_argument("--port-file", help="write the number of that port to this file")
    parser.add_argument("--map", type=_mapping, action="append", default=[], metavar="HOST:PORT=127.0.0.1:PORT")
    parser.add_argument("--log", help="file for the log, instead of standard error")
    options = parser.parse_args()
    line = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
    logging.basicConfig(filename=options.log, level=logging.INFO, format=line, datefmt="%Y-%m-%dT%H:%M:%S")
    logging.Formatter.converter = time.gmtime
    asyncio.run(_run(options))


if __name__ == "__main__":
    main()
