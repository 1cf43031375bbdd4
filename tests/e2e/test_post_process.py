"""post_process: a step of the host's takes the outputs of a success into the platform's database, all
or nothing, in a box that has just that; the analysis itself never reaches it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

import pytest

import cupel as lib
import ledgers
import leftovers
import platforms

pytestmark = pytest.mark.test_all

CSV = "printf 'gene,score\\na,1\\nb,2\\n' > out/results.csv"
BY = ["sqlite", "socket", "tcp"]


@pytest.fixture(scope="module")
def server():
    with ledgers.running(platforms.server) as made:
        yield made


@pytest.fixture
def platform(cupel, request, by):
    if by == "sqlite":
        return platforms.Sqlite(cupel)
    return platforms.Postgres(request.getfixturevalue("server"), by)


def analysis(cupel, text, name="analysis.yaml"):
    path = cupel.dir / name
    path.write_text(text, encoding="utf-8")
    return cupel.own(path)


def taken(cupel, script=CSV, **options):
    """A run whose outputs the step is given."""
    return cupel.run("--post-process", "step", "--", "sh", "-c", script, **options)


def step_of(cupel, result):
    return lib.Result(0, "", "", cupel.run_dir(result.run_dir.name + "-post"))


@pytest.mark.parametrize("by", BY)
def test_a_csv_becomes_rows_once(cupel, platform):
    """The shipped example, on both databases; a second time for the same run changes nothing."""
    platforms.declare(cupel, platform, args=["scores", "out/results.csv"])
    file = analysis(cupel, f"command: [sh, -c, \"{CSV}\"]\npost_process: step\n".replace("\\", "\\\\"))
    result = cupel.run(file)
    run_id = result.run_dir.name
    assert result.cause == "ok", result.stderr + step_of(cupel, result).log("stderr.log").decode()
    assert result.verdict["post_process"] == {
        "step": "step", "run": f"{run_id}-post", "cause": "ok", "exit_code": 0}
    rows = [(run_id, "1", "a", "1"), (run_id, "2", "b", "2")]
    ask = "SELECT run_id, row_number, gene, score FROM scores ORDER BY row_number"
    assert platform.query(ask) == rows
    assert (result.run_dir / "outputs/out/results.csv").is_file()
    step = step_of(cupel, result)
    assert step.verdict["cause"] == "ok" and step.receipt["namespaces"]["net"]["own"]
    assert (step.run_dir / "events.jsonl").exists()
    elsewhere = {"CUPEL_HOME": str(cupel.base / f"home-{run_id}")}
    status, _, err = cupel.call(cupel.binary, "run", "-q", "--id", run_id, file, env=elsewhere)
    assert status == 0, err
    assert platform.query(ask) == rows


@pytest.mark.parametrize("by, watch", [*((by, "content") for by in BY), ("sqlite", "rows"), ("sqlite", "schema"), ("socket", "rows")])
def test_what_a_step_writes_is_no_alarm(root, request, by, watch):
    """The platform's own database is protected: what the step writes is the step's, what anybody else writes is not."""
    platform = platforms.Sqlite(root) if by == "sqlite" else platforms.Postgres(request.getfixturevalue("server"), by)
    platforms.declare(root, platform, args=["scores", "out/results.csv"])
    step = root.base / "step.py"
    root.configure(f"post_processes:\n  step:\n    script: {step}\n    args: [scores, out/results.csv]\n    database: '{platform.url}'\n"
                   f"    limits: {{memory: 128M, time: 60s}}\nprotect: [{{database: '{platform.url}', watch: {watch}}}]\n")

    def protect(word, *options):
        status, out, err = root.call(root.binary, "protect", word, "--json", *options)
        assert status in (0, 1), err
        return status, json.loads(out)[0]

    def events(result, name):
        lines = (step_of(root, result).run_dir / "events.jsonl").read_text().splitlines()
        return [event["data"] for event in map(json.loads, lines) if event["event"] == name]

    assert protect("accept")[0] == 0
    first = taken(root)
    assert first.cause == "ok", first.stderr
    written = events(first, "protected-written")
    assert len(written) == 1 and written[0]["accepted"] is True, written
    by_whom = f"the step step of the run {first.run_dir.name}"
    assert written[0]["by"] == by_whom and written[0]["changes"] >= 1 and not events(first, "protected-changed")
    for options in ((), ("--deep",)):
        status, answer = protect("check", *options)
        assert (status, answer["status"], answer["accepted_by"]) == (0, "ok", by_whom), answer
    assert protect("status")[1]["status"] == "ok"
    # Anybody else's write is a change; and once there is one, a step does not hide it.
    platform.change("INSERT INTO results VALUES ('mallory', 'x')" if watch != "schema" else "CREATE TABLE mallory (x TEXT)")
    assert lib.wait_until(lambda: protect("check")[0] == 1), "a server counts late"
    second = taken(root)
    assert second.cause == "ok"
    # The table of the step is there already.
    assert [event["accepted"] for event in events(second, "protected-written")] == ([] if watch == "schema" else [False])
    assert protect("check")[0] == 1 and protect("check", "--deep")[0] == 1


@pytest.mark.parametrize("by", ["sqlite"])
def test_a_csv_has_no_say_in_whose_its_rows_are(cupel, platform):
    """SQLite takes a column that is named twice, and drops one of the values."""
    platform.change("CREATE TABLE scores (run_id TEXT, row_number BIGINT, gene TEXT)")
    for path in platform.folder.iterdir():
        os.chown(path, platform.uid, platform.uid)
    platforms.declare(cupel, platform, args=["scores", "out/results.csv"])
    for name in ("run_id", "ROW_NUMBER"):
        result = taken(cupel, f"printf 'gene,{name}\\na,7\\n' > out/results.csv")
        said = step_of(cupel, result).log("stderr.log").decode()
        assert result.cause != "ok" and "columns are there twice" in said, said
    assert platform.query("SELECT * FROM scores") == []
    assert taken(cupel, "printf 'gene\\na\\n' > out/results.csv").cause == "ok", "the control"


@pytest.mark.parametrize("who, by, how, cause", [
    ("root", "sqlite", "exit", "exit"), ("root", "sqlite", "kill", "signal"),
    ("root", "sqlite", "memory", "oom"), ("root", "sqlite", "sleep", "deadline"),
    ("root", "socket", "kill", "signal"), ("root", "tcp", "sleep", "deadline"),
    ("user", "sqlite", "kill", "signal"), ("user", "socket", "memory", "oom"),
    ("user", "tcp", "exit", "exit")])
def test_a_step_that_does_not_succeed_leaves_the_database_as_it_was(cupel, platform, how, cause):
    platform.change("INSERT INTO results VALUES ('before', 'x')")
    time = "10s" if how == "sleep" else "60s"  # to insert all takes a part of it
    platforms.declare(cupel, platform, script=platforms.STEP, args=[how], time=time)
    result = taken(cupel)
    step = step_of(cupel, result)
    assert step.log() == b"inserted\n", step.log("stderr.log")
    assert (result.cause, step.verdict["cause"]) == ("post-process", cause)
    assert result.status == 1
    assert result.verdict["post_process"]["cause"] == cause
    assert result.verdict["exit_code"] == 0
    assert (result.run_dir / "partial/out/results.csv").is_file()
    assert not (result.run_dir / "outputs").exists() and result.outputs["partial"]
    assert platform.query("SELECT run_id FROM results") == [("before",)]
    if how == "exit":  # the control: the same writes, to their end
        platforms.declare(cupel, platform, script=platforms.STEP, args=["commit"])
        assert taken(cupel).cause == "ok"
        assert platform.query("SELECT COUNT(*) FROM results") == [("501",)]


@pytest.mark.parametrize("by", ["sqlite"])
def test_an_analysis_that_fails_has_no_step(cupel, platform):
    platforms.declare(cupel, platform, script=platforms.STEP, args=["commit"])
    result = taken(cupel, "exit 3")
    assert result.cause == "exit" and "post_process" not in result.verdict
    assert not step_of(cupel, result).run_dir.exists()
    assert platform.query("SELECT * FROM results") == []


LOOK = """
import os, pathlib, socket
def tried(act):
    try:
        return act() or "done"
    except Exception as error:
        return type(error).__name__
place = pathlib.Path("/run/cupel/database")
outputs = pathlib.Path(os.environ["CUPEL_OUTPUTS"])
print(tried((outputs / "out/results.csv").read_text).split()[0])
print(tried(lambda: (outputs / "out/results.csv").write_text("x")))
print(tried(lambda: (outputs / "new").write_text("x")))
for other in (place / "other.txt",):
    print(repr(tried(other.read_text)), tried(lambda: other.write_text("x")) if other.exists() else "none")
print(tried(lambda: socket.create_connection((HOST, 5432), 5).close()))
print(sorted(os.listdir("/run/cupel")), os.path.exists(SHADOW), os.path.exists(RECORDS))
print(os.environ["CUPEL_RUN_ID"], os.environ["CUPEL_DATABASE_URL"])
"""


@pytest.mark.parametrize("by", BY)
def test_the_step_has_the_outputs_and_the_database_and_nothing_else(cupel, platform, server):
    (cupel.dir / "data").mkdir(exist_ok=True)
    (cupel.dir / "data/private.txt").write_text("x", encoding="utf-8")
    script = (LOOK.replace("HOST", repr(server.address)).replace("SHADOW", repr("/etc/shadow"))
              .replace("RECORDS", repr(str(cupel.home)))
              + "print(os.listdir('data'))\n")
    platforms.declare(cupel, platform, script=script)
    result = taken(cupel)
    lines = step_of(cupel, result).log().decode().splitlines()
    assert result.cause == "ok", step_of(cupel, result).log("stderr.log")
    assert lines[:3] == ["gene,score", "OSError", "OSError"]
    assert lines[3] == ("'done' OSError" if platform.kind == "sqlite" else "'FileNotFoundError' none")
    assert lines[4] in ("OSError", "ConnectionRefusedError", "TimeoutError")
    assert lines[5].endswith("False False") and "'outputs'" in lines[5]
    assert lines[6].startswith(result.run_dir.name + " ")
    assert platforms.SECRET not in lines[6] and platforms.QUOTED not in lines[6]
    assert lines[7] == "[]"
    if platform.kind == "sqlite":
        assert (platform.folder / "other.txt").read_text(encoding="utf-8").startswith("none")
        status = platform.path.stat()
        assert (status.st_uid, status.st_mode & 0o777) == (platform.uid, 0o600)


@pytest.mark.parametrize("by", ["tcp"])
def test_the_password_is_in_no_record(cupel, platform):
    """Nor in a log, a plan, or anything that a command prints; and no process shows it."""
    platforms.declare(cupel, platform, script=platforms.STEP + "\nassert os.stat("
                      "os.environ['PGPASSFILE']).st_mode & 0o777 == 0o400\n", args=["commit"])
    result = taken(cupel)
    assert result.cause == "ok", step_of(cupel, result).log("stderr.log")
    said = [*cupel.call(cupel.binary, "config"), *cupel.call(cupel.binary, "config", "--json")]
    for command in ("plan", "plan --json"):
        said += cupel.call(cupel.binary, *command.split(), "--post-process", "step", "--", "true")
    for run in (result.run_dir, step_of(cupel, result).run_dir):
        said += [path.read_text(encoding="utf-8") for path in run.rglob("*") if path.is_file()]
        said += cupel.call(cupel.binary, "show", "--json", run.name)
    text = "".join(map(str, said))
    for secret in (platforms.SECRET, platforms.QUOTED, "secret"):
        assert secret not in text
    assert "teller" in text, "the control: the rest of the URL is told"


ATTEMPT = """
import os, socket, sys
url, path, host = sys.argv[1:]
found = [key for key in os.environ if key.startswith(("PG", "CUPEL_DATABASE"))]
try:
    if url.startswith("sqlite"):
        open(path, "rb").read()
    else:
        unix = socket.socket(socket.AF_UNIX)
        unix.connect(path)
    found.append("path")
except OSError:
    pass
try:
    socket.create_connection((host, 5432), 5)
    found.append("address")
except OSError:
    pass
shown = os.listdir("/run/cupel") if os.access("/run/cupel", os.R_OK) else []
print(found, sorted(set(shown) - {"cpuinfo", "empty", "nothing"}))
"""


@pytest.mark.parametrize("by", BY)
def test_the_analysis_reaches_no_database(cupel, platform, server):
    platforms.declare(cupel, platform, script=platforms.STEP, args=["commit"])
    script = cupel.dir / "attempt.py"
    script.write_text(ATTEMPT, encoding="utf-8")
    path = platform.path if platform.kind == "sqlite" else server.base / ".s.PGSQL.5432"
    words = ["sqlite" if platform.kind == "sqlite" else "server", path, server.address]
    result = cupel.run("--post-process", "step", script, *words)
    assert (result.cause, result.stdout) == ("ok", "[] ['provenance.json']\n"), result.stderr
    status, out, _ = cupel.call("/usr/bin/python3", script, *words)
    assert (status, out.split("]")[0]) == (0, "['path', 'address'"), "the control, from outside"


def refused(cupel, *args):
    """What a run is refused with; nothing of it is recorded."""
    before = sorted(os.listdir(cupel.home / "runs")) if (cupel.home / "runs").exists() else []
    result = cupel.run(*args)
    assert result.status == 2, (result.status, result.stderr)
    assert result.stderr.count("\n") == 1
    now = sorted(os.listdir(cupel.home / "runs")) if (cupel.home / "runs").exists() else []
    assert now == before
    return result.stderr


def test_what_is_wrong_is_said_with_its_place_before_anything_runs(cupel):
    platform = platforms.Sqlite(cupel)
    script = platforms.declare(cupel, platform)
    base = cupel.settings

    def said(change, text="command: [\"true\"]\npost_process: step\n"):
        cupel.configure(change(base))
        return refused(cupel, analysis(cupel, text))

    cupel.configure(base)
    assert cupel.run(analysis(cupel, "command: [\"true\"]\n")).cause == "ok"
    text = refused(cupel, analysis(cupel, "command: [\"true\"]\npost_process: stp\n"))
    assert "analysis.yaml:2:15: there is no step 'stp'; there are: step" in text
    text = refused(cupel, analysis(cupel, "command: [\"true\"]\npost_process: {script: x}\n"))
    assert "analysis.yaml:2:15: expected the name of a step" in text
    assert "cupel.yaml:6:15" in said(lambda c: c.replace("platform.db", "none.db"))
    text = said(lambda c: c.replace(platform.url, "postgresql://app@/x?host=/nowhere"))
    assert "cupel.yaml:6:15" in text and "no server's socket" in text
    for bad in ("mysql://x", "postgresql://nobody", "postgresql://u@h,i/d", "sqlite:relative",
                "postgresql://u@h/d?sslmode=require"):
        assert "cupel.yaml:6:15" in said(lambda c, bad=bad: c.replace(platform.url, bad))
    text = said(lambda c: c.replace("step.py", "none.py"))
    assert "cupel.yaml:3:3" in text and "none.py" in text
    assert "cupel.yaml:3:3" in said(lambda c: c + "    runtime: nowhere\n")
    assert "cupel.yaml:3:3" in said(lambda c: c + "    command: [x]\n")
    assert "cupel.yaml:3:3" in said(lambda c: c + "    user: no-such-user-here\n")
    assert "databse" in said(lambda c: c.replace("database", "databse"))
    script.chmod(0)
    os.chown(script, 0, 0)
    text = said(lambda c: c)
    assert "cupel.yaml:3:3" in text and ("may read it" in text or "denied" in text) and "chmod" not in text
    platform.path.write_text("no database at all", encoding="utf-8")
    script.chmod(0o644)
    assert "not an SQLite file" in said(lambda c: c)


def test_a_project_declares_no_step(cupel):
    platform = platforms.Sqlite(cupel)
    project = cupel.dir / "project"
    project.mkdir(exist_ok=True)
    file = project / "cupel.yaml"
    file.write_text(f"post_processes: {{step: {{command: [x], database: '{platform.url}'}}}}\n",
                    encoding="utf-8")
    for path in (project, file):
        cupel.own(path)
    status, _, err = cupel.call(cupel.binary, "run", "--", "true", cwd=project)
    assert status == 2 and "cupel.yaml:1:1: 'post_processes' is the host's to say" in err
    shutil.rmtree(project)


def test_a_project_has_no_say_in_the_runtime_of_a_step(cupel):
    """Its own `base` would be a place for its own programs."""
    platform = platforms.Sqlite(cupel)
    platforms.declare(cupel, platform, script="print('the host\\'s')\n")
    project = cupel.dir / "project"
    (project / "runtimes.d").mkdir(parents=True)
    (project / "cupel.yaml").write_text("{}\n", encoding="utf-8")
    (project / "runtimes.d/base.yaml").write_text(
        "name: base\nkind: system\nenv: {SPOILED: 'yes'}\n", encoding="utf-8")
    for path in (project, *project.rglob("*")):
        cupel.own(path)
    run = ("--post-process", "step", "--", "sh", "-c", "echo $SPOILED; " + CSV)
    result = cupel.run(*run, cwd=project)
    assert (result.cause, result.stdout) == ("ok", "yes\n"), "the control: it holds for the analysis"
    plan = json.loads((step_of(cupel, result).run_dir / "plan.json").read_text(encoding="utf-8"))
    assert not [word for word in plan["env"] if "SPOILED" in word]
    shutil.rmtree(project)


def test_no_step_runs_as_root(root):
    platform = platforms.Sqlite(root)
    platforms.declare(root, platform)
    os.chown(platform.path, 0, 0)
    assert "belongs to root" in refused(root, "--post-process", "step", "--", "true")


def test_no_step_has_the_group_of_root(root):
    """`chown USER FILE`, as the remedy has it, leaves the file in the group of whoever made it."""
    platform = platforms.Sqlite(root)
    platforms.declare(root, platform, script="open('/run/cupel/database/made', 'x').close()\n")
    made = platform.folder / "made"
    groups = []
    for group in (platform.uid, 0):
        os.chown(platform.path, platform.uid, group)
        assert taken(root).cause == "ok"
        groups.append((made.stat().st_uid, made.stat().st_gid))
        made.unlink()
    assert groups == [(platform.uid, platform.uid)] * 2


def wait_for_step(cupel, run_id):
    log = cupel.run_dir(f"{run_id}-post") / "stdout.log"
    assert lib.wait_until(lambda: log.exists() and log.read_bytes() == b"inserted\n")


@pytest.mark.parametrize("by", ["sqlite"])
def test_a_run_is_cancelled_in_its_step(cupel, platform):
    platforms.declare(cupel, platform, script=platforms.STEP, args=["sleep"])
    process, run_id = cupel.start("--post-process", "step", "--", "sh", "-c", CSV,
                                  stderr=subprocess.DEVNULL)
    with platforms.killed(process):
        wait_for_step(cupel, run_id)
        process.send_signal(signal.SIGINT)
        assert process.wait(60 * lib.SLOW) == 130
    verdicts = [json.loads((cupel.run_dir(name) / "verdict.json").read_text(encoding="utf-8"))
                for name in (run_id, f"{run_id}-post")]
    assert [verdict["cause"] for verdict in verdicts] == ["cancelled", "cancelled"]
    assert (cupel.run_dir(run_id) / "partial").exists()
    assert platform.query("SELECT * FROM results") == []


@pytest.mark.parametrize("by", ["sqlite", "tcp"])
def test_the_keeper_is_killed_in_its_step(cupel, platform):
    """The next command finds all dead; neither run is a success, and nothing is in the database."""
    platforms.declare(cupel, platform, script=platforms.STEP, args=["sleep"])
    process, run_id = cupel.start("--post-process", "step", "--", "sh", "-c", CSV,
                                  stderr=subprocess.DEVNULL)
    with platforms.killed(process):
        wait_for_step(cupel, run_id)
        event = (cupel.run_dir(run_id) / "events.jsonl").read_text(encoding="utf-8").splitlines()[0]
        os.kill(json.loads(event)["data"]["keeper_pid"], signal.SIGKILL)
        assert process.wait(60 * lib.SLOW) == 137
    ends = [cupel.run_dir(name) / "verdict.json" for name in (run_id, f"{run_id}-post")]
    assert lib.wait_until(ends[1].exists), "the keeper of the step has seen it"
    assert cupel.call(cupel.binary, "gc")[0] == 0
    causes = [json.loads(end.read_text(encoding="utf-8"))["cause"] for end in ends]
    assert causes == ["lost", "cancelled"]
    assert lib.wait_until(lambda: not leftovers.processes(cupel))
    assert not list(cupel.run_dir(run_id).glob(".new-*"))
    assert lib.wait_until(lambda: platform.query("SELECT COUNT(*) FROM results") == [("0",)])


def test_others_use_the_sqlite_file_meanwhile(cupel):
    """In WAL mode, with a connection of the platform's that is open all the time."""
    platform = platforms.Sqlite(cupel)
    with contextlib.closing(sqlite3.connect(platform.path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO results VALUES ('platform', 'x')")
        for path in platform.folder.iterdir():
            os.chown(path, platform.uid, platform.uid)
        platforms.declare(cupel, platform, script=platforms.STEP, args=["commit"])
        assert taken(cupel).cause == "ok"
        assert db.execute("SELECT COUNT(*) FROM results").fetchone() == (501,)
        db.execute("INSERT INTO results VALUES ('platform', 'y')")
        assert taken(cupel).cause == "ok"
    assert platform.query("SELECT COUNT(*) FROM results") == [("1002",)]
    assert all(path.stat().st_uid == platform.uid for path in platform.folder.iterdir())


def test_views_tell_of_it(root, server):
    platform = platforms.Postgres(server, "tcp")
    platforms.declare(root, platform, args=["scores", "out/results.csv"])
    result = taken(root)
    run_id = result.run_dir.name
    assert result.cause == "ok", step_of(root, result).log("stderr.log")
    plan = root.call(root.binary, "plan", "--post-process", "step", "--", "true")[1]
    assert "post_process step" in plan and "postgresql://teller:***@" in plan
    text = root.call(root.binary, "plan", "--json", "--post-process", "step", "--", "true")[1]
    assert json.loads(text)["post_process"]["step"] == "step"
    shown = root.call(root.binary, "show", run_id)[1]
    assert f"step: ok (run {run_id}-post)" in shown
    assert json.loads(root.call(root.binary, "show", "--json", run_id)[1])["post_process"]["cause"] == "ok"
    page = pathlib.Path(root.base, "page.html")
    assert root.call(root.binary, "report", "--to", page, run_id)[0] == 0
    assert f"step: ok, in run {run_id}-post" in page.read_text(encoding="utf-8")
    place = pathlib.Path(root.base, "exported")
    assert root.call(root.binary, "export", "--to", place, run_id)[0] == 0
    crate = json.loads((place / "ro-crate-metadata.json").read_text(encoding="utf-8"))
    assert any(e["@id"] == "#post-process" and "ok" in e["value"] for e in crate["@graph"]
               if "value" in e)
    shutil.rmtree(place)


def test_a_server_that_is_not_there_is_named(root, server):
    platform = platforms.Postgres(server, "tcp")
    platform.url = platform.url.replace(":5432", ":1")
    platforms.declare(root, platform, script=platforms.STEP, args=["commit"])
    result = taken(root)
    assert result.cause == "post-process"
    said = step_of(root, result).log("stderr.log").decode()
    assert f"The server at {server.address}:1 can't be reached" in said


def test_a_named_user_is_whom_the_server_sees(root, server):
    """Peer authentication: the server asks the kernel who is at the other end."""
    platform = platforms.Postgres(server)
    platform.url = platform.url.replace("app@", "postgres@")
    platform.change("GRANT ALL ON results TO postgres")
    platforms.declare(root, platform, script=platforms.STEP, args=["commit"])
    assert taken(root).cause == "post-process", "the control: a user of the run's own is nobody"
    root.configure(root.settings
                   + "    user: postgres\n")
    result = taken(root)
    assert result.cause == "ok", step_of(root, result).log("stderr.log")
    step = step_of(root, result)
    assert step.receipt["user"]["uid_host"] == server.account.pw_uid
    assert platform.query("SELECT COUNT(*) FROM results") == [("500",)]


def test_a_step_is_in_the_ledger_and_is_not_run_again_by_itself(root):
    platform = platforms.Sqlite(root)
    platforms.declare(root, platform, args=["scores", "out/results.csv"])
    result = taken(root)
    assert result.cause == "ok", step_of(root, result).log("stderr.log")
    names = [result.run_dir.name, result.run_dir.name + "-post"]
    assert lib.wait_until(lambda: not any((root.home / "undelivered" / name).exists() for name in names))
    with contextlib.closing(sqlite3.connect(root.home / "cupel.db")) as db:
        found = db.execute("SELECT id, cause FROM runs WHERE id IN (?, ?) ORDER BY id", names)
        assert found.fetchall() == [(name, "ok") for name in names]
    status, _, err = root.call(root.binary, "rerun", names[1])
    assert status == 2 and f"took the outputs of '{names[0]}'" in err
    # To compare is no reason to write the platform's database.
    status, _, err = root.call(root.binary, "rerun", "--verify", names[0])
    assert status == 0, err
    assert len(platform.query("SELECT * FROM scores")) == 2
