"""Executors of kind `program`: the example that comes with cupel, which runs cupel itself elsewhere (here: in another home), and programs
that answer wrongly."""

import json
import os
import pathlib
import shutil

import cupel as lib

EXAMPLE = lib.TESTS.parent / "examples/executor/remote.py"

# Wrong in one thing, right in all others. What is wrong is its first argument.
_WRONG = '''#!/usr/bin/python3
import importlib.util, json, os, sys, time
spec = importlib.util.spec_from_file_location("remote", {example!r})
remote = importlib.util.module_from_spec(spec)
spec.loader.exec_module(remote)
wrong = sys.argv.pop(1)
os.environ.pop("CUPEL_SUBMITTER", None)  # another host would not have it from us
count = 0

class Wrong(remote.Remote):
    def probe(self, ask):
        answer = super().probe(ask)
        if wrong == "probe-staging":
            answer["staging"] = "by mail"
        if wrong == "copied-here":
            answer.update(staging="copy", judged="here")
        if wrong == "no-submitters":
            del answer["submitters"]
        if wrong == "weak":
            answer["layers"].remove("disk")
        return answer
    def submit(self, ask):
        global count
        if wrong.startswith("hides="):  # once it was accepted here
            os.chmod(wrong.split("=")[1], 0o700)
        if wrong == "submit-anew":  # a second job of one name
            count += 1
            name = ask["job"]["name"]
            ask["job"]["name"] += "-" + str(time.time_ns())
            answer = super().submit(ask)
            os.makedirs(self.place(name) / "started", exist_ok=True)
            return answer
        answer = super().submit(ask)
        if wrong == "no-handle":
            return {{}}
        if wrong == "text-handle":
            return {{"handle": "a text"}}
        if wrong == "other-handle":
            return {{"handle": {{"place": "/nonexistent/place", "id": "other"}}}}
        return answer
    def poll(self, ask):
        answer = super().poll(ask)
        if wrong == "poll-state":
            return {{"state": "well"}}
        if wrong == "foreign-record" and answer["state"] == "ended":
            answer["record"] = "/etc"
        if wrong == "linked-record" and answer["state"] == "ended":
            link = ask["handle"]["place"] + "/link"
            os.path.lexists(link) or os.symlink(answer["record"], link)
            answer["record"] = link
        return answer
    def logs(self, ask):
        if wrong == "no-logs":
            return {{"data": ""}}
        if wrong == "logs-not-base64":
            return {{"data": "%%%"}}
        if wrong == "logs-too-much":
            return {{"data": "QUFB" * ask["max"]}}
        return super().logs(ask)
    def reap(self, ask):
        return {{}} if wrong == "no-reap" else super().reap(ask)

def act(op):
    """What is no answer at all, to the question of that name."""
    if wrong == "no-json:" + op:
        print("hello", flush=True)
    elif wrong == "list:" + op:
        print("[1]", flush=True)
    elif wrong == "huge:" + op:
        try:
            sys.stdout.write("x" * (6 << 20)); sys.stdout.flush()
            time.sleep(60)
        except BrokenPipeError:
            os._exit(1)
    elif wrong == "slow:" + op:
        time.sleep(60)
    elif wrong == "half:" + op:
        sys.stdout.write('{{"ok": tr'); sys.stdout.flush()
        os._exit(0)
    elif wrong == "gone:" + op:
        os._exit(3)
    elif wrong == "refused:" + op:
        print(json.dumps({{"ok": False, "error": "no\\033[31m room\\nat all"}}), flush=True)
    elif wrong == "mute:" + op:
        print(json.dumps({{"ok": False}}), flush=True)
    elif wrong == "deep:" + op:
        print("[" * 100000, flush=True)
    else:
        return False
    return True

class Questions:
    def __iter__(self):
        for line in sys.__stdin__:
            if not act(json.loads(line)["op"]):
                yield line

remote.Remote = Wrong
sys.stdin = Questions()
remote.main()
'''


class Node:
    """Another place of `caller`'s, at which cupel runs too: the executor `node`."""

    def __init__(self, caller, wrong=None, more="", patience="60s"):
        self.caller = caller
        self.shared = caller.base / "shared"
        self.shared.mkdir(exist_ok=True)
        caller.own(self.shared)
        program = caller.base / "remote.py"
        shutil.copy(EXAMPLE, program)
        program.chmod(0o755)
        command = [str(program)]
        if wrong:
            liar = caller.base / "wrong.py"
            liar.write_text(_WRONG.format(example=str(program)), encoding="utf-8")
            liar.chmod(0o755)
            command = [str(liar), wrong]
        command += ["--dir", str(self.shared), "--cupel", str(caller.binary)]
        caller.configure(f"executors: {{node: {{kind: program, command: {json.dumps(command)}, patience: {patience}}}}}\n{more}")

    def jobs(self):
        return sorted(path.name for path in self.shared.iterdir())

    def conformance(self, *words, name="node", limit_s=900):
        status, out, err = self.caller.call(self.caller.binary, "executor", "conformance", "--json", *words, name, limit_s=limit_s)
        assert out, err
        return status, json.loads(out)

    def at_work(self):
        """Whether a job there is still being carried out, whatever the program says of it."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if f"CUPEL_HOME={self.shared}/".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    return True
            except OSError:
                pass  # it ended meanwhile
        return False

    def forget(self):
        """What a program that is wrong left is the test's to remove, once nobody writes there any more."""
        assert lib.wait_until(lambda: not self.at_work())
        shutil.rmtree(self.shared)
        self.shared.mkdir()
        self.caller.own(self.shared)


def keeper(caller, run_id):
    events = caller.run_dir(run_id) / "events.jsonl"
    return json.loads(events.read_text().splitlines()[0])["data"]["keeper_pid"]


def has_printed(caller, run_id, text):
    log = pathlib.Path(caller.run_dir(run_id)) / "stdout.log"
    return log.exists() and text in log.read_text()
