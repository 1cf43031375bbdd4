"""The service without HTTP (tests/e2e/serve_door.c): asked in lines of JSON, killed, started again."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import cupel as lib

BINARY = lib.BUILD / "tests/e2e/serve-door"
FAULTS = pathlib.Path(os.environ.get("CUPEL_FAULTS_BUILD", lib.BUILD / "faults")) / "tests/e2e/serve-door"
READ, SUBMIT, ADMIN = 1, 2, 4
_tags = itertools.count(1)


def sleeper(seconds=0.1, **more):
    """An analysis that takes its time."""
    return {"command": ["sleep", str(seconds)], "limits": {"memory": "32M", "cpus": 0.1, "pids": 16}, **more}


def held(**more):
    """One that goes on until it is let go, however slow everything else is."""
    return sleeper(command="sleep 1000 || true", **more)


def let_go(run):
    """Ends the `sleep` of a held one from outside: its shell goes on. False if it has not come to that yet."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            in_it = f"/{run}-" in (process / "cgroup").read_text(encoding="utf-8")
            if in_it and (process / "comm").read_text(encoding="utf-8") == "sleep\n":
                os.kill(int(process.name), signal.SIGTERM)
                return True
        except OSError:
            pass  # gone meanwhile
    return False


class Door:
    """One process of the service."""

    def __init__(self, caller, fault=None, binary=BINARY, prefix=()):
        self.caller = caller
        self.binary = caller.base / "serve-door"
        if not self.binary.exists():
            shutil.copy(binary, self.binary)
            self.binary.chmod(0o755)
        self.heard = []
        self.change = threading.Condition()
        self.process = subprocess.Popen(
            [*prefix, self.binary],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=caller.dir,
            env=caller.environ({"CUPEL_FAULT": fault} if fault else None),
            preexec_fn=caller._become,  # pylint: disable=protected-access
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.change:
                self.heard.append(json.loads(line))
                self.change.notify_all()
        with self.change:
            self.heard.append({"gone": True})
            self.change.notify_all()

    def ask(self, op, **more):
        try:
            self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it was killed; whoever waits is told

    def wait(self, fits, limit_s=lib.RUN_LIMIT_S):
        """The first thing heard, before or from now on, that fits."""
        end = time.monotonic() + limit_s
        seen = 0
        with self.change:
            while True:
                for heard in self.heard[seen:]:
                    if fits(heard):
                        return heard
                seen = len(self.heard)
                if self.heard and "gone" in self.heard[-1]:
                    raise EOFError(f"the service is gone; it said {self.heard[-5:]}")
                assert self.change.wait(max(0, end - time.monotonic())), self.heard[-20:]

    def question(self, op, key, **more):
        """The next answer that has `key`."""
        with self.change:
            before = len(self.heard)
        self.ask(op, **more)
        found = []
        self.wait(lambda _: found.extend(a for a in self.heard[before:] if key in a) or found)
        return found[0]

    def submit(self, analysis=None, **more):
        """Its answer, once it is durable or refused."""
        tag = next(_tags)
        self.ask("submit", tag=tag, analysis=analysis or sleeper(), **more)
        return self.wait(lambda heard: heard.get("tag") == tag)

    def accepted(self, analysis=None, **more):
        answer = self.submit(analysis, **more)
        assert "error" not in answer, answer
        return answer["id"]

    def ready(self):
        """The ledger was read: from here on it takes submissions."""
        def tried():
            answer = self.submit({"command": []})
            return answer["error"] != "EAGAIN"
        assert lib.wait_until(tried)
        return self

    def news(self, run_id, *what):
        return self.wait(lambda heard: heard.get("id") == run_id and heard.get("news") in what)

    def ended(self, run_id):
        """The cause."""
        return self.news(run_id, "ended", "cancelled", "refused")["cause"]

    def queue(self):
        return self.question("queue", "waiting", )

    def pending(self, run_id):
        run = self.question("run", "pending", id=run_id)
        return run["pending"]

    def starter(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return int(pathlib.Path(path).read_text(encoding="utf-8").split()[0])

    def kill(self):
        """As the kernel would end it; what it started is apart."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        return self

    def drain(self, **more):
        self.ask("drain", **more)
        self.process.wait(timeout=120 * lib.SLOW)
        self.reader.join()

    def close(self):
        """Ends it, and waits until nothing of it is left: not even a run."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert lib.wait_until(lambda: not self.alive(), 60 * lib.SLOW), self.alive()

    def alive(self):
        """Processes that are this program: starter, keepers, and what they are about to be."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)") == str(self.binary):
                    found.append(int(pid))
            except OSError:
                pass
        return found


class Doors:
    """Services of one caller, one after the other."""

    def __init__(self, caller, binary=BINARY, prefix=()):
        self.caller = caller
        self.binary = binary
        self.prefix = prefix
        self.last = None

    def open(self, fault=None):
        if self.last:
            self.last.kill()
        self.last = Door(self.caller, fault, self.binary, self.prefix)
        return self.last

    def ready(self):
        return self.open().ready()

    def close(self):
        if self.last:
            self.last.close()
