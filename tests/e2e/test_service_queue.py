"""The queue of the service: what is accepted is durable, what fits is started with its submitter's
rights, what runs survives the service, and whatever waits says why."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

import cupel as lib
import doors
import leftovers
from doors import ADMIN, SUBMIT, held, let_go, sleeper

pytestmark = pytest.mark.skipif(not doors.BINARY.exists(), reason="service: it was not built")
OTHER = {"who": "ana", "uid": lib.USER_ID, "gid": lib.USER_ID}


@pytest.fixture
def made(fresh):
    opened = doors.Doors(fresh)
    yield opened
    opened.close()


@pytest.fixture
def stored(kept):
    """Over both databases."""
    opened = doors.Doors(kept.caller)
    opened.kept = kept
    yield opened
    opened.close()


def rows(kept, columns="id, state, cause, attempt, run"):
    return kept.db.query(f"SELECT {columns} FROM submissions ORDER BY n")


def note_of(caller, run):
    with contextlib.closing(sqlite3.connect(caller.home / "cupel.db")) as db:
        return db.execute("SELECT note FROM submissions WHERE id = ?", [run]).fetchone()[0]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_what_is_submitted_is_run_and_recorded(stored):
    door = stored.ready()
    run = door.accepted(sleeper(0, name="tiny", quest="q1"), who="ana")
    assert door.ended(run) == "ok"
    home = stored.caller.home
    accepted = json.loads((home / "runs" / run / "events.jsonl").read_text().splitlines()[0])
    assert accepted["event"] == "accepted"
    assert (accepted["data"]["submitter"], accepted["data"]["submission"]) == ("ana", run)
    assert read(home / "runs" / run / "analysis.json")["submitter"] == "ana"
    assert lib.wait_until(lambda: stored.kept.ids() == [run]), "it is delivered without anybody's help"
    door.drain()
    assert rows(stored.kept) == [[run, "ended", "ok", "1", run]]
    columns = "submitter, kind, name, quest, priority"
    assert rows(stored.kept, columns) == [["ana", "run", "tiny", "q1", "0"]]
    assert stored.kept.db.query("SELECT run, submission, attempt FROM submission_runs") == [[run, run, "1"]]
    stored.kept.settle()
    stored.kept.assert_whole()


def test_whose_a_run_was_is_added_up_whenever_that_is_known(stored):
    """Entered before the run, as it should be; or after it, by a service that found its end."""
    door = stored.ready()
    runs = [door.accepted(sleeper(0), who=who) for who in ("ana", "bea", "ana")]
    assert [door.ended(run) for run in runs] == ["ok"] * 3
    door.drain()
    kept = stored.kept
    assert lib.wait_until(lambda: kept.settle()["owed"] == 0)  # the service's own delivery may still be at it
    totals = "SELECT subject, runs FROM run_totals WHERE kind = 'submitter' AND runs <> 0 ORDER BY subject"
    assert kept.db.query(totals) == [["ana", "2"], ["bea", "1"]]
    kept.db.change(f"DELETE FROM submission_runs WHERE run = '{runs[0]}'; "
                   f"UPDATE submissions SET state = 'running', cause = NULL, ended = NULL WHERE id = '{runs[0]}'")
    assert kept.command("ledger", "rebuild")[0] == 0
    assert kept.db.query(totals) == [["ana", "2"], ["bea", "1"]], "its record says whose it is"
    # As an older cupel entered it, which did not take that from the record.
    kept.db.change(f"UPDATE runs SET submitter = NULL WHERE id = '{runs[0]}'; DELETE FROM run_totals WHERE kind = 'submitter'; "
                   "INSERT INTO run_totals (home, kind, subject, cause, runs, wall_usec, cpu_usec, memory_gib_hours, memory_peak_bytes, first, last, is_stale) "
                   "SELECT home, kind, subject, cause, count(*), sum(wall_usec), sum(cpu_usec), sum(memory_gib_hours), max(memory_peak_bytes), min(accepted), "
                   "max(accepted), 0 FROM run_shares WHERE kind = 'submitter' GROUP BY home, kind, subject, cause")
    assert kept.db.query(totals) == [["", "1"], ["ana", "1"], ["bea", "1"]]
    door = stored.ready()
    assert lib.wait_until(lambda: rows(kept)[0][1] == "ended")
    door.drain()
    assert kept.db.query(totals) == [["ana", "2"], ["bea", "1"]]
    assert kept.command("ledger", "rebuild")[0] == 0
    assert kept.db.query(totals) == [["ana", "2"], ["bea", "1"]]
    assert kept.assert_whole()["totals"] == 0


def test_a_key_is_one_submission(stored):
    door = stored.ready()
    one, other = sleeper(0), sleeper(0.01)
    first = door.submit(one, key="k1", who="ana")
    assert first["new"]
    again = door.submit(one, key="k1", who="ana")
    assert (again["id"], again["new"]) == (first["id"], False)
    assert door.submit(other, key="k1", who="ana")["error"] == "EEXIST"
    assert door.submit(one, key="k1", who="bea")["new"], "a key is its submitter's own"
    assert door.submit(one, key="k2", who="ana")["new"]
    door.ended(first["id"])
    again = stored.ready().submit(one, key="k1", who="ana")
    assert (again["id"], again["new"]) == (first["id"], False), "also of another service"


def test_an_id_is_used_once(stored):
    door = stored.ready()
    taken = door.accepted(sleeper(0), id="mine")
    assert taken == "mine"
    assert door.submit(sleeper(0), id="mine")["error"] == "EEXIST"
    assert door.ended("mine") == "ok"
    assert door.submit(sleeper(0), id="mine")["error"] == "EEXIST"
    assert door.submit(sleeper(0), id="mine", key="other")["error"] == "EEXIST"
    assert door.submit(sleeper(0), id="../x")["error"] == "EINVAL"


def test_what_is_wrong_is_refused_at_once(made, fresh):
    fresh.configure("ceilings: {time: 1h}\nservice: {max_queued_per_submitter: 2, max_running: 1}\n")
    door = made.ready()

    def error(analysis, **more):
        answer = door.submit(analysis, **more)
        return answer.get("error"), answer.get("text", "")

    assert error({"comand": ["true"]})[0] == "EINVAL"
    assert "code" in error({"name": "x"})[1]
    assert error({"command": ["true"], "runtime": "no-such"})[0] == "ENOENT"
    assert error({"command": ["true"], "limits": {"time": "2h"}})[0] == "EPERM"
    assert "never" in error({"command": ["true"], "limits": {"memory": "900T"}})[1]
    assert "relative" in error({"code": "x.py"})[1]
    assert "relative" in error({"command": ["true"], "inputs": [{"path": "a/b"}]})[1]
    assert "relative" in error({"command": ["true"], "inputs": ["a:b"]})[1]
    assert error(sleeper(), priority=1)[0] == "EPERM"
    assert error(sleeper(), priority=-101)[0] == "EINVAL"
    assert error(sleeper(), scopes=doors.READ)[0] == "EPERM"
    assert error(sleeper(), retries={"oom": {"times": 1000}})[0] == "EINVAL"
    assert error(sleeper(allow_missing=["seccomp"]))[0] == "EPERM"
    control = door.submit(sleeper(60), priority=1, scopes=SUBMIT | ADMIN)
    assert control["new"], "the control"
    door.news(control["id"], "started")  # till then it is one of those that wait
    for _ in range(2):
        door.accepted(sleeper(60))
    assert error(sleeper())[0] == "EDQUOT"
    assert door.submit(sleeper(60), who="ana")["new"], "another may"  # a short one could be over before it is cancelled
    for row in door.question("rows", "rows")["rows"]:
        door.question("cancel", "asked", id=row["id"], scopes=ADMIN)
        door.ended(row["id"])


@pytest.mark.parametrize("kind", ["file", "folder", "link", "data"])
def test_a_run_is_shown_nothing_that_its_submitter_may_not_read(made, fresh, kind):
    """As root alone could have it; the control is the same for root, and what ana may read."""
    door = made.ready()
    hidden = fresh.base / "hidden"
    hidden.mkdir()
    secret = hidden / "secret.sh"
    secret.write_text("cat data/* 2>/dev/null; echo secret\n")
    secret.chmod(0o644)
    hidden.chmod(0o700)
    path = secret
    if kind == "file":
        hidden.chmod(0o755)
        secret.chmod(0o604)  # others may, but not whoever it belongs to
        os.chown(secret, lib.USER_ID, lib.USER_ID)
    if kind == "link":
        path = fresh.dir / "link.sh"
        path.symlink_to(secret)
    analysis = {"code": str(path)}
    if kind == "data":
        analysis = {"command": ["cat", "data/secret.sh"], "inputs": [str(path)]}
    if kind == "file":
        secret.chmod(0o004)
    run = door.accepted(analysis, **OTHER)
    assert door.ended(run) == "refused"
    assert not (fresh.home / "runs" / run).exists()
    assert lib.wait_until(lambda: "Permission denied" in (note_of(fresh, run) or ""))
    assert door.ended(door.accepted(analysis)) == "ok", "root's own"
    hidden.chmod(0o755)
    secret.chmod(0o644)
    assert door.ended(door.accepted(analysis, **OTHER)) == "ok"


def printed(caller, run):
    return (caller.home / "runs" / run / "stdout.log").read_text()


def test_what_its_submitter_may_read_is_shown_to_his_run_alone(made, fresh):
    """A file and a directory that ana alone may read, and one that her group may; what root alone may read, beside them, is not."""
    if not lib.maps_ids(fresh.base):
        pytest.skip("idmap: the kernel takes no id-mapped mounts of this file system")
    door = made.ready()
    own, shared = fresh.base / "own", fresh.base / "shared"
    for folder, owner, mode in ((own, lib.USER_ID, 0o700), (shared, 0, 0o750)):
        folder.mkdir()
        for name, mode_of_file in (("hers", mode & 0o640 or 0o600), ("roots", 0o600)):
            (folder / name).write_text(f"{name}\n")
            (folder / name).chmod(mode_of_file)
            os.chown(folder / name, owner if name == "hers" else 0, lib.USER_ID if name == "hers" else 0)
        os.chown(folder, owner, lib.USER_ID)
        folder.chmod(mode)
    for inputs in ([str(own)], [str(shared)]):
        text = "cat data/*/hers; cat data/*/roots || true"
        run = door.accepted({"command": text, "inputs": inputs}, **OTHER)
        assert door.ended(run) == "ok", note_of(fresh, run)
        assert printed(fresh, run) == "hers\n"
    run = door.accepted({"command": "cat data/hers", "inputs": [str(own / "hers")]}, **OTHER)
    assert door.ended(run) == "ok" and printed(fresh, run) == "hers\n"
    run = door.accepted({"command": "cat data/roots", "inputs": [str(shared / "roots")]}, **OTHER)
    assert door.ended(run) == "refused"
    assert lib.wait_until(lambda: "Permission denied" in (note_of(fresh, run) or ""))
    assert "chmod" not in note_of(fresh, run)
    stranger = {"who": "bea", "uid": lib.USER_ID + 1, "gid": lib.USER_ID + 1}
    run = door.accepted({"command": "true", "inputs": [str(own / "hers")]}, **stranger)
    assert door.ended(run) == "refused", "nobody else's"


def test_an_input_of_a_submitter_leads_to_no_program(made, fresh):
    """A socket of the host that ana may connect to, in a directory that she may read; and views of the kernel."""
    door = made.ready()
    folder = fresh.base / "served"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        server.listen(8)
        (folder / "s").chmod(0o777)
        os.chown(folder, lib.USER_ID, lib.USER_ID)
        act = f"unix={folder}/s"
        assert fresh.outside(act) == {act: "ok"}
        analysis = {"command": ["data/probe", "unix=data/served/s"], "inputs": [str(fresh.probe), str(folder)]}
        run = door.accepted(analysis, **OTHER)
        assert door.ended(run) == ("ok" if lib.maps_ids(folder) else "setup")
        assert printed(fresh, run) == ("unix=data/served/s EACCES\n" if lib.maps_ids(folder) else "")
    for path in ("/proc", "/sys", "/dev", "/run", "/proc/self/environ"):
        run = door.accepted({"command": "true", "inputs": [{"path": path, "name": "in"}]}, **OTHER)
        assert door.ended(run) == "refused", path


def test_no_digest_tells_what_its_submitter_may_not_read(made, fresh):
    """A directory with a file in it that is not his: refused, or recorded without that file's digest."""
    door = made.ready()
    folder = fresh.base / "mixed"
    folder.mkdir()
    (folder / "open").write_text("open\n")
    (folder / "closed").write_text("closed\n")
    (folder / "closed").chmod(0o600)
    newest = max(path.stat().st_ctime for path in (folder, *folder.iterdir()))
    assert lib.wait_until(lambda: time.time() > newest + 2.2), "what is younger is not remembered"
    analysis = {"command": ["cat", "data/mixed/open"], "inputs": [str(folder)]}

    def digest(run):
        return read(fresh.home / "runs" / run / "analysis.json")["inputs"][0].get("sha256")

    own = door.accepted(analysis)
    assert door.ended(own) == "ok" and digest(own), "the control: root's own has one over all of it"
    other = door.accepted(analysis, **OTHER)
    assert door.ended(other) == "refused" or not digest(other)


def test_retries_are_those_of_steps(stored):
    door = stored.ready()
    hungry = {"command": ["tail", "/dev/zero"], "limits": {"memory": "16M"}}
    run = door.accepted(hungry, retries={"oom": {"times": 2, "factor": 2}})
    assert door.ended(run) == "oom"
    told = [heard["news"] for heard in door.heard if heard.get("id") == run and "news" in heard]
    assert told == ["submitted", *["started", "retried"] * 2, "started", "ended"]
    limits = [read(stored.caller.home / "runs" / name / "analysis.json")["limits"]["memory"]["value"]
              for name in (run, f"{run}.2", f"{run}.3")]
    assert limits == ["16M", "32M", "64M"]
    plain = door.accepted({"command": ["false"]}, retries={"oom": 3})
    assert door.ended(plain) == "exit"
    door.drain()
    assert rows(stored.kept) == [[run, "ended", "oom", "3", f"{run}.3"], [plain, "ended", "exit", "1", plain]]


def test_a_retry_is_counted_over_a_restart(stored):
    """How often it was tried, and with how much, is durable."""
    door = stored.ready()
    slow = {"command": "sleep 1; exec tail /dev/zero", "limits": {"memory": "16M"}}
    run = door.accepted(slow, retries={"oom": {"times": 2, "factor": 2}})
    door.news(run, "retried")
    door = stored.open()
    assert door.ended(run) == "oom"
    door.drain()
    assert rows(stored.kept) == [[run, "ended", "oom", "3", f"{run}.3"]]
    assert read(stored.caller.home / f"runs/{run}.3/analysis.json")["limits"]["memory"]["value"] == "64M"


def test_cancelling(made):
    door = made.ready()
    running = door.accepted(sleeper(60), who="ana")
    door.news(running, "started")
    later = door.accepted(sleeper(0), who="ana", not_before=time.time_ns() + 3600 * 10**9)
    for one in (running, later):
        assert door.question("cancel", "error", id=one, who="bea")["error"] == "EPERM"
    for one in (running, later):
        door.question("cancel", "asked", id=one, who="ana")
        assert door.ended(one) == "cancelled"
    assert door.question("cancel", "error", id="nothing")["error"] == "ESRCH"
    verdict = read(made.caller.home / "runs" / running / "verdict.json")
    assert verdict["cause"] == "cancelled"
    assert not (made.caller.home / "runs" / later).exists()


def test_what_runs_survives_the_service(stored):
    """Killed with SIGKILL: the boxes go on, one that ends meanwhile is recorded, the queue is intact, and nothing is
    run twice."""
    stored.caller.configure(f"ledger: {{url: '{stored.kept.db.url}'}}\nservice: {{max_running: 3}}\n")
    door = stored.ready()
    short, long, doomed = (door.accepted(one) for one in (held(), held(), sleeper(60)))
    waiting = [door.accepted(sleeper(0)) for _ in range(3)]
    for run in (short, long, doomed):
        door.news(run, "started")
        runs = stored.caller.home / "runs" / run
        assert lib.wait_until(lambda d=runs: (d / "events.jsonl").exists() and "started" in (d / "events.jsonl").read_text())
    door.kill()
    assert lib.wait_until(lambda: let_go(short))
    assert lib.wait_until((stored.caller.home / "runs" / short / "verdict.json").exists)
    assert not (stored.caller.home / "runs" / long / "verdict.json").exists(), "the control: it goes on"
    door = stored.open()
    assert door.ended(short) == "ok"
    assert [door.ended(run) for run in waiting] == ["ok"] * 3
    assert lib.wait_until(lambda: let_go(long))
    assert door.ended(long) == "ok"
    door.question("cancel", "asked", id=doomed, scopes=ADMIN)
    assert door.ended(doomed) == "cancelled", "an adopted one hears it too"
    door.drain()
    assert [row[1:3] for row in rows(stored.kept)] == [["ended", "ok"]] * 2 + [["ended", "cancelled"]] + [["ended", "ok"]] * 3
    for run in (short, long, doomed, *waiting):
        events = (stored.caller.home / "runs" / run / "events.jsonl").read_text().splitlines()
        assert sum(json.loads(line)["event"] == "accepted" for line in events) == 1


def test_a_keeper_that_was_killed_is_recorded(made):
    door = made.ready()
    run = door.accepted(sleeper(60), retries={"lost": 1})
    door.news(run, "started")
    for attempt in (run, f"{run}.2"):
        record = made.caller.home / "runs" / attempt / "events.jsonl"
        assert lib.wait_until(lambda r=record: r.exists() and '"started"' in r.read_text())
        accepted = json.loads(record.read_text().splitlines()[0])
        os.kill(accepted["data"]["keeper_pid"], signal.SIGKILL)
    assert door.ended(run) == "lost"
    assert read(made.caller.home / f"runs/{run}.2/verdict.json")["cause"] == "lost"


@pytest.fixture
def unsaid(made):
    """A service that found a run whose lock is held and whose record does not say whose it is: it looks again each second. Yields the door, the
    run, its keeper's pid, and what puts the record back."""
    door = made.ready()
    run = door.accepted(sleeper(60))
    events, aside = (made.caller.home / "runs" / run / name for name in ("events.jsonl", "aside"))
    assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text())
    keeper = json.loads(events.read_text().splitlines()[0])["data"]["keeper_pid"]
    door.kill()
    events.rename(aside)
    yield made.ready(), run, keeper, lambda: aside.rename(events)


def test_a_run_that_is_looked_at_again_can_be_cancelled(unsaid):
    door, run, _, put_back = unsaid
    door.question("cancel", "asked", id=run, scopes=ADMIN)
    put_back()
    assert door.ended(run) == "cancelled"


def test_a_dead_run_that_is_looked_at_again_is_recorded_after_a_cancel(unsaid, made):
    """The keeper is stopped, so that it hears no cancel, and dies after the service has tried to tell it."""
    door, run, keeper, put_back = unsaid
    os.kill(keeper, signal.SIGSTOP)
    door.question("cancel", "asked", id=run, scopes=ADMIN)
    os.kill(keeper, signal.SIGKILL)
    put_back()
    assert door.ended(run) == "lost"
    assert read(made.caller.home / f"runs/{run}/verdict.json")["cause"] == "lost"


def test_whatever_waits_says_why(made, fresh):
    fresh.configure("aggregate: {memory: 1G, pids: 1000}\nservice: {max_running: 2, max_running_per_submitter: 1}\n")
    door = made.ready()
    first = door.accepted(sleeper(60, limits={"memory": "600M", "pids": 10}), who="ana")
    door.news(first, "started")
    capped = door.accepted(sleeper(0), who="ana")
    large = door.accepted(sleeper(0, limits={"memory": "500M", "pids": 10}), who="bea")
    later = door.accepted(sleeper(0), who="bea", not_before=time.time_ns() + 3600 * 10**9)
    why = {capped: "submitter-cap", large: "memory", later: "not-before"}
    # It is accepted first and looked at then.
    assert lib.wait_until(lambda: {run: door.pending(run)["reason"] for run in why} == why)
    assert "needs 500M of memory; 424M of 1G is free" in door.pending(large)["text"]
    second = door.accepted(sleeper(60), who="cyn")
    door.news(second, "started")
    third = door.accepted(sleeper(0), who="dan")
    assert lib.wait_until(lambda: door.pending(third)["reason"] == "jobs")
    queue = door.queue()
    assert (len(queue["waiting"]), queue["running"]) == (4, 2)
    assert queue["use"]["memory"] == {"used": (600 + 32) << 20, "cap": 1 << 30}
    for run in (first, second, later):
        door.question("cancel", "asked", id=run, scopes=ADMIN)
    assert [door.ended(run) for run in (first, second, later)] == ["cancelled"] * 3
    assert [door.ended(run) for run in (capped, large, third)] == ["ok"] * 3
    use = door.question("use", "submitted")
    assert (use["waiting"], use["running"], use["memory_used"], use["cpus_used"]) == (0, 0, 0, 0)


def test_submitters_take_turns(made, fresh):
    fresh.configure("service: {max_running: 1, shares: {cyn: 2}}\n")
    door = made.ready()
    first = door.accepted(held(), who="root", priority=1, scopes=SUBMIT | ADMIN)
    # They count for more than bea's: that one of hers takes twice as long by chance decides nothing.
    many = [door.accepted(sleeper(0, limits={"memory": "32M", "cpus": 0.4, "pids": 16}), who="ana") for _ in range(4)]
    few = [door.accepted(sleeper(0), who="bea") for _ in range(2)]
    urgent = door.accepted(sleeper(0), who="root", priority=5, scopes=SUBMIT | ADMIN)
    assert lib.wait_until(lambda: let_go(first))  # now that all of them wait
    for run in (first, *many, *few, urgent):
        assert door.ended(run) == "ok"
    order = [heard["id"] for heard in door.heard if heard.get("news") == "started"]
    assert order[:2] == [first, urgent]
    assert set(order[2:4]) == {many[0], few[0]} and set(order[4:6]) == {many[1], few[1]}


def test_draining_leaves_what_runs(stored):
    door = stored.ready()
    run = door.accepted(held())
    door.news(run, "started")
    record = stored.caller.home / "runs" / run
    assert lib.wait_until(lambda: (record / "events.jsonl").exists())
    later = door.accepted(sleeper(0), not_before=time.time_ns() + 3600 * 10**9)
    door.drain()
    assert {"drained": True} in door.heard
    assert rows(stored.kept, "id, state") == [[run, "running"], [later, "queued"]]
    soon = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 2))  # that hour is not waited for
    stored.kept.db.change(f"UPDATE submissions SET not_before = '{soon}' WHERE id = '{later}'")
    door = stored.open()
    assert lib.wait_until(lambda: let_go(run))
    assert [door.ended(one) for one in (run, later)] == ["ok", "ok"]
    last = door.accepted(held())
    door.news(last, "started")
    door.ask("drain", wait=True)
    assert door.submit(sleeper(0))["error"] == "ESHUTDOWN"
    assert lib.wait_until(lambda: let_go(last))
    door.process.wait(timeout=lib.RUN_LIMIT_S)
    assert door.ended(last) == "ok" and rows(stored.kept, "state") == [["ended"]] * 3


def test_a_database_that_is_away_harms_nobody(stored):
    """What runs goes on and what waits is started; what is submitted is refused for now; all of it is written when it is back."""
    stored.caller.configure(f"ledger: {{url: '{stored.kept.db.url}'}}\nservice: {{max_running: 1}}\n")
    door = stored.ready()
    first, second = door.accepted(held()), door.accepted(sleeper(0))
    door.news(first, "started")
    stored.kept.db.down()
    assert lib.wait_until(lambda: let_go(first))
    if stored.kept.db.kind == "sqlite":
        pytest.skip("sqlite: an open file stays, wherever its folder is")
    assert door.submit(sleeper(0))["error"] == "EAGAIN"
    assert [door.ended(run) for run in (first, second)] == ["ok", "ok"]
    assert door.queue()["database"]
    stored.kept.db.up()
    # EEXIST: the commit of one that was refused has come through without its answer.
    assert lib.wait_until(lambda: door.submit(sleeper(0), id="after").get("error") in (None, "EEXIST"))
    assert lib.wait_until(lambda: rows(stored.kept, "state")[:2] == [["ended"], ["ended"]])
    assert lib.wait_until(lambda: door.queue()["database"] is None)
    assert door.ended("after") == "ok"


def test_a_service_waits_for_its_database(stored):
    door = stored.ready()
    run = door.accepted(sleeper(0), not_before=time.time_ns() + 2 * 10**9)
    door.kill()
    stored.kept.db.down()
    door = stored.open()
    assert door.submit(sleeper(0))["error"] == "EAGAIN"
    stored.kept.db.up()
    assert door.ended(run) == "ok"


def test_a_rebuild_keeps_submissions(kept_sqlite):
    made = doors.Doors(kept_sqlite.caller)
    kept_sqlite.configure(None)  # the home's own
    door = made.ready()
    run = door.accepted(sleeper(0))
    assert door.ended(run) == "ok"
    later = door.accepted(sleeper(0), not_before=time.time_ns() + 3600 * 10**9)
    door.drain()
    database = kept_sqlite.caller.home / "cupel.db"
    assert lib.wait_until(lambda: not door.alive())
    kept_sqlite.quiet()
    ask = ["sqlite3", database, "select id, state from submissions order by n; select count(*) from runs"]
    if subprocess.run(["which", "sqlite3"], capture_output=True, check=False).returncode:
        pytest.skip("sqlite3: the program is not installed")

    def known():
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()

    before = known()
    assert before == [f"{run}|ended", f"{later}|queued", "1"]
    assert kept_sqlite.command("ledger", "rebuild")[0] == 0
    assert known() == before
    subprocess.run(["sqlite3", database, "pragma writable_schema=1; update sqlite_master set rootpage=2 where name='outputs'"],
                   check=True, capture_output=True)
    assert kept_sqlite.command("ledger", "check")[0] != 0, "it is damaged"
    door = made.open()
    lock = kept_sqlite.caller.home / "service.lock"  # who comes before the service has it mends the ledger
    assert lib.wait_until(lambda: subprocess.run(["flock", "-n", lock, "true"], check=False).returncode != 0)
    assert lib.wait_until(lambda: "stop the service" in kept_sqlite.command("ledger", "rebuild")[2])
    door.kill()
    assert lib.wait_until(lambda: not door.alive())
    assert kept_sqlite.command("ledger", "rebuild")[0] == 0
    assert (kept_sqlite.caller.home / "cupel.db.broken").exists()
    assert known() == before
    made.close()


PIPELINE = {
    "name": "two",
    "steps": {
        "one": {"command": "sleep 1; echo 1 > out/a", "outputs": ["out/a"]},
        "two": {"command": "cat data/a > out/b", "inputs": [{"step": "one", "path": "out/a"}], "outputs": ["out/b"]},
    },
}


def test_pipelines_are_submitted_too(stored, tmp_path):
    door = stored.ready()
    run = door.accepted(PIPELINE, who="ana")
    door.news(run, "started")
    assert lib.wait_until((stored.caller.home / "pipelines" / run / "pipeline.json").exists)
    door = stored.open()  # the next service finds it
    assert door.ended(run) == "ok"
    assert read(stored.caller.home / "pipelines" / run / "result.json")["counts"]["ok"] == 2
    file = stored.caller.dir / "p.yaml"
    file.write_text(json.dumps({"steps": {"s": {"command": "exit {{n}}"}}, "parameters": {"n": 0}}))
    assert door.ended(door.accepted({"file": str(file), "parameters": {"n": 3}})) == "exit"
    blocker = door.accepted(sleeper(1000, limits={"memory": "32M", "cpus": 64, "pids": 16}))
    door.news(blocker, "started")
    bad = door.accepted({"file": str(file)})  # waits for it
    file.write_text("steps: {s: {comand: x}}\n")
    assert "did you mean 'command'" in door.submit({"file": str(file)})["text"], "refused at once"
    door.question("cancel", "asked", id=blocker, scopes=ADMIN)
    assert door.ended(bad) == "refused", "what was changed since"
    doomed = door.accepted({"steps": {"s": {"command": "sleep 60"}}})
    door.news(doomed, "started")
    door.question("cancel", "asked", id=doomed, scopes=ADMIN)
    assert door.ended(doomed) == "cancelled"
    door.drain()
    notes = dict(rows(stored.kept, "id, note"))
    assert "did you mean 'command'" in notes[bad]
    assert [kind for one, kind in rows(stored.kept, "id, kind") if one != blocker] == ["pipeline"] * 4


def test_a_pipeline_is_shown_nothing_that_its_submitter_may_not_read(made, fresh):
    door = made.ready()
    hidden = fresh.base / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "secret").write_text("secret\n")
    (hidden / "p.yaml").write_text("steps: {s: {command: 'true'}}\n")
    steps = {"steps": {"s": {"command": "cat data/*", "inputs": [str(hidden / "secret")]}}}
    for analysis in (steps, {"file": str(hidden / "p.yaml")}):
        refused = door.submit(analysis, **OTHER)
        assert refused["error"] == "EACCES" and "Permission denied" in refused["text"], refused
        assert door.ended(door.accepted(analysis)) == "ok", "root's own"
    hidden.chmod(0o755)
    for analysis in (steps, {"file": str(hidden / "p.yaml")}):
        assert door.ended(door.accepted(analysis, **OTHER)) == "ok"


def test_runtimes_are_checked_while_nothing_waits(made, fresh):
    fresh.configure("service: {check_runtimes: 2s}\n")
    made.ready()
    state = fresh.home / "runtimes/base/state.json"
    assert lib.wait_until(state.exists)
    first = read(state)["verified_time"]
    assert lib.wait_until(lambda: read(state)["verified_time"] != first), "again and again"
    made.last.drain()
    assert lib.wait_until(lambda: not leftovers.processes(fresh))


def test_one_service_a_home(made, fresh):
    made.ready()
    lock = pathlib.Path(fresh.home / "service.lock")
    assert lock.exists()
    busy = subprocess.run(["flock", "-n", lock, "true"], check=False)
    assert busy.returncode != 0
    made.last.kill()
    assert lib.wait_until(lambda: subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 0)
