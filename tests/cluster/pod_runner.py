# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the container of a live pod as a local process, exactly from its spec.

A program is so tested as it is installed: command, arguments, environment (downward API included), ConfigMap and Secret
files and the token of its service account come from the pod in the cluster, and nothing else does. The process sees a
root directory of its own with Python and ``kubernetes`` 26.1, but none of the machine's other Python packages.

Each pod gets an address in 127.0.0.0/8, which is what the downward API says as status.podIP. The annotation
``fake/address`` on the pod makes it known to the egress proxy. What is not copied from a kubelet: probes, hooks,
restarts, users, resource limits.
"""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from . import pod_launcher
from .egress import ADDRESS
from .kube_client import CONFIG_MAPS, PODS, SECRETS, Informer, KubeClient, Obj, Resource, key_of, wait_for
from .pod_spec import PodSpecError, Reader, command_line, expand

REQUIREMENT = "kubernetes==26.1.0"
PYTHONS = ("python3.11", sys.executable)
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
ROOT_CA = "kube-root-ca.crt"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/ssl", "/etc/pki", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/ca-certificates")
DEVICES = ("null", "zero", "full", "random", "urandom")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where containers see the virtual environment: not where the machine has it, which a volume of theirs (/tmp) may hide.
LIBRARY = "/opt/python"
DIRECTORIES = ("/tmp", "/root", "/run", "/var/tmp", "/etc", "/dev", "/dev/shm", "/proc")


class PodRunnerError(Exception):
    """A pod could not be started; the text says why."""


def loopback_address(uid: str) -> str:
    """An address of 127.0.0.0/8 that follows from a pod's uid, away from the ones that people use."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}"


def find_python() -> tuple[str, str]:
    """Path and version of Python 3.11 where the machine has one that runs, else of the one in use."""
    for name in PYTHONS:
        code = "import sys, venv, ensurepip; print(sys.executable); print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run([name, "-c", code], capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            continue
        path, version = done.stdout.split()
        return path, version
    raise PodRunnerError("no Python with venv and ensurepip")


def program_venv(cache: Path) -> Path:
    """The virtual environment of programs: Python and ``kubernetes``, built once below ``cache``."""
    python, version = find_python()
    place = cache / f"pod-venv-{version}-{hashlib.sha256((python + REQUIREMENT).encode()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "pod-venv.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([python, "-m", "venv", str(place)], check=True)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, REQUIREMENT], check=True)
            (place / "complete").touch()
    return place


@dataclasses.dataclass(frozen=True)
class Volume:
    """A directory for a volume, and whether it is made of files of the cluster (then it is mounted read-only)."""

    place: Path
    files: bool


@dataclasses.dataclass
class RunningPod:
    """The processes of one pod, by container."""

    namespace: str
    name: str
    uid: str
    address: str
    directory: Path
    processes: dict[str, subprocess.Popen[bytes]]
    grace: float

    def log(self, container: str = "") -> str:
        """What a container (the first one, if no name is given) has written so far."""
        name = container or next(iter(self.processes))
        return (self.directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        """Whether all containers run."""
        return all(process.poll() is None for process in self.processes.values())

    def wait_port(self, port: int, timeout: float = 15.0) -> None:
        """Wait until something accepts connections on a port of the pod. Raises PodRunnerError with the log."""

        def listens() -> bool:
            if not self.alive():
                raise PodRunnerError(f"pod {self.name} ended: {self.log()[-2000:]}")
            with socket.socket() as probe:
                return probe.connect_ex((self.address, port)) == 0

        try:
            wait_for(listens, timeout, f"pod {self.name} listens on {self.address}:{port}")
        except TimeoutError as error:
            raise PodRunnerError(f"{error}; log: {self.log()[-2000:]}") from error

    def stop(self, grace: float | None = None) -> None:
        """SIGTERM, then SIGKILL after the pod's grace period (or a shorter one)."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + (self.grace if grace is None else grace)
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class PodRunner:
    """Starts pods of one cluster.

    ``cache``: where the virtual environment of programs is kept; ``proxy``: HTTP proxy of the egress proxy
    (``127.0.0.1:PORT``); ``directory``: for files and logs, a temporary one by default; ``through``: a kubeconfig whose
    server and authority pods get to see in the place of the cluster's, such as that of a fault proxy. Use as a context manager.
    """

    def __init__(
        self, client: KubeClient, cache: Path, proxy: str = "", directory: Path | None = None, through: str | Path | None = None
    ) -> None:
        self._client = client
        self._venv = program_venv(cache)
        self._proxy = proxy
        self._temporary = None if directory else tempfile.mkdtemp(prefix="pods-")
        self._directory = directory or Path(self._temporary or "")
        self._followers: list[Informer] = []
        self._server, self._authority = client.url, ""
        if through:
            cluster = yaml.safe_load(Path(through).read_text(encoding="utf-8"))["clusters"][0]["cluster"]
            self._server = cluster["server"]
            self._authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.pods: dict[tuple[str, str], RunningPod] = {}

    def __enter__(self) -> PodRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, grace: float = 5.0) -> None:
        """Stop all pods and remove their files."""
        for informer in self._followers:
            informer.stop()
        for pod in list(self.pods.values()):
            pod.stop(grace)
        self.pods.clear()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def start(self, namespace: str, name: str, timeout: float = 20.0) -> RunningPod:
        """Start the containers of a pod as soon as it has an address in the cluster.

        Raises PodRunnerError when the pod does not get there, refers to what does not exist, or the machine forbids
        user namespaces.
        """

        def placed() -> Obj | None:
            pod = self._client.get(PODS, namespace, name)
            return pod if pod and pod.get("status", {}).get("podIP") else None

        try:
            pod = wait_for(placed, timeout, f"pod {namespace}/{name} has an address")
            return self._start(pod)
        except (TimeoutError, PodSpecError) as error:
            raise PodRunnerError(f"pod {namespace}/{name}: {error}") from error

    def follow(self, namespace: str, selector: str) -> None:
        """From now on start each pod that fits and stop it when it is deleted, as a kubelet does.

        For Deployments whose pods come and go. A pod that cannot be started is tried again when it changes.
        """

        def changed(before: Obj | None, after: Obj | None) -> None:
            seen = after or before or {}
            key = key_of(seen)
            running = self.pods.get(key)
            gone = after is None or "deletionTimestamp" in after["metadata"]
            if running and (gone or running.uid != seen["metadata"]["uid"]):
                threading.Thread(target=self.pods.pop(key).stop, name=f"stop-{key[1]}").start()
            elif not gone and not running and seen.get("status", {}).get("podIP"):
                self._start(seen)

        informer = Informer(self._client, PODS, changed, namespace=namespace, selector=selector)
        self._followers.append(informer)
        informer.start()

    def refresh(self, running: RunningPod) -> None:
        """Write the pod's files anew, as a kubelet does within a minute after a ConfigMap or Secret changed."""
        pod = self._client.get(PODS, running.namespace, running.name)
        if pod is None:
            raise PodRunnerError(f"pod {running.namespace}/{running.name} is gone")
        reader = self._reader(pod, running.address)
        for volume in pod["spec"].get("volumes", []):
            self._volume(reader, volume, running.directory)

    def _reader(self, pod: Obj, address: str) -> Reader:
        metadata = pod["metadata"]
        resources = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}

        def fetch(kind: str, name: str) -> Obj | None:
            if name == ROOT_CA and self._authority:
                return {"data": {"ca.crt": self._authority}}
            return self._client.get(resources[kind], metadata["namespace"], name)

        def token(source: Obj) -> str:
            bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            spec: Obj = {"boundObjectRef": bound, "expirationSeconds": source.get("expirationSeconds", 3600)}
            if "audience" in source:
                spec["audiences"] = [source["audience"]]
            account = pod["spec"].get("serviceAccountName", "default")
            path = SERVICE_ACCOUNTS.path(metadata["namespace"], account, "token")
            return str(self._client.request("POST", path, {"spec": spec})["status"]["token"])

        return Reader(pod, address, fetch, token)

    def _start(self, pod: Obj) -> RunningPod:
        metadata = pod["metadata"]
        address = loopback_address(metadata["uid"])
        directory = self._directory / metadata["uid"]
        directory.mkdir(parents=True, exist_ok=True)
        annotation = {"metadata": {"uid": metadata["uid"], "annotations": {ADDRESS: address}}}
        pod = self._client.patch(PODS, metadata["namespace"], metadata["name"], annotation)
        grace = float(pod["spec"].get("terminationGracePeriodSeconds", 30))
        running = RunningPod(metadata["namespace"], metadata["name"], metadata["uid"], address, directory, {}, grace)
        reader = self._reader(pod, address)
        volumes = {row["name"]: self._volume(reader, row, directory) for row in pod["spec"].get("volumes", [])}
        try:
            for container in pod["spec"].get("initContainers", []):
                process = self._container(reader, container, volumes, directory)
                if process.wait() != 0:
                    raise PodRunnerError(f"init container {container['name']} ended with {process.returncode}")
            for container in pod["spec"]["containers"]:
                running.processes[container["name"]] = self._container(reader, container, volumes, directory)
        except (PodRunnerError, PodSpecError):
            running.stop(0)
            raise
        self.pods[metadata["namespace"], metadata["name"]] = running
        return running

    def _volume(self, reader: Reader, volume: Obj, directory: Path) -> Volume:
        """A directory of the machine that stands for a volume. Paths of the host are not shown: they are empty."""
        files = reader.files(volume)
        place = directory / "volumes" / volume["name"]
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            place = self._directory / "claims" / reader.pod["metadata"]["namespace"] / claim
        place.mkdir(parents=True, exist_ok=True)
        if files is not None:
            write_files(place, files)
        return Volume(place, files is not None)

    def _environment(self, pod: Obj) -> dict[str, str]:
        server = urlsplit(self._server)
        environment = {
            "PATH": f"{LIBRARY}/bin:{PATH}",
            "HOME": "/root",
            "HOSTNAME": pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(server.port),
        }
        if self._proxy:
            # The user name tells the proxy in which namespace a bare Service name is meant. urllib wants a password, too.
            url = f"http://{pod['metadata']['namespace']}:pod@{self._proxy}"
            environment.update(HTTP_PROXY=url, HTTPS_PROXY=url, NO_PROXY="127.0.0.1")
        return environment

    def _container(self, reader: Reader, container: Obj, volumes: dict[str, Volume], directory: Path) -> subprocess.Popen[bytes]:
        own = reader.environment(container)
        environment = {**self._environment(reader.pod), **own}
        root = directory / f"{container['name']}.root"
        root.mkdir(exist_ok=True)
        spec = {
            **file_system(self._venv, reader.pod["metadata"]["name"], reader.address),
            "root": str(root),
            "directory": container.get("workingDir", "/"),
            "command": command_line(container, own),
            "environment": environment,
            "read_only_root": container.get("securityContext", {}).get("readOnlyRootFilesystem", False),
        }
        spec["mounts"] = [*spec["mounts"], *_volume_mounts(container, volumes, own)]
        path = directory / f"{container['name']}.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        return launch(path, directory / f"{container['name']}.log")


def _volume_mounts(container: Obj, volumes: dict[str, Volume], environment: dict[str, str]) -> list[Obj]:
    mounts = []
    for row in container.get("volumeMounts", []):
        volume = volumes[row["name"]]
        source = volume.place
        part = expand(row.get("subPathExpr", ""), environment) or row.get("subPath", "")
        if part:
            source = (source / part).resolve()
            if not source.exists():
                source.mkdir(parents=True)
        read_only = volume.files or row.get("readOnly", False)
        mounts.append({"source": str(source), "target": row["mountPath"].rstrip("/"), "read_only": read_only})
    return sorted(mounts, key=lambda row: row["target"].count("/"))


def launch(spec: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the container that a file describes. Raises PodRunnerError when it does not come to run its command."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-I", pod_launcher.__file__, str(spec), str(write_end)]
    with open(log, "ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, pass_fds=[write_end], start_new_session=True
        )
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        problem = pipe.read()
    if problem:
        process.wait()
        raise PodRunnerError(problem)
    return process


def file_system(venv: Path, name: str, address: str) -> Obj:
    """What each container sees beside its volumes: programs and libraries of the machine and little else."""
    base = Path(os.path.realpath(venv / "bin" / "python")).parent.parent
    shown = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    shown += [path for path in ETC if os.path.exists(path)]
    shown += [] if base.is_relative_to("/usr") else [str(base)]
    mounts = [{"source": path, "target": path, "read_only": True} for path in shown]
    mounts.append({"source": str(venv), "target": LIBRARY, "read_only": True})
    mounts += [{"source": f"/dev/{row}", "target": f"/dev/{row}", "read_only": False} for row in DEVICES]
    mounts.append({"source": "/proc", "target": "/proc", "read_only": False})
    return {
        "links": {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)},
        "directories": list(DIRECTORIES),
        "files": {
            "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
            "/etc/group": "root:x:0:\n",
            "/etc/hosts": f"127.0.0.1 localhost\n{address} {name}\n",
            "/etc/nsswitch.conf": "hosts: files\n",
        },
        "mounts": mounts,
    }


def write_files(place: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Put files into a directory the way a kubelet does: all change at one moment, when a link is renamed."""
    version = Path(tempfile.mkdtemp(prefix="..", dir=place))
    version.chmod(0o755)
    for name, (content, mode) in files.items():
        path = version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    current = place / "..data"
    old = current.resolve() if current.is_symlink() else None
    (place / "..data_tmp").symlink_to(version.name)
    os.replace(place / "..data_tmp", current)
    tops = {name.partition("/")[0] for name in files}
    for link in place.iterdir():
        if not link.name.startswith("..") and link.name not in tops:
            link.unlink()
    for name in tops:
        if not (place / name).is_symlink():
            (place / name).symlink_to(f"..data/{name}")
    if old:
        shutil.rmtree(old, ignore_errors=True)
