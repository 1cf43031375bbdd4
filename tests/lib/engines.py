"""Real container engines for tests, each with a directory, a socket and groups of its own: Docker's
daemon, and Podman's service. Nothing of them is left afterwards."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.parse

import cupel as lib

KINDS = ("docker", "podman")
# Podman's own choices are more than a host without CAP_SYS_RESOURCE can give; crun refuses hybrid
# trees of groups.
_PODMAN_CONF = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
netns = "none"
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""

GROUPS = pathlib.Path("/sys/fs/cgroup")
IS_VERSION_2 = (GROUPS / "cgroup.controllers").exists()


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """One engine: `docker` or `podman`."""

    def __init__(self, kind, containers=""):
        """`containers` are lines of Podman's settings of that name."""
        self.kind = kind
        self.base = pathlib.Path(tempfile.mkdtemp(prefix=f"cupel-{kind}-"))
        self.base.chmod(0o755)
        self.socket = self.base / "sock"
        self.process = None
        text = _PODMAN_CONF.replace("[engine]", f"{containers}\n[engine]")
        (self.base / "containers.conf").write_text(text, encoding="utf-8")
        self.up()

    @staticmethod
    def missing(kind):
        """What is not installed here; None if nothing is missing."""
        programs = {"docker": ("dockerd", "runc"), "podman": ("podman", "conmon", "runc")}[kind]
        found = "/usr/sbin:/sbin:" + os.environ.get("PATH", "/usr/bin:/bin")
        return next((p for p in programs if not shutil.which(p, path=found)), None)

    def _command(self):
        b = self.base
        if self.kind == "podman":
            return (
                ["podman", "--root", b / "root", "--runroot", b / "run", "--tmpdir", b / "tmp"]
                + ["--cgroup-manager=cgroupfs", "--events-backend=file"]
                + ["system", "service", "--time=0", f"unix://{self.socket}"]
            )
        return (
            ["dockerd", "--data-root", b / "data", "--exec-root", b / "exec", "-p", b / "pid"]
            + ["-H", f"unix://{self.socket}", "--iptables=false", "--ip6tables=false"]
            + ["--ip-forward=false", "--ip-masq=false", "--bridge=none"]
            + ["--storage-driver=overlay2", f"--cgroup-parent=/{b.name}", "--live-restore"]
        )

    def up(self):
        if self.process:
            return
        env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "CONTAINERS_CONF": str(self.base / "containers.conf"),
            "HOME": str(self.base),
        }
        with open(self.base / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd="/",
                start_new_session=True,
                preexec_fn=self._leave_the_top,
            )

        def answers():
            assert self.process.poll() is None, self.log()
            try:
                return self.ask("GET", "/_ping", raw=True)[0] == 200
            except OSError:
                return False

        assert lib.wait_until(answers), self.log()

    def _leave_the_top(self):
        """Where groups are of version 2 Docker finds no limit of swap if it is in the topmost one itself, which no service is."""
        if IS_VERSION_2:
            group = GROUPS / f"{self.base.name}-daemon"
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")

    def log(self):
        return (self.base / "log").read_text(errors="replace")[-4000:]

    def down(self, number=signal.SIGTERM):
        if self.process:
            self.process.send_signal(number)
            self.process.wait(timeout=120)
        self.process = None

    def ask(self, method, path, body=None, raw=False):
        """(status, answer)"""
        connection = _Connection(self.socket)
        try:
            headers = {"Content-Type": "application/json"}
            text = None if body is None else json.dumps(body)
            connection.request(method, "/v1.41" + path, text, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        return answer.status, data if raw else json.loads(data or b"null")

    def containers(self):
        return [name for c in self.ask("GET", "/containers/json?all=1")[1] for name in c["Names"]]

    def images(self):
        """Names of those that cupel made."""
        wanted = urllib.parse.quote(json.dumps({"label": ["cupel.image"]}))
        found = self.ask("GET", f"/images/json?filters={wanted}")[1]
        return sorted(tag for image in found for tag in image["RepoTags"] or [])

    def _processes(self):
        """What of it lives: containerd, shims, conmon."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if str(self.base).encode() in words and state != "Z" and int(pid) != os.getpid():
                found.append(int(pid))
        return found

    def _unmount(self):
        text = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        for place in [line.split()[4] for line in text.splitlines()][::-1]:
            if place.startswith(f"{self.base}/"):
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)

    def groups(self):
        """Of its containers."""
        v1, v2 = lib.cgroup_mounts()
        tops = [tree / self.base.name for tree in [v2] if tree] + [t / self.base.name for t in v1]
        return [str(p) for top in tops if top.is_dir() for p in top.iterdir() if p.is_dir()]

    def close(self):
        left = self.containers() if self.process else []
        for name in left:
            self.ask("DELETE", f"/containers{name}?force=1", raw=True)
        self.down()
        # Those that a service which was killed left behind are ours by the directory they work in.
        if not lib.wait_until(lambda: not self._processes(), 10):
            for pid in self._processes():
                os.kill(pid, signal.SIGKILL)
        self._unmount()
        shutil.rmtree(self.base, ignore_errors=True)
        for tree in [*GROUPS.iterdir(), GROUPS]:
            for top in (tree / self.base.name, tree / f"{self.base.name}-daemon"):
                try:
                    top.rmdir()
                except OSError:
                    pass
        assert not left, f"containers that cupel did not remove: {left}"


class Relay:
    """A socket in front of an engine's: `lines` has what was asked, "GET /v1.41/_ping HTTP/1.1"."""

    def __init__(self, engine, least=None):
        self.engine = engine
        self.least = least  # "1.44": it takes no version below, as a Docker that is newer than the one here; the two are spoken as one
        self.socket = engine.base / "relay"
        self.lines = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.socket))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.socket.unlink()

    def _accept(self):
        while True:
            try:
                near = self._listening.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.engine.socket))
            threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source, target, is_asking):
        try:
            while data := source.recv(65536):
                if is_asking:
                    first = data.split(b"\r\n", 1)[0].decode(errors="replace")
                    if first.endswith(" HTTP/1.1"):
                        self.lines.append(first)
                        if self.least and " /v1.41/" in first:
                            source.sendall(self._too_old())
                            continue
                        if self.least:
                            data = data.replace(f" /v{self.least}/".encode(), b" /v1.41/", 1)
                elif self.least:
                    data = re.sub(rb'"MinAPIVersion":"1\.\d\d"', f'"MinAPIVersion":"{self.least}"'.encode(), data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _too_old(self):
        """In Docker's words."""
        body = json.dumps({"message": f"client version 1.41 is too old. Minimum supported API version is {self.least}, please upgrade your client"})
        return f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
