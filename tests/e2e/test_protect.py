"""protect: what analyses must never change is watched around each run and compared with what was accepted."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading

import pytest

import cupel as lib
import leftovers
import platforms
import ledgers

pytestmark = pytest.mark.test_all


class Guarded:
    """A caller whose configuration protects things in a directory of their own."""

    def __init__(self, caller):
        self.caller = caller
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="cupel-protected-"))
        self.place.chmod(0o755)
        self.site = self.place / "site"
        (self.site / "sub").mkdir(parents=True)
        for name in ("a", "b", "sub/c"):
            (self.site / name).write_text(f"{name}\n")
        (self.site / "link").symlink_to("a")
        self.api = self.place / "api.py"
        self.api.write_text("serve()\n")

    def protect(self, *things):
        self.caller.configure("protect: " + json.dumps([str(thing) for thing in things]) + "\n")

    def call(self, *words, status=0):
        got, out, err = self.caller.call(self.caller.binary, "protect", words[0], "--json", *words[1:])
        assert got == status, (out, err)
        return json.loads(out)

    def accept(self, *things):
        return self.call("accept", *things)

    def changes(self, *words):
        """What a check names, thing by thing."""
        answers = self.call("check", *words, status=1)
        named = {}
        for one in (one for a in answers for one in a["first"]):
            named.setdefault((one["kind"], one["what"]), []).append(one["detail"])
        return {key: "; ".join(filter(None, details)) for key, details in named.items()}

    def while_running(self, change, count=1):
        """The events about what is protected of runs that were alive while it was changed."""
        started = [self.caller.start("--", "sh", "-c", "echo > out/up; sleep 1000") for _ in range(count)]
        try:
            for _, run_id in started:
                up = self.caller.run_dir(run_id) / "events.jsonl"
                assert lib.wait_until(lambda: up.exists() and '"started"' in up.read_text())
            change()
        finally:
            for process, _ in started:
                process.terminate()
            for process, _ in started:
                process.wait(timeout=lib.RUN_LIMIT_S)
        return [self.events(run_id) for _, run_id in started], [run_id for _, run_id in started]

    def events(self, run_id):
        lines = (self.caller.run_dir(run_id) / "events.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"].startswith("protected-")]

    def record(self, subject):
        for path in (self.caller.home / "health").glob("protect*.json"):
            record = json.loads(path.read_text())
            if record["subject"] == str(subject):
                return record
        return None

    def close(self):
        self.caller.configure()
        shutil.rmtree(self.caller.home / "protect", ignore_errors=True)
        shutil.rmtree(self.caller.home / "health", ignore_errors=True)
        shutil.rmtree(self.place)


@pytest.fixture
def guarded(cupel):
    made = Guarded(cupel)
    yield made
    made.close()


@pytest.fixture
def rooted(callers):
    """A home of its own: one of the tests protects all that is around it. Working directories may not be below that: they are in /tmp."""
    callers("root")  # skips where there is none
    caller = lib.Cupel("root")
    made = Guarded(caller)
    yield made
    made.close()
    leftovers.assert_nothing_left(caller)
    caller.close()


def replace(path, text):
    """Other bytes, the same length, and the old mtime."""
    before = path.stat()
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_nothing_is_changed_and_nothing_is_said(guarded):
    guarded.protect(guarded.site, guarded.api)
    assert [a["status"] for a in guarded.call("check", status=2)] == ["new", "new"]
    result = guarded.caller.run("--", "true")
    assert result.cause == "ok" and guarded.events(result.run_dir.name) == []
    accepted = guarded.accept()
    assert [(a["kind"], a["files"], a["changes"]) for a in accepted] == [("tree", 4, 0), ("file", 1, 0)]
    for words in (("check",), ("check", "--deep"), ("status",)):
        assert [a["status"] for a in guarded.call(*words)] == ["ok", "ok"]
    assert guarded.while_running(lambda: None)[0] == [[]], "the control of all below"
    os.link(guarded.site / "a", guarded.place / "elsewhere")
    assert [a["status"] for a in guarded.call("check")] == ["ok", "ok"], "read, and the same"
    status, out, _ = guarded.caller.call(guarded.caller.binary, "verify", "protect", "--deep", "--json")
    assert status == 0 and json.loads(out)["parts"][0]["things"] == 2


def test_where_nothing_is_declared_nothing_is_done(fresh):
    result = fresh.run("--", "true")
    assert result.cause == "ok" and not any("protected" in e["event"] for e in result.events)
    assert not (fresh.home / "protect").exists() and not (fresh.home / "health").exists()
    assert fresh.call(fresh.binary, "protect", "check", "--json")[:2] == (0, "[]\n")


def test_a_change_while_an_analysis_ran(guarded):
    guarded.protect(guarded.site, guarded.api)
    guarded.accept()

    def change():
        replace(guarded.site / "a", "A\n")
        (guarded.site / "b").unlink()
        (guarded.site / "sub/new").write_text("new")
        (guarded.site / "sub/c").chmod(0o755)
        (guarded.site / "link").unlink()
        (guarded.site / "link").symlink_to("b")
        guarded.api.write_text("serve(all)\n")

    events, ids = guarded.while_running(change, count=2)
    for mine in events:
        assert [e["event"] for e in mine] == ["protected-changed"] * 2
        tree, file = (e["data"] for e in mine)
        assert tree["what"] == str(guarded.site) and tree["changes"] == 5
        assert {(c["kind"], c["what"]) for c in tree["first"]} == {
            ("changed", "a"), ("missing", "b"), ("added", "sub/new"), ("changed", "sub/c"),
            ("changed", "link")}
        assert file["what"] == file["first"][0]["what"] == str(guarded.api)
        assert "size 8 -> 11" in file["first"][0]["detail"]
        assert set(ids) <= set(tree["runs"]) and tree["runs_alive"] >= 2
        assert tree["after"] < tree["before"]
    record = guarded.record(guarded.site)
    assert record["status"] == "changed" and "5 changes while" in record["summary"]
    assert guarded.call("status", guarded.site, status=1)[0]["status"] == "changed"
    for run_id in ids:
        status, out, _ = guarded.caller.call(guarded.caller.binary, "audit", "verify", run_id)
        assert status == 0, out

    assert set(guarded.changes()) == set(guarded.changes("--deep"))
    assert "content" in guarded.changes()["changed", "a"], "though its mtime was put back"
    named = [set(answer["runs"]) for answer in guarded.call("check", status=1)]
    assert all(set(ids) <= runs for runs in named), "a check after another check names them, too"
    again = guarded.caller.run("--", "true")
    assert [e["event"] for e in guarded.events(again.run_dir.name)] == ["protected-differs"] * 2
    assert guarded.call("accept", guarded.api)[0]["changes"] == 1
    assert [a["status"] for a in guarded.call("check", status=1)] == ["changed", "ok"]
    assert guarded.call("accept", guarded.site)[0]["changes"] == 5
    assert [a["status"] for a in guarded.call("check", "--deep")] == ["ok", "ok"]
    guarded.api.write_text("serve(none of them)\n")
    assert [a["runs"] for a in guarded.call("check", guarded.api, status=1)] == [[]], "nothing ran"
    guarded.accept()
    assert guarded.events(guarded.caller.run("--", "true").run_dir.name) == []


def test_verify_names_what_was_changed(rooted):
    rooted.protect(rooted.site)
    rooted.accept()
    replace(rooted.site / "sub/c", "sub/C\n")
    status, out, _ = rooted.caller.call(rooted.caller.binary, "verify", "protect", "--json")
    one = json.loads(out)["findings"][0]
    assert status == 1 and one["where"] == f"{rooted.site}: sub/c" and one["kind"] == "changed"
    assert f"cupel protect accept '{rooted.site}'" in one["remedy"]


def test_what_is_not_there(rooted):
    rooted.protect(rooted.place / "later")
    assert rooted.accept()[0]["kind"] == "missing"
    assert rooted.call("check")[0]["status"] == "ok"
    events, _ = rooted.while_running(lambda: (rooted.place / "later").mkdir())
    assert events[0][0]["data"]["first"][0]["kind"] == "added"
    rooted.accept()
    (rooted.place / "later").rmdir()
    assert rooted.changes() == {("missing", str(rooted.place / "later")): ""}


def test_links_bytecode_and_the_own_home(rooted):
    """A link is watched and so is what it leads to; bytecode counts; cupel's own records don't."""
    caller = rooted.caller
    (rooted.place / "way").symlink_to(rooted.site)
    cache = rooted.site / "__pycache__"
    cache.mkdir()
    (cache / "a.cpython-311.pyc").write_text("bytes")
    rooted.protect(rooted.place / "way", caller.base)
    names = [a["what"] for a in rooted.accept()]
    assert names == [str(rooted.place / "way"), str(rooted.site), str(caller.base)]
    (cache / "a.cpython-311.pyc").write_text("other")
    assert set(rooted.changes(str(rooted.site))) == {("changed", "__pycache__/a.cpython-311.pyc")}
    rooted.accept()
    assert caller.run("--", "true").cause == "ok"
    assert [a["status"] for a in rooted.call("check", "--deep")] == ["ok"] * 3


def test_a_tree_that_is_too_large_and_one_that_never_rests(rooted):
    rooted.protect(rooted.site)
    rooted.accept()
    for path in (rooted.caller.home / "protect").glob("*.json"):
        baseline = json.loads(path.read_text())
        path.write_text(json.dumps({**baseline, "files": 200000}))
    events = rooted.events(rooted.caller.run("--", "true").run_dir.name)
    assert [e["event"] for e in events] == ["protected-unchecked"]
    assert "more than 100000 files" in events[0]["data"]["error"]
    rooted.accept()
    stop = threading.Event()

    def restless():
        while not stop.is_set():
            for number in range(50):
                (rooted.site / f"t{number}").write_text("x")
            for number in range(50):
                (rooted.site / f"t{number}").unlink()

    thread = threading.Thread(target=restless)
    thread.start()
    try:
        assert rooted.caller.run("--", "true").cause == "ok", "no run fails for it"
        status, out, err = rooted.caller.call(rooted.caller.binary, "protect", "check", "--deep", "--json")
        answer = json.loads(out)[0]
        assert (status, answer["status"]) in ((0, "ok"), (1, "changed"), (2, "unchecked")), err
        assert answer["status"] != "unchecked" or "all the time" in answer["error"]
    finally:
        stop.set()
        thread.join()
    assert rooted.call("check")[0]["status"] == "ok"


def test_what_a_user_may_not_read(user):
    mine = Guarded(user)
    try:
        os.chown(mine.site, 0, 0)
        (mine.site / "sub").chmod(0o700)
        mine.protect(mine.site, mine.api)
        status, out, err = user.call(user.binary, "protect", "accept", "--json")
        assert status == 2 and "sub" in err and "denied" in err
        assert [a["what"] for a in json.loads(out)] == [str(mine.api)], "the other one is accepted"
        result = user.run("--", "true")
        assert result.cause == "ok"
        events = mine.events(result.run_dir.name)
        assert [e["event"] for e in events] == ["protected-unchecked"]
        assert "denied" in events[0]["data"]["error"]
        assert mine.call("check", mine.api)[0]["status"] == "ok"
    finally:
        mine.close()


def test_a_damaged_baseline(rooted):
    rooted.protect(rooted.site)
    rooted.accept()
    for pattern in ("*.manifest", "*.json"):
        path = next((rooted.caller.home / "protect").glob(pattern))
        path.write_text(path.read_text()[:-20])
        (rooted.site / "a").write_text("more\n" + pattern)
        answer = rooted.call("check", status=2)[0]
        assert answer["status"] == "unchecked" and "protect accept" in answer["error"]
        rooted.accept()
        assert rooted.call("check")[0]["status"] == "ok"
    assert len(list((rooted.caller.home / "protect").iterdir())) == 2


def test_usage(rooted):
    rooted.protect(rooted.site)
    call = rooted.caller.call
    for words in ((), ("chek",), ("check", "/etc"), ("accept", "--deep"), ("check", rooted.site / "a")):
        status, _, err = call(rooted.caller.binary, "protect", *words)
        assert status == 2 and err.startswith("cupel: "), words
    assert f"lies in {rooted.site}" in err


def test_a_project_watches_nothing(rooted):
    """It may keep its paths from being shown, which costs only itself; databases are not its to name."""
    rooted.protect(rooted.site)
    project = rooted.caller.dir / "project"
    project.mkdir()
    file = project / "cupel.yaml"
    try:
        file.write_text("protect: [own]\n")
        out = rooted.caller.call(rooted.caller.binary, "protect", "status", "--json", cwd=project)[1]
        assert [a["what"] for a in json.loads(out)] == [str(rooted.site)]
        shown = rooted.caller.call(rooted.caller.binary, "config", cwd=project)[1]
        assert str(project / "own") in shown
        file.write_text("protect:\n- postgresql://u:secret@h/db\n")
        status, _, err = rooted.caller.call(rooted.caller.binary, "config", cwd=project)
        assert status == 2 and f"{file}:2:3: " in err and "host's" in err and "secret" not in err
    finally:
        shutil.rmtree(project)


def sqlite_change(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(sql)
        db.commit()


def test_an_sqlite_file(guarded):
    path = guarded.place / "app?.db"
    sqlite_change(path, "CREATE TABLE users (name TEXT, age); CREATE VIEW v AS SELECT name FROM users; "
                  "INSERT INTO users VALUES ('ann', 1), ('bob', NULL), ('eve', x'00');")
    path.chmod(0o644)
    guarded.protect(f"sqlite:{path}")
    guarded.accept()
    seen = sorted(os.listdir(guarded.place)), path.stat().st_mtime_ns
    assert guarded.call("check", "--deep")[0]["status"] == "ok"
    assert (sorted(os.listdir(guarded.place)), path.stat().st_mtime_ns) == seen, "only looked at"
    sqlite_change(path, "VACUUM")
    assert guarded.call("check", "--deep")[0]["status"] == "ok", "other bytes, the same rows"
    changes = {
        "UPDATE users SET age = 2 WHERE name = 'ann'": (("changed", "users"), "other values in its 3 rows"),
        "UPDATE users SET age = 'a' || char(0) || 'b'": (("changed", "users"), "other values in its 3 rows"),
        "UPDATE users SET age = 'a' || char(0) || 'c'": (("changed", "users"), "other values in its 3 rows"),
        "INSERT INTO users VALUES ('mallory', 9)": (("changed", "users"), "3 rows -> 4"),
        "DROP VIEW v": (("missing", "view v"), "in the schema"),
        "CREATE TABLE more (x)": (("added", "table more"), "in the schema"),
        "ALTER TABLE users ADD COLUMN admin": (("changed", "table users"), "how it is made"),
    }
    for sql, (key, detail) in changes.items():
        sqlite_change(path, sql)
        assert detail in guarded.changes("--deep")[key], sql
        guarded.accept()
    events, _ = guarded.while_running(lambda: sqlite_change(path, "DELETE FROM users"))
    assert events[0][0]["event"] == "protected-changed"
    assert guarded.changes("--deep")["changed", "users"] == "4 rows -> 0"
    assert set(guarded.changes()) == {("changed", str(path))}, "by stat nothing is known of what is in it"
    path.unlink()
    assert ("missing", f"sqlite:{path}") in guarded.changes()


WATCHED = {  # what each level notices by `check --deep`
    "INSERT INTO users VALUES ('eve', 3)": {"rows", "content"},
    "UPDATE users SET age = 7": {"content"},
    "CREATE TABLE more (x int)": {"schema", "rows", "content"},
}


@pytest.mark.parametrize("level", ["schema", "rows", "content"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_how_closely_a_database_is_watched(rooted, request, kind, level):
    made = "CREATE TABLE users (name text, age int); INSERT INTO users VALUES ('ann', 1), ('bob', 2);"
    if kind == "sqlite":
        path = rooted.place / "app.db"
        change, url = (lambda sql: sqlite_change(path, sql)), f"sqlite:{path}"
    else:
        server = request.getfixturevalue("server")
        db = ledgers.PostgresLedger(server)
        change, url = (lambda sql: server.psql(db.name, sql)), db.url
    change(made)
    rooted.caller.configure("protect: " + json.dumps([{"database": url, "watch": level}]) + "\n")
    for sql, levels in WATCHED.items():
        rooted.accept()
        assert rooted.call("check", "--deep")[0]["status"] == "ok"
        change(sql)
        status, word = (1, "changed") if level in levels else (0, "ok")
        assert rooted.call("check", "--deep", status=status)[0]["status"] == word, sql
        if kind == "sqlite" and level != "content":  # a server counts late, and the file itself has changed
            assert rooted.call("check", status=status)[0]["status"] == word, sql
    if level == "schema":
        rooted.accept()
        events, _ = rooted.while_running(lambda: change("DELETE FROM users"))
        assert events[0] == [] and rooted.call("check")[0]["status"] == "ok"


@pytest.mark.parametrize("level", ["rows", "content"])
def test_a_level_that_was_raised_is_accepted_again(rooted, level):
    """What was accepted has no rows to compare with: that is said, not taken for the same."""
    path = rooted.place / "app.db"
    sqlite_change(path, "CREATE TABLE users (name text); INSERT INTO users VALUES ('ann')")
    watch = lambda one: rooted.caller.configure("protect: " + json.dumps([{"database": f"sqlite:{path}", "watch": one}]) + "\n")
    watch("schema")
    rooted.accept()
    watch(level)
    sqlite_change(path, "DELETE FROM users")
    found = rooted.call("check", "--deep", status=1)[0]
    assert found["status"] == "changed"
    assert "accept it again" in json.dumps(found)
    rooted.accept()
    assert rooted.call("check", "--deep")[0]["status"] == "ok"


def test_a_level_that_is_none_is_named(rooted):
    for entry, words in (({"database": "sqlite:/x", "watch": "closely"}, "known: schema, rows, content"), ({"watch": "rows"}, "'database' is missing"),
                         ({"database": "/etc", "watch": "rows"}, "expected a database"), ({"database": "sqlite:/x", "odd": 1}, "odd")):
        rooted.caller.configure("protect: " + json.dumps([entry]) + "\n")
        status, _, err = rooted.caller.call(rooted.caller.binary, "protect", "status")
        assert status == 2 and words in err and "cupel.yaml:2:" in err, err


def test_an_sqlite_file_that_is_being_written(rooted):
    """In rollback mode a writer changes the file itself: SQLite's locks tell when it may be read."""
    path = rooted.place / "app.db"
    sqlite_change(path, "CREATE TABLE t (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                  "INSERT INTO t SELECT printf('%01000d', i) FROM n;")
    rooted.protect(f"sqlite:{path}")
    rooted.accept()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("PRAGMA cache_size = 5; BEGIN IMMEDIATE; UPDATE t SET x = x || 'longer'; DELETE FROM t WHERE rowid % 2;")
        answer = rooted.call("check", "--deep", status=2)[0]
        assert answer["status"] == "unchecked" and "database is locked" in answer["error"], answer
        db.execute("ROLLBACK")
        assert rooted.call("check", "--deep")[0]["status"] == "ok", "nothing was committed"
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM t WHERE rowid = 1")
        assert rooted.call("check", "--deep")[0]["status"] == "ok", "a writer that has only begun is no hindrance"
        db.execute("COMMIT")
    assert rooted.changes("--deep")["changed", "t"] == "2000 rows -> 1999"


def test_an_sqlite_file_whose_writer_died(rooted):
    """Its journal is left alone: only its own program may play it back."""
    path = rooted.place / "app.db"
    sqlite_change(path, "CREATE TABLE t (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                  "INSERT INTO t SELECT printf('%01000d', i) FROM n;")
    rooted.protect(f"sqlite:{path}")
    rooted.accept()
    script = "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.executescript('PRAGMA cache_size = 5; BEGIN; DELETE FROM t WHERE rowid % 2'); os._exit(0)"
    subprocess.run(["/usr/bin/python3", "-c", script, path], check=True)
    journal = path.with_name("app.db-journal")
    before = path.read_bytes(), journal.read_bytes()
    answer = rooted.call("check", "--deep", status=2)[0]
    assert answer["status"] == "unchecked" and "open it once with its own program" in answer["error"], answer
    assert (path.read_bytes(), journal.read_bytes()) == before
    sqlite_change(path, "SELECT count(*) FROM t")
    assert rooted.call("check", "--deep")[0]["status"] == "ok"


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_nothing_is_made_beside_an_sqlite_file(rooted, mode):
    """Also in a directory that nobody can write."""
    path = rooted.place / "shelf/app.db"
    path.parent.mkdir()
    sqlite_change(path, f"PRAGMA journal_mode = {mode}; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    os.chown(path, platforms.PLATFORM_ID, platforms.PLATFORM_ID)
    rooted.protect(f"sqlite:{path}")
    for owner in (platforms.PLATFORM_ID, 0):  # may the file's owner write there?
        os.chown(path.parent, owner, owner)
        rooted.accept()
        assert rooted.call("check", "--deep")[0]["status"] == "ok"
        assert os.listdir(path.parent) == ["app.db"]


def test_an_sqlite_file_with_a_log(rooted):
    """What is in the log only counts too, and whoever has it open is not disturbed."""
    path = rooted.place / "app.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
        rooted.protect(f"sqlite:{path}")
        rooted.accept()
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES (2)")
        assert rooted.call("check", "--deep")[0]["status"] == "ok", "not committed yet"
        db.execute("COMMIT")
        assert rooted.changes("--deep")["changed", "t"] == "1 rows -> 2"


@pytest.mark.parametrize("owner", [0, platforms.PLATFORM_ID])
def test_root_looks_at_an_sqlite_file_with_the_rights_of_its_owner(rooted, owner):
    """What lies beside the file is its owner's to choose, and SQLite writes it: here it is another name of a file of root's."""
    path = rooted.place / "app.db"
    victim = rooted.place / "victim"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
        copy = rooted.place / "copy.db"
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
            os.chown(f"{copy}{ending}", owner, owner)
    rooted.place.chmod(0o755)
    victim.write_text("root's")
    victim.chmod(0o600)
    rooted.protect(f"sqlite:{copy}")
    if owner:
        os.chown(rooted.place, owner, owner)
        rooted.accept()
        assert os.stat(f"{copy}-shm").st_uid == owner
        os.remove(f"{copy}-shm")
    os.link(victim, f"{copy}-shm")
    rooted.caller.call(rooted.caller.binary, "protect", "accept")
    assert (victim.read_bytes() == b"root's") == (owner != 0), "the control: with root's own"


def test_the_owner_of_a_postgresql_database_runs_nothing_as_whoever_looks(rooted, server):
    """Functions and casts that are nearer to what is asked than the server's own."""
    db = ledgers.PostgresLedger(server)
    server.psql(db.name, "CREATE TABLE seen (who text); CREATE TABLE t (x int); INSERT INTO t VALUES (1); "
                "CREATE SCHEMA IF NOT EXISTS cupel; "
                "CREATE FUNCTION cupel.quote_ident(name) RETURNS text LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'a function of the owner'; END $$; "
                "CREATE FUNCTION words(t) RETURNS text LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'a cast of the owner'; END $$; "
                "CREATE CAST (t AS text) WITH FUNCTION words(t) AS IMPLICIT")
    rooted.caller.configure(f"protect: ['{db.url}']\n")
    assert rooted.accept()[0]["kind"] == "postgresql"
    server.psql(db.name, "UPDATE t SET x = 2")
    assert "other values" in rooted.changes("--deep")["changed", "public.t"]


def test_a_postgresql_database(rooted, server):
    db = ledgers.PostgresLedger(server)
    sql = lambda text: server.psql(db.name, text)
    sql("CREATE TABLE users (name text PRIMARY KEY, age int); INSERT INTO users VALUES ('ann', 1), ('bob', 2); "
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    url = db.url.replace("app@", "app:secret@")
    rooted.caller.configure(f"protect: ['{url}']\nledger: {{url: '{db.url}'}}\n")
    answer = rooted.accept()[0]
    assert answer["kind"] == "postgresql" and "secret" not in json.dumps(answer)
    assert rooted.call("check", "--deep")[0]["status"] == "ok"
    result = rooted.caller.run("--", "true")
    assert result.cause == "ok" and lib.wait_until(lambda: not leftovers.processes(rooted.caller))
    assert rooted.call("check", "--deep")[0]["status"] == "ok", "the ledger beside it is not meant"
    changes = {
        "UPDATE users SET age = 9 WHERE name = 'bob'": (("changed", "public.users"), "other values in its 2 rows"),
        "DELETE FROM users WHERE name = 'bob'": (("changed", "public.users"), "2 rows -> 1"),
        "ALTER TABLE users ADD admin bool": (("changed", "public.users"), "how it is made"),
        "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'":
            (("changed", "public.f()"), "how it is made"),
        "CREATE TABLE extra (x int)": (("added", "public.extra"), "in the schema"),
    }
    for text, (key, detail) in changes.items():
        sql(text)
        assert detail in rooted.changes("--deep")[key], text
        rooted.accept()
    events, _ = rooted.while_running(lambda: sql("CREATE INDEX i ON users (age)"))
    data = events[0][0]["data"]
    assert data["first"][0]["what"] == "public.users" and "secret" not in json.dumps(data)
    server.down()
    try:
        answer = rooted.call("check", status=2)[0]
        assert answer["status"] == "unchecked" and "secret" not in json.dumps(answer)
        told = rooted.caller.call(rooted.caller.binary, "protect", "check")[1]
        assert len(told.splitlines()) == 1 and told.count("postgresql://") == 1 and "?" not in told.split("failed: ")[1][:-2]
        result = rooted.caller.run("--", "true")
        assert result.cause == "ok", "no run waits for a database or fails with it"
        assert rooted.events(result.run_dir.name)[0]["event"] == "protected-unchecked"
    finally:
        server.up()
        assert lib.wait_until(lambda: not leftovers.processes(rooted.caller))
