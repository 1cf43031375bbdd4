"""cupel submit, wait, cancel, ps, list, show and logs on the real service, on its own host and from elsewhere."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

import cupel as lib

SERVE = lib.BUILD / "src/cli/cupel-serve"
U = f"t{os.getpid()}-"  # working directories are the host's: others may have runs of the same name
SETTINGS = "service: {max_running: %d, check_runtimes: never%s}\n"


class Service:
    """A service with a home of its own."""

    def __init__(self, caller, max_running=1, more=""):
        self.caller = caller
        shutil.copy(SERVE, caller.base / "cupel-serve")
        caller.configure(SETTINGS % (max_running, more))
        self.socket = caller.home / "cupel.sock"
        self.said = caller.base / "said"
        self.process = None

    def start(self):
        with open(self.said, "ab") as said:  # no pipe: keepers have it too, and outlive the service
            self.process = self.caller.popen(self.caller.binary, "serve", stderr=said)
        assert lib.wait_until(lambda: self.answers() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said.read_text()
        return self

    def answers(self):
        """Not only its socket is there: all its doors are open, and its queue was read, without which it refuses whatever it is sent."""
        body = b'{"analysis": {"odd": 1}}'
        head = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
            s.settimeout(60)
            s.connect(str(self.socket))
            s.sendall(head % len(body) + body)
            return s.recv(100).startswith(b"HTTP/1.1 400 ")
        return False

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        assert "Sanitizer" not in self.said.read_text(), self.said.read_text()

    def __call__(self, *words, **options):
        return self.caller.call(self.caller.binary, *words, **options)

    def ask(self, *words):
        status, out, err = self(*words)
        assert status == 0, err
        return out

    def state(self, run_id):
        return json.loads(self.ask("show", "--json", run_id))["state"]


@pytest.fixture(name="service")
def _service(fresh):
    if not SERVE.exists():
        pytest.skip("service: cupel was built without libmicrohttpd or libsystemd")
    made = Service(fresh).start()
    yield made
    made.stop()
    for path in (fresh.home / "active").iterdir():  # what a test that failed has left goes on without a service
        made("cancel", path.name, env={"CUPEL_SERVICE": "none"})


def busy(service, *words, name=U + "busy"):
    """A run that goes on until it is told."""
    service.ask("submit", "--id", name, *words, "--", "sh", "-c", "echo up; sleep 1000")
    assert lib.wait_until(lambda: (service.caller.run_dir(name) / "stdout.log").exists()
                          and (service.caller.run_dir(name) / "stdout.log").read_bytes() == b"up\n")
    return name


def test_submit_wait_show(service):
    run_id = service.ask("submit", "--quest", "q", "--name", "a title", "--", "sh", "-c", "echo out; echo err >&2; exit 5").strip()
    status, _, err = service("wait", run_id)
    assert status == 5 and err.startswith(f"cupel: {run_id}: exit: ")
    told = json.loads(service.ask("show", "--json", run_id))
    assert (told["state"], told["cause"], told["submitter"], told["quest"]) == ("ended", "exit", "root", "q")
    assert "by       root" in service.ask("show", run_id)
    assert service("logs", run_id) == (0, "out\n", "err\n")
    assert run_id in service.ask("list", "--quest", "q", "--cause", "exit")


def test_submit_and_wait_at_once(service):
    status, out, err = service("submit", "--wait", "--", "true")
    assert status == 0 and f"cupel: {out.strip()}: ok" in err
    status, out, _ = service("submit", "--wait", "--json", "--memory", "16M", "--", "python3", "-c", "x = bytearray(1 << 28)")
    assert status == 137 and json.loads(out)[0]["cause"] == "oom"


def test_what_waits_is_told_and_cancelled(service):
    busy(service)
    assert service.ask("submit", "--id", U + "w1", "--quest", "q", "--name", "second", "--", "true") == U + "w1\n"
    assert service.ask("submit", "--id", U + "w2", "--priority", "-3", "--", "true") == U + "w2\n"
    told = {run["id"]: run for run in json.loads(service.ask("ps", "--json"))}
    assert [told[name]["phase"] for name in (U + "busy", U + "w1", U + "w2")] == ["running", "queued", "queued"]
    assert told[U + "w1"]["pending"]["reason"] == "jobs" and told[U + "w2"]["pending"]["position"] == 1 and told[U + "busy"]["submitter"] == "root"
    assert "runtime" not in told[U + "w1"] and told[U + "w1"]["runtime_why"] == "it is chosen when the run starts"
    live, waiting = service.ask("ps").split("WAITING")
    assert waiting.splitlines()[0].split()[4] == "RUNTIME" and "(at start)" in waiting and "base" in live and " us " not in live
    assert "pending" not in live and told[U + "w1"]["pending"]["text"] == "1 run goes on, which is as many as may"
    assert U + "busy" in live and U + "w1" not in live and "second" in waiting and U + "w2" in waiting
    assert "state    queued\n" in service.ask("show", U + "w1") and "waits    " in service.ask("show", U + "w1")
    assert [run["id"] for run in json.loads(service.ask("list", "--json"))] == [U + "w2", U + "w1", U + "busy"], "newest first"
    assert [line.split()[:2] for line in service.ask("list", "--state", "queued").splitlines()[1:]] == [[U + "w2", "queued"], [U + "w1", "queued"]]
    assert service("wait", "--timeout", "100ms", U + "w1")[0] == 123
    status, _, err = service("cancel", U + "w1", U + "busy")
    assert status == 0 and f"cupel: {U}w1: cancelled\n" in err and f"cupel: {U}busy: cancelled\n" in err, err
    assert service("wait", U + "w1")[0] == 143 and service("wait", U + "busy")[0] == 143
    assert not service.caller.run_dir(U + "w1").exists()
    assert service("wait", U + "w2")[0] == 0
    status, _, err = service("cancel", U + "w1")
    assert status == 2 and "ended already: cancelled" in err
    assert service("cancel", "nosuch")[0] == 2 and service("wait", "nosuch")[0] == 2 and service("show", "nosuch")[0] == 2


def has_socket(service, pid):
    """Before and after a question that came later: one question has an end, what is waited for has none."""
    seen = []
    for _ in range(2):
        with contextlib.suppress(OSError):
            seen.append({os.readlink(at) for at in pathlib.Path(f"/proc/{pid}/fd").iterdir()})
        service.ask("list", "--json")
    return len(seen) == 2 and any(link.startswith("socket:") for link in seen[0] & seen[1])


def test_wait_survives_a_service_that_is_killed(service):
    go = service.caller.base / "go"
    go.mkdir()
    service.ask("submit", "--id", U + "r1", "--data", f"{go}:go", "--", "sh", "-c", "echo up; while [ ! -e data/go/now ]; do sleep 0.05; done; exit 6")
    service.ask("submit", "--id", U + "r2", "--", "sh", "-c", "exit 7")
    caller = service.caller
    with caller.popen(caller.binary, "wait", U + "r1", U + "r2", stderr=subprocess.PIPE) as waiting:
        assert lib.wait_until((caller.run_dir(U + "r1") / "stdout.log").exists), service.ask("show", U + "r1")
        assert lib.wait_until(lambda: has_socket(service, waiting.pid)), "it asks the service"
        service.kill()
        assert b"waiting for it" in waiting.stderr.readline()
        (go / "now").touch()
        assert lib.wait_until((caller.run_dir(U + "r1") / "verdict.json").exists)
        assert waiting.poll() is None
        service.start()
        assert waiting.wait(60) == 6
        said = waiting.stderr.read().decode()
        assert U + "r1: exit" in said and U + "r2: exit" in said


def test_logs_of_what_waits_are_waited_for(service):
    busy(service)
    service.ask("submit", "--id", U + "w1", "--", "sh", "-c", "echo one; sleep 0.3; echo two; echo three >&2")
    assert service("logs", U + "w1") == (0, "", "")
    caller = service.caller
    with caller.popen(caller.binary, "logs", "-f", U + "w1", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as logs:
        service.ask("cancel", U + "busy")
        out, err = logs.communicate(timeout=60)
        assert (logs.returncode, out, err) == (0, b"one\ntwo\n", b"three\n")


def test_a_key_is_taken_once(service):
    first = service.ask("submit", "--key", "k", "--", "true")
    assert service.ask("submit", "--key", "k", "--", "true") == first
    status, _, err = service("submit", "--key", "k", "--", "false")
    assert status == 2 and "key" in err.lower()
    assert service("submit", "--id", first.strip(), "--", "true")[0] == 2
    assert service("wait", first.strip())[0] == 0


def test_what_cannot_be_run_is_refused(service):
    for words, word in ((["--memory", "100T", "--", "true"], "memory"), (["-r", "nosuch", "--", "true"], "nosuch")):
        status, out, err = service("submit", *words)
        assert (status, out) == (2, "") and word in err, err
    gone = service.caller.dir / "gone"
    gone.touch()
    busy(service)
    run_id = service.ask("submit", "--data", gone, "--", "true").strip()
    gone.unlink()
    service.ask("cancel", U + "busy")
    status, _, err = service("wait", run_id)
    assert status == 125 and f"{run_id}: refused: the analysis: {gone}: No such file" in err, err
    told = json.loads(service.ask("show", "--json", run_id))
    assert told["state"] == "ended" and str(gone) in json.dumps(told)


@pytest.mark.parametrize("words, what", [(["no-such.py"], "code: "), (["--data", "no-such", "--", "true"], "--data: "),
                                         (["--db-snapshot", "no-such.db", "--", "true"], "--db-snapshot: ")])
def test_a_name_that_was_mistyped_is_said_at_once(service, elsewhere, words, what):
    """As `cupel run` says it. From another host nobody can know what is there."""
    told = service("submit", *words)
    assert told == service("run", *words) and told[:2] == (2, "")
    assert told[2].startswith(f"cupel: {what}{service.caller.dir}/no-such") and "No such file" in told[2]
    status, out, _ = elsewhere("submit", *words)
    assert status == 0 and service("wait", out.strip())[0] == 125


def test_who_asks_at_his_own_socket_is_told_of_the_hosts(fresh):
    """In a /run of the test's own."""
    def submit(before):
        return fresh.call("unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {before} && exec {fresh.binary} submit -- true")
    status, _, err = submit("true")
    assert status == 125 and "`cupel serve` starts one" in err
    status, _, err = submit("touch /run/cupel.sock")
    assert status == 125 and "say CUPEL_SERVICE=/run/cupel.sock" in err


def test_the_service_is_of_no_project(service):
    """Wherever it is started: neither is what that project's runs are shown shown to all, nor do all have its ceilings."""
    caller = service.caller
    (caller.dir / "data").mkdir()
    (caller.dir / "data/theirs").touch()
    (caller.dir / "cupel.yaml").write_text("ceilings: {memory: 64M}\n", encoding="utf-8")
    service.stop()
    caller.config.rename(caller.dir / "host.yaml")
    caller.config = caller.dir / "host.yaml"
    with open(service.said, "ab") as said:  # the configuration is named by a path that is relative to it
        service.process = caller.popen(caller.binary, "serve", stderr=said, env={"CUPEL_CONFIG": "host.yaml"})
    assert lib.wait_until(service.answers), service.said.read_text()
    status, out, _ = service("submit", "--wait", "--memory", "96M", "--", "sh", "-c", "ls data", cwd="/")
    assert status == 0
    assert service("logs", out.strip()) == (0, "", "")
    assert service("run", "-q", "--memory", "96M", "--", "true")[0] == 2, "the control: who is in the project is bound by it"
    assert service("run", "-q", "--", "ls", "data")[1] == "theirs\n"


def test_a_run_made_beside_it(service):
    caller = service.caller
    process, run_id = caller.start("--", "sh", "-c", "echo up; sleep 1000", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    with process, caller.popen(caller.binary, "wait", "-q", run_id) as waiting:
        assert run_id in service.ask("ps")
        status, _, err = service("cancel", run_id)
        assert status == 0 and "cancelled" in err
        assert process.wait(60) == 143 and waiting.wait(60) == 143


def test_what_was_taken_is_in_the_ledger_whoever_else_opens_it(service):
    """Every answer out of the ledger opens and closes it in the service's own process, which must not end the locks of the connection that
    enters submissions: the next process to close the ledger would then remove the log under it."""
    held = [service.ask("submit", "--not-before", "2100-01-01", "--", "true").strip()]
    for n in range(8):
        service.ask("submit", "--wait", "-q", "--", "true")  # is delivered, by a process of its own
        service.ask("list")
        service("show", f"nosuch{n}")
        held.append(service.ask("submit", "--not-before", "2100-01-01", "--", "true").strip())
    gone = []
    for fd in pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            gone.append(os.readlink(fd))
    assert any(path.endswith("cupel.db-wal") for path in gone) and not any(path.endswith("(deleted)") and "cupel.db" in path for path in gone), gone
    service.kill()
    service.start()
    assert [run["id"] for run in json.loads(service.ask("ps", "--json"))] == held


PIPELINE = "steps:\n  one: {command: \"echo {{n}} > out/x; exit {{n}}\", outputs: [out/x]}\n  two: {command: ['true'], needs: [one]}\nparameters: {n: 0}\n"


def test_pipelines(service):
    file = service.caller.dir / "p.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    status, out, _ = service("submit", "--wait", "--id", U + "pipe-a", "--quest", "of all", "--label", "k=v", "p.yaml")
    assert (status, out) == (0, U + "pipe-a\n")
    told = json.loads(service.ask("show", "--json", U + "pipe-a"))
    assert told["state"] == "ok" and told["quest"] == "of all"
    assert json.loads((service.caller.home / f"pipelines/{U}pipe-a/pipeline.json").read_text())["labels"] == {"k": "v"}
    assert service("submit", "--wait", "--param", "n=4", "p.yaml")[0] == 4
    file.write_text("steps: {one: {command: [sleep, '1000']}}\n", encoding="utf-8")
    service.ask("submit", "--id", U + "pipe-b", "p.yaml")
    assert lib.wait_until(lambda: list((service.caller.home / "active").glob(U + "pipe-b*")))
    assert service("cancel", U + "pipe-b")[0] == 0 and service("wait", U + "pipe-b")[0] == 143
    assert service("submit", "--allow-missing", "landlock", "p.yaml")[0] == 2


@pytest.fixture(name="elsewhere")
def _elsewhere(service, callers):
    """A caller who has none of its records: by TCP and a token."""
    port = lib.free_port()
    service.stop()
    service.caller.configure(SETTINGS % (1, f", listen: '127.0.0.1:{port}'"))
    token = service.ask("token", "create", "tester", "--scope", "read-all,submit").split()[-1]
    service.start()
    other = lib.Cupel("root")

    def call(*words, token=token):
        return other.call(other.binary, *words, env={"CUPEL_SERVICE": f"http://127.0.0.1:{port}", "CUPEL_TOKEN": token})
    yield call
    other.close()


def test_who_comes_without_a_token_is_told_what_to_do(elsewhere):
    status, _, err = elsewhere("ps", token="")
    assert status == 2 and "set CUPEL_TOKEN" in err and "cupel token create" in err
    status, _, err = elsewhere("ps", token="cupel_wrong")
    assert status == 2 and "revoked or has expired" in err
    assert elsewhere("ps")[0] == 0


def test_from_elsewhere(service, elsewhere):
    busy(service)
    status, out, err = elsewhere("submit", "--id", U + "far", "--", "sh", "-c", "echo one; sleep 0.5; printf 'two\\n'; exit 3")
    assert (status, out) == (0, U + "far\n"), err

    def live():
        return {run["id"]: run for run in json.loads(elsewhere("ps", "--json")[1])}
    assert lib.wait_until(lambda: live()[U + "busy"].get("memory_bytes", 0) > 0), "the first sample of what it uses"
    told = live()
    assert told[U + "busy"]["phase"] == "running" and told[U + "far"]["phase"] == "queued"
    assert U + "far" in elsewhere("list", "--state", "queued")[1] and "waits    " in elsewhere("show", U + "far")[1]
    status, _, err = elsewhere("cancel", U + "busy")
    assert status == 2 and err, "it is root's"
    service.ask("cancel", U + "busy")
    assert elsewhere("logs", "-f", U + "far") == (0, "one\ntwo\n", "")
    assert elsewhere("wait", U + "far")[0] == 3
    assert elsewhere("logs", U + "far") == (0, "one\ntwo\n", "")
    told = json.loads(elsewhere("show", "--json", U + "far")[1])
    assert told["cause"] == "exit" and told["exit_status"] == 3 and "directory" not in told
    status, out, err = elsewhere("list", "--json", "--cause", "exit")
    assert status == 0 and [run["id"] for run in json.loads(out)] == [U + "far"], err
