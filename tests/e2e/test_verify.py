"""cupel verify: whatever is spoiled is found and named, with the command that would mend it; what is whole is not."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

import cupel as lib
import leftovers
import ledgers


class Home:
    """A home that tests may spoil: a copy of one that real runs have filled."""

    def __init__(self, caller, home):
        self.caller = caller
        self.home = home

    def copy(self, name):
        target = self.caller.base / name
        subprocess.run(["cp", "-a", self.home, target], check=True, timeout=60)
        return Home(self.caller, target)

    def call(self, *words):
        return self.caller.call(self.caller.binary, *words, env={"CUPEL_HOME": str(self.home)})

    def verify(self, *words, status=0):
        got, out, err = self.call("verify", "--json", *words)
        assert got == status, out + err
        return json.loads(out)

    def finding(self, part, *words):
        """The one that is found, by --json and in words alike."""
        answer = self.verify(part, *words, status=1)
        assert answer["status"] == "problem" and len(answer["findings"]) == 1, answer
        one = answer["findings"][0]
        assert one["part"] == part and one["remedy"]
        out = self.call("verify", part, *words)[1]
        line = f"{part}: {one['where']}: {one['what']}. Remedy: {one['remedy']}\n"
        assert line in out, out
        return one

    def objects(self):
        return sorted((self.home / "store/sha256").glob("*/*"))

    def object(self, text):
        return next(path for path in self.objects() if path.read_text() == text)

    def db(self, sql):
        with contextlib.closing(sqlite3.connect(self.home / "cupel.db")) as db:
            db.executescript(sql)
            db.commit()


@pytest.fixture(scope="module")
def filled(callers):
    callers("root")
    caller = lib.Cupel("root", own_work=True)
    script = "for i in 1 2 3; do echo $1-$i-long > out/$i; done; echo same > out/same"
    for name in ("a", "b"):
        assert caller.run("--", "sh", "-c", script, "sh", name, id=name).cause == "ok"
    assert caller.run("--", "sh", "-c", "echo p > out/p; false", id="c").cause == "exit"
    root = caller.base / "tree"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_text("#!/bin/sh\n")
    (root / "usr/share").mkdir()
    (root / "usr/share/data").write_text("data\n")
    (caller.base / "runtimes.d").mkdir()
    (caller.base / "runtimes.d/small.yaml").write_text(
        f"name: small\nkind: rootfs\nroot: {root}\n")
    assert caller.call(caller.binary, "runtime", "lock", "small")[0] == 0
    home = Home(caller, caller.home)
    home.verify()
    assert lib.wait_until(lambda: not leftovers.processes(caller))
    yield home
    caller.close()


@pytest.fixture
def home(filled, request):
    copy = filled.copy("copy")
    yield copy
    assert lib.wait_until(lambda: not leftovers.processes(copy.caller))  # whoever delivers writes there
    shutil.rmtree(copy.home)


def edit(path, change):
    path.chmod(0o600)
    text = path.read_bytes()
    assert change(text) != text
    path.write_bytes(change(text))


def flip(at):
    return lambda text: text[:at] + bytes([text[at] ^ 0x40]) + text[at + 1:]


def test_what_is_whole(home):
    before = {p: p.stat().st_mtime_ns for p in home.home.rglob("*") if "runs/" in str(p)}
    answer = home.verify("--deep")
    assert answer["findings"] == [] and answer["status"] == "ok"
    parts = {part["part"]: part for part in answer["parts"]}
    assert list(parts) == ["ledger", "chain", "runs", "store", "runtimes", "protect"]
    assert all(part["status"] == "ok" and part["found"] == 0 for part in parts.values())
    assert parts["chain"]["runs"] == 3 and parts["runs"]["runs"] == 3
    assert parts["store"]["objects"] == 7 and parts["store"]["coverage_percent"] == 100
    assert parts["runtimes"]["locked"] == 1
    assert {p: p.stat().st_mtime_ns for p in home.home.rglob("*") if "runs/" in str(p)} == before
    kept = {(r["kind"], r["subject"]): r for r in map(json.loads, (
        path.read_text() for path in (home.home / "health").glob("verify*.json")))}
    assert kept["verify", "store"]["status"] == "ok" and len(kept) == 6
    assert home.verify("--quick", "ledger")["status"] == "ok"


@pytest.mark.parametrize("change, words", [
    (flip(2), "bytes are not those of its name"),
    (lambda text: text[:-3], "cut off: 6 bytes of 9"),
    (lambda text: text + b"x", "bytes are not those of its name"),
    (lambda text: b"", "cut off: 0 bytes of 9"),
])
def test_a_spoiled_object(home, change, words):
    path = home.object("a-2-long\n")
    edit(path, change)
    one = home.finding("store")
    assert one["kind"] == "damaged" and one["where"] == str(path) and words in one["what"]
    assert "the run a has it too" in one["what"] and "cupel rerun a" in one["remedy"]
    assert home.verify("chain")["status"] == "ok", "records only"
    assert home.finding("chain", "--deep")["where"].endswith("runs/a/outputs/out/2")


def test_objects_that_are_missing_extra_swapped_unreadable(home):
    path = home.object("b-1-long\n")
    path.unlink()
    one = home.finding("store")
    assert one["kind"] == "missing" and one["where"] == str(path) and "run b" in one["what"]
    assert subprocess.run(one["remedy"], shell=True, check=False).returncode == 0
    assert home.verify("store")["status"] == "ok", "the remedy helps"
    for name in ("store/sha256/zz", "store/sha256/00"):
        (home.home / name).mkdir(exist_ok=True)
    for name in ("store/sha256/zz", "store/sha256/00/README"):
        if not (home.home / name).is_dir():
            (home.home / name).write_text("?")
    found = home.verify("store", status=1)["findings"]
    assert sorted((f["kind"], f["where"]) for f in found) == [
        ("extra", str(home.home / "store/sha256/00/README")),
        ("extra", str(home.home / "store/sha256/zz"))]
    (home.home / "store/sha256/00/README").unlink()
    (home.home / "store/sha256/zz").rmdir()
    one, other = home.object("a-1-long\n"), home.object("a-3-long\n")
    one.rename(home.home / "aside")
    other.rename(one)
    (home.home / "aside").rename(other)
    found = home.verify("store", status=1)["findings"]
    assert {f["where"] for f in found} == {str(one), str(other)}
    assert all("swapped" in f["what"] for f in found)
    one.unlink()
    one.symlink_to("/etc/passwd")
    assert any("no file" in f["what"] for f in home.verify("store", status=1)["findings"])


def test_the_remedy_for_an_output_with_a_hostile_name_is_one_command(home):
    """Its name was chosen by an analysis, and people copy the remedy into their shell."""
    mark = home.home / "mark"
    name = "a'; touch $CUPEL_MARK; echo '$(touch $CUPEL_MARK)"
    script = ("sh", "-c", 'echo h >"out/$1"', "sh", name)
    assert home.call("run", "-q", "--id", "hostile", "--", *script)[0] == 0
    path = home.object("h\n")
    path.unlink()
    one = home.finding("store")
    assert one["kind"] == "missing" and one["where"] == str(path)
    env = {"CUPEL_MARK": str(mark), "PATH": "/usr/bin:/bin"}
    status = subprocess.run(one["remedy"], shell=True, check=False, env=env).returncode
    assert not mark.exists(), one["remedy"]
    assert status == 0 and home.verify("store")["status"] == "ok", "the remedy helps"


def test_slices_go_round(home):
    (home.home / "verify.json").unlink()
    edit(home.object("same\n"), flip(0))
    found, objects = 0, 0
    for number in range(1, 5):
        status, out, err = home.call("verify", "store", "--json", "--slice", f"{number}/4")
        answer = json.loads(out)
        found += len(answer["findings"])
        objects += answer["parts"][0]["objects"]
        assert answer["parts"][0]["coverage_percent"] == 25 * number, err
        assert status == (1 if answer["findings"] else 0)
    assert found == 1 and objects == 7
    (home.home / "verify.json").unlink()
    seen = [json.loads(home.call("verify", "store", "--json", "--slice", "next/4")[1])
            for _ in range(5)]
    assert sum(a["parts"][0]["objects"] for a in seen[:4]) == 7
    assert seen[4]["parts"][0]["objects"] == seen[0]["parts"][0]["objects"], "the first is due again"


def test_a_limit_of_time_goes_on_where_it_ended(home):
    """A cpu looks at one object at least; so some calls later all were looked at."""
    (home.home / "verify.json").unlink()
    edit(home.object("b-3-long\n"), flip(0))
    found, objects = 0, 0
    for _ in range(20):
        answer = json.loads(home.call("verify", "store", "--json", "--max-time", "1ms")[1])
        assert answer["parts"][0]["objects"] > 0
        found += len(answer["findings"])
        objects += answer["parts"][0]["objects"]
        if answer["parts"][0]["coverage_percent"] == 100:
            break
    assert found == 1 and objects >= 7 and answer["parts"][0]["covered_since"]


def test_spoiled_events(home):
    path = home.home / "runs/b/events.jsonl"
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    one = home.finding("chain")
    assert one["where"] == f"{path}:3" and "SHA-256" in one["what"]
    path.write_bytes(b"".join(lines))
    assert home.verify("chain")["status"] == "ok"


def test_a_ledger_that_differs(home):
    home.db("UPDATE runs SET notes = 'forged' WHERE id = 'a'")
    one = home.finding("runs")
    assert one["where"].endswith("runs/a") and one["remedy"] == "cupel ledger rebuild"
    assert home.verify("ledger")["status"] == "ok", "to the database it is as good as any row"
    assert home.call("ledger", "rebuild")[0] == 0
    assert home.verify()["status"] == "ok", "the remedy helps"
    home.db("DELETE FROM outputs WHERE path = 'out/1'")
    assert len(home.verify("runs", status=1)["findings"]) == 2
    shutil.rmtree(home.home / "runs/c")
    one = home.verify("runs", status=1)["findings"][-1]
    assert "gone" in one["what"] and one["remedy"].startswith(f"restore {home.home}/runs/c from a backup; ")


def test_a_verdict_that_is_gone(home):
    (home.home / "runs/b/verdict.json").unlink()
    one = home.finding("chain")
    assert "b: its verdict.json" in one["what"] and one["remedy"] == f"restore {home.home}/runs/b from a backup"


def test_an_output_that_is_gone(home):
    path = home.home / "runs/b/outputs/out/2"
    path.unlink()
    one = home.finding("store")
    assert one["kind"] == "missing" and one["where"] == str(path)
    assert subprocess.run(one["remedy"], shell=True, check=False).returncode == 0
    assert path.read_text() == "b-2-long\n"
    assert home.verify("store", "--deep")["status"] == "ok", "the remedy helps"
    os.truncate(path, 3)
    assert str(path) not in home.finding("store")["where"], "one file, one finding: that of the store"


def test_no_remedy_runs_what_an_analysis_wrote(fresh):
    """A remedy is copied into a shell, and names of outputs are the analysis's to choose."""
    name = "a'$(touch PWNED)'b"
    assert fresh.run("--", "sh", "-c", 'echo hostile > "out/$1"', "sh", name, id="h").cause == "ok"
    home = Home(fresh, fresh.home)
    kept, stored = fresh.home / f"runs/h/outputs/out/{name}", home.object("hostile\n")
    for path in (kept, stored):
        path.unlink()
        one = home.finding("store")
        assert subprocess.run(one["remedy"], shell=True, check=False, cwd=fresh.dir).returncode == 0
        assert not (fresh.dir / "PWNED").exists() and home.verify("store")["status"] == "ok"


def test_a_run_that_is_gone(home):
    """What would mend it is the run; what acknowledges it is for those who removed it."""
    shutil.rmtree(home.home / "runs/c")
    one = home.finding("chain")
    restore, meant = one["remedy"].split("; if it was removed on purpose: ")
    assert restore == f"restore {home.home}/runs/c from a backup" and meant == "cupel audit removed c"
    assert home.call(*meant.split()[1:])[0] == 0
    assert home.verify("chain")["status"] == "ok", "the remedy helps"


def test_a_broken_index(home):
    home.db("PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
            "'CREATE INDEX runs_by_cause ON runs (home, quest, accepted, id)' "
            "WHERE name = 'runs_by_cause'")
    found = home.verify("ledger", status=1)["findings"]
    assert all("runs_by_cause" in f["what"] for f in found) and found[0]["kind"] == "damaged"
    assert home.verify("ledger", "--quick")["status"] == "ok", "quick does not look at that"


def test_rows_without_their_run(home):
    home.db("DELETE FROM runs WHERE id = 'b'")  # nobody has switched foreign keys on
    found = home.verify("ledger", status=1)["findings"]
    assert all("'runs'" in f["what"] for f in found)
    assert {f["where"].split()[-1] for f in found} >= {"attempts", "events", "outputs", "logs"}


@pytest.mark.parametrize("change", ["page", "header", "text"])
def test_a_flipped_byte_in_the_database(home, change):
    path = home.home / "cupel.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
    text = path.read_bytes()
    at = {"page": (root - 1) * size, "header": 1, "text": text.index(b"collected")}[change]
    edit(path, flip(at))
    answer = home.verify("ledger", "runs", status=1)
    assert answer["findings"][0]["remedy"] == "cupel ledger rebuild"
    expected = {"page": "ledger", "header": "ledger", "text": "runs"}[change]
    assert {f["part"] for f in answer["findings"]} == {expected}
    assert home.call("ledger", "rebuild")[0] == 0
    assert home.verify("ledger", "runs")["status"] == "ok", "the remedy helps"


def test_a_ledger_that_is_not_there(home):
    (home.home / "cupel.db").unlink()
    one = home.finding("ledger")
    assert one["kind"] == "missing" and one["remedy"] == "cupel ledger rebuild"


def test_a_runtime_that_is_not_as_locked(home):
    tool = home.caller.base / "tree/usr/bin/tool"
    times = tool.stat()
    data = tool.read_bytes()
    try:
        tool.write_bytes(b"#!/bin/s!\n")
        one = home.finding("runtimes")
        assert one["kind"] == "changed" and one["where"] == "runtime small: usr/bin/tool"
        assert "cupel runtime lock small" in one["remedy"]
        assert "content" in home.finding("runtimes", "--deep")["what"]
    finally:
        tool.write_bytes(data)
        os.utime(tool, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert home.verify("runtimes", "--deep")["status"] == "ok"


def test_usage(fresh):
    status, out, _ = fresh.call(fresh.binary, "verify", "--json")
    assert status == 0 and json.loads(out)["findings"] == [], "no home, nothing wrong"
    assert not fresh.home.exists(), "looking makes nothing"
    for args in (("stor",), ("--slice", "0/3"), ("--slice", "4/3"), ("--slice", "3"),
                 ("--slice", "1/300"), ("--max-time", "-1s"), ("--dep",)):
        status, _, err = fresh.call(fresh.binary, "verify", *args)
        assert status == 2 and err.startswith("cupel: "), args
    assert "did you mean 'store'" in fresh.call(fresh.binary, "verify", "stor")[2]


@pytest.fixture
def fresh_user(callers):
    """With a home that no other test has spoiled."""
    callers("user")  # skips where there is none
    caller = lib.Cupel("user", own_work=True)
    yield caller
    caller.close()


def test_as_an_ordinary_user(fresh_user):
    user = fresh_user
    result = user.run("--", "sh", "-c", "echo u > out/u")
    assert result.cause == "ok"
    status, out, err = user.call(user.binary, "verify", "--json")
    assert status == 0, out + err
    path = next((user.home / "store/sha256").glob("*/*"))
    path.rename(path.with_suffix(".away"))
    try:
        assert user.call(user.binary, "verify", "store")[0] == 1
    finally:
        path.with_suffix(".away").rename(path)


@pytest.fixture(scope="module")
def server():
    """Of its own: its files are damaged."""
    with ledgers.running() as made:
        yield made


@pytest.mark.test_all
def test_postgresql(fresh, server):
    db = ledgers.PostgresLedger(server)
    fresh.configure(f"ledger: {{url: '{db.url}'}}\n")
    for name in ("a", "b"):
        assert fresh.run("--", "sh", "-c", "echo 1 > out/x", id=name).cause == "ok"
    assert lib.wait_until(lambda: not leftovers.processes(fresh)), "who delivers makes the tables"
    home = Home(fresh, fresh.home)
    answer = home.verify()
    ledger = answer["parts"][0]
    assert any("amcheck" in note for note in ledger["notes"]), "it is said that it was not there"
    db.change("CREATE EXTENSION amcheck SCHEMA public")
    assert not any("amcheck" in note for note in home.verify("ledger")["parts"][0]["notes"])

    db.change("UPDATE runs SET notes = 'forged' WHERE id = 'a'")
    assert home.finding("runs")["where"].endswith("runs/a")
    assert home.call("ledger", "rebuild")[0] == 0 and home.verify()["status"] == "ok"

    ready = "UPDATE pg_index SET indisready = {} WHERE indexrelid = 'cupel.outputs_by_digest'::regclass"
    db.change(ready.format("false"))
    db.change("UPDATE outputs SET sha256 = repeat('0', 64) WHERE run = 'b'; " + ready.format("true"))
    one = home.finding("ledger")
    assert one["where"] == "outputs_by_digest" and "reindex" in one["remedy"]
    assert home.verify("ledger", "--quick")["status"] == "ok", "quick does not compare"
    db.change("REINDEX INDEX cupel.outputs_by_digest")
    assert home.call("ledger", "rebuild")[0] == 0 and home.verify()["status"] == "ok"

    db.change("SET session_replication_role = replica; DELETE FROM runs WHERE id = 'b'")
    found = home.verify("ledger", status=1)["findings"]
    assert {f["where"] for f in found} >= {"table events", "table outputs"}
    assert "'b'" in found[0]["what"]

    db.change("SET session_replication_role = replica; DELETE FROM logs; DELETE FROM events; DELETE "
              "FROM outputs; DELETE FROM attempts; DELETE FROM selections; DELETE FROM runs")
    assert home.call("ledger", "rebuild")[0] == 0 and home.verify("ledger")["status"] == "ok"
    db.change("CHECKPOINT")
    path = server.base / "data" / db.query("SELECT pg_relation_filepath('cupel.logs')")[0][0]
    server.down()
    edit(path, flip(8100))
    server.up()
    home.verify("ledger", status=1)
    found = home.verify("ledger", status=1)["findings"]
    assert any("pages failed their checksum" in f["what"] for f in found), found
    assert any("invalid page" in f["what"] for f in found), found
    server.down()
    try:
        answer = home.verify("ledger", "chain", status=2)
        assert [part["status"] for part in answer["parts"]] == ["unchecked", "ok"]
    finally:
        server.up()
