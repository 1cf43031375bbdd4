#!/usr/bin/python3
"""An executor of one's own, in its smallest useful form: runs analyses by cupel itself on another machine.

    executors:
      node7: {kind: program, command: [/usr/share/cupel/executor/remote.py, --dir, /shared/cupel, --via, ssh, node7]}

Each line on standard input is a question, each line on standard output its answer; cupel-executor(7) has
the list. Both machines see --dir at the same path. The other one runs `cupel run` in a home of its own below it, so that limits,
isolation and verdict are those of any other run; what it recorded is taken over by who asked. Whatever
follows --via is put before the commands: `ssh node7`, `kubectl exec pod --`; nothing: this host.
"""

import argparse
import base64
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

# By cupel on the other machine.
LIMITS = ["memory", "cpus", "pids", "time", "cpu_time", "disk", "inodes", "log", "open_files", "file_size",
          "output_size", "output_count", "grace", "warn"]
LAYERS = ["user", "mount", "pid", "net", "ipc", "uts", "cgroup", "landlock", "seccomp", "memory", "cpu", "pids", "disk"]


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Remote:
    def __init__(self, options):
        self.options = options

    def shell(self, script, check=True):
        """A script on the other machine."""
        command = [*self.options.via, "sh", "-c", shlex.quote(script) if self.options.via else script]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=8, check=False)
        if check and done.returncode != 0:
            raise Refused("again" if done.returncode == 255 else "failed", (done.stderr or done.stdout).strip()[:300])
        return done

    def place(self, name):
        return pathlib.Path(self.options.dir, name)

    def probe(self, _):
        version = self.shell(f"{shlex.quote(self.options.cupel)} --version").stdout.strip()
        return {"engine": version, "limits": LIMITS, "layers": LAYERS, "reattaches": True, "queues": False, "signals": True,
                "checkpoints": False, "network_host": True, "submitters": True, "staging": "shared", "judged": "there"}

    def submit(self, ask):
        job = ask["job"]
        place = self.place(job["name"])
        handle = {"place": str(place), "id": job["id"]}
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            if (place / "started").exists():
                return {"handle": handle}  # by whoever asked before
        # Not as \u escapes: YAML knows no surrogates.
        (place / "analysis.yaml").write_text(json.dumps(job["analysis"], ensure_ascii=False), encoding="utf-8")
        word = shlex.quote
        # Of a service's run: what it names is read there with the rights of whom it is for.
        whose = f"CUPEL_SUBMITTER={word(job['submitter'])} " if "submitter" in job else ""
        # Apart from our connection, which may break; the lock makes a second submit find the first.
        self.shell(
            f"cd {word(str(place))} && mkdir started.new 2>/dev/null && "
            f"{{ {whose}CUPEL_HOME={word(str(place / 'home'))} setsid -f {word(self.options.cupel)} run --quiet analysis.yaml "
            f">/dev/null 2>error </dev/null; mv started.new started; }} || test -d started -o -d started.new")
        return {"handle": handle}

    def find(self, ask):
        place = self.place(ask["name"])
        if not (place / "started").exists():
            raise Refused("not-found", "no such job")
        runs = [path.name for path in (place / "home/runs").glob("*")]
        request = json.loads((place / "analysis.yaml").read_text(encoding="utf-8"))
        return {"handle": {"place": str(place), "id": runs[0] if runs else request["id"]}}

    def poll(self, ask):
        place, run = pathlib.Path(ask["handle"]["place"]), ask["handle"]["id"]
        record = place / "home/runs" / run
        if not (place / "started").exists():
            return {"state": "gone", "reason": "its directory was removed"}
        if (record / "verdict.json").exists():
            return {"state": "ended", "record": str(record), "started": True}
        # A run without a keeper is recorded as lost by whoever looks.
        looked = self.shell(f"CUPEL_HOME={shlex.quote(str(place / 'home'))} {shlex.quote(self.options.cupel)} ps --json", check=False)
        if (record / "verdict.json").exists():
            return {"state": "ended", "record": str(record), "started": True}
        error = (place / "error").read_text(encoding="utf-8", errors="replace") if (place / "error").exists() else ""
        if not record.exists() and error:
            return {"state": "ended", "why": "start-failed", "reason": error.strip()[-180:]}
        if looked.returncode == 255:
            raise Refused("again", looked.stderr.strip()[:200])
        return {"state": "running" if (record / "receipt.json").exists() else "queued", "reason": ""}

    def logs(self, ask):
        path = pathlib.Path(ask["handle"]["place"], "home/runs", ask["handle"]["id"], f"{ask['stream']}.log")
        try:
            with open(path, "rb") as file:
                file.seek(ask["offset"])
                data = file.read(ask["max"])
        except FileNotFoundError:
            data = b""
        return {"data": base64.b64encode(data).decode()}

    def signal(self, ask):
        """cupel passes the end on: to the analysis first, to its box after the grace."""
        if ask["signal"] == "TERM":
            self.end(ask)
        return {}

    def cancel(self, ask):
        self.end(ask)
        return {}

    def end(self, ask):
        place = pathlib.Path(ask["handle"]["place"])
        self.shell(f"CUPEL_HOME={shlex.quote(str(place / 'home'))} {shlex.quote(self.options.cupel)} cancel "
                   f"{shlex.quote(ask['handle']['id'])}", check=False)

    def collect(self, _):
        return {}

    def reap(self, ask):
        self.end(ask)
        place = ask["handle"]["place"]
        for _ in range(30):  # the run's last act may be to enter itself into its ledger
            shutil.rmtree(place, ignore_errors=True)
            if not os.path.exists(place):
                return {}
            time.sleep(0.1)
        raise Refused("again", f"{place} could not be removed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="a directory that both machines see")
    parser.add_argument("--cupel", default="cupel", help="the program on the other machine")
    parser.add_argument("--via", nargs=argparse.REMAINDER, default=[], help="how a command gets there: ssh NODE")
    remote = Remote(parser.parse_args())
    os.umask(0o077)
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = {"ok": True, **getattr(remote, ask["op"])(ask)}
        except Refused as why:
            answer = {"ok": False, "code": why.code, "error": str(why)}
        except (OSError, subprocess.TimeoutExpired) as why:
            answer = {"ok": False, "code": "again", "error": str(why)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
