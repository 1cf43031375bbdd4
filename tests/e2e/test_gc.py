"""cupel gc: what dead runs left and what is too old goes, what lives stays, and a dry run only tells."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

import cupel as lib
import leftovers

DAY = 86400


def gc(caller, *words, status=0):
    got, out, err = caller.call(caller.binary, "gc", "--json", *words)
    assert got == status, (out, err)
    return json.loads(out)


def kinds(report):
    return sorted(item["kind"] for item in report["removed"]["items"])


def contents(home):
    return {str(p): p.lstat().st_mtime_ns for p in home.rglob("*")}


def quiet(caller):
    assert lib.wait_until(lambda: not leftovers.processes(caller))


def die(caller, run_id=None):
    """A run whose keeper and whose caller were killed: its id."""
    process, run_id = caller.start("--", "sleep", "1000", id=run_id)
    with process:
        events = caller.run_dir(run_id) / "events.jsonl"
        assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text())
        keeper = json.loads(events.read_text().splitlines()[0])["data"]["keeper_pid"]
        process.send_signal(signal.SIGSTOP)  # it would sweep
        os.kill(keeper, signal.SIGKILL)
        process.kill()
    return run_id


@pytest.mark.parametrize("entry_is_there", [True, False])
def test_a_directory_of_the_caller_stays(cupel, entry_is_there):
    """Where a run of his was to work and died: his own is never removed, even if it is empty; the run's is."""
    gc(cupel)
    run_id = cupel.new_id()
    place = cupel.work_dir(run_id)
    aside = place.with_name(f".{place.name}")
    place.mkdir(mode=0o755)
    before = cupel.own(place).stat()
    try:
        die(cupel, run_id)
        quiet(cupel)
        assert aside.exists(), "the control: that is where it worked"
        if not entry_is_there:
            (cupel.home / "active" / run_id).unlink()
        assert gc(cupel)["lost"] == 1
        quiet(cupel)
        after = place.stat()
        assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
        if cupel.who == "user" and not entry_is_there:
            subprocess.run(["rm", "-r", str(aside)], check=True)  # nothing says any more whose it is
        assert not aside.exists()
    finally:
        place.rmdir()
    leftovers.assert_nothing_left(cupel)


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


@pytest.mark.parametrize("entry_is_there", [True, False])
def test_a_dead_run(cupel, entry_is_there):
    gc(cupel)
    run_id = die(cupel)
    quiet(cupel)
    if not entry_is_there:
        (cupel.home / "active" / run_id).unlink()
    before = contents(cupel.home)
    report = gc(cupel, "--dry-run")
    assert [i["what"] for i in report["removed"]["items"] if i["kind"] == "dead-run"] == [run_id]
    if not entry_is_there and cupel.groups():
        assert "group" in kinds(report)
    assert contents(cupel.home) == before and not (cupel.run_dir(run_id) / "verdict.json").exists()
    assert f"would remove: dead-run {run_id}" in cupel.call(cupel.binary, "gc", "-n")[1]
    assert gc(cupel)["lost"] == 1
    quiet(cupel)
    if cupel.who == "user" and not entry_is_there:
        # Nothing says any more whose it is; gc removes no directory that may be somebody else's.
        subprocess.run(["rm", "-r", str(cupel.work_dir(run_id))], check=True)
    leftovers.assert_nothing_left(cupel)
    before = contents(cupel.home)
    again = gc(cupel)
    assert (again["lost"], again["removed"]["items"]) == (0, []) and contents(cupel.home) == before
    assert gc(cupel, "--dry-run")["removed"]["items"] == []


def test_what_lives_is_left_alone(cupel):
    quiet(cupel)
    process, run_id = cupel.start("--", "sh", "-c", "echo > out/x; sleep 1000")
    try:
        events = cupel.run_dir(run_id) / "events.jsonl"
        assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text())
        for words in (("--dry-run",), (), ("--older-than", "1ms")):
            report = gc(cupel, *words)
            assert report["alive"] == 1 and report["lost"] == 0, words
            assert not {"dead-run", "group", "working-directory"} & set(kinds(report))
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(timeout=lib.RUN_LIMIT_S)
    assert json.loads((cupel.run_dir(run_id) / "verdict.json").read_text())["cause"] == "cancelled"


def test_another_home_under_the_same_name_is_another_home(fresh):
    """As a service with a /tmp of its own has one, or a container that shares the host's groups."""
    process, run_id = fresh.start("--", "sleep", "1000")
    try:
        events = fresh.run_dir(run_id) / "events.jsonl"
        assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text())
        status, out, err = fresh.call(
            "unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none "$1"; "$2" gc --json', "sh",
            fresh.home, fresh.binary)
        assert status == 0, err
        assert json.loads(out)["alive"] == 0, "the control: it does not see the run"
        assert json.loads(out)["removed"]["items"] == [] and process.poll() is None
        assert (fresh.work_dir(run_id) / "out").is_dir()
    finally:
        process.terminate()
        process.wait(timeout=lib.RUN_LIMIT_S)
    assert json.loads((fresh.run_dir(run_id) / "verdict.json").read_text())["cause"] == "cancelled"


def test_groups_that_no_run_has(fresh):
    """Those with this home's tag go, with what is in them; another home's stay."""
    fresh.run("--", "true")
    home = fresh.home.stat()
    which = f"{fresh.home} {home.st_dev} {home.st_ino}"
    tag = hashlib.sha256(which.encode()).hexdigest()[:8]
    ours = [top / "cupel" / f"gone-{tag}" for top in fresh.trees]
    others = [top / "cupel" / "gone-00000000" for top in fresh.trees]
    for path in ours + others:
        path.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        for path in ours:
            (path / "cgroup.procs").write_text(str(sleeper.pid))
        assert gc(fresh, "--dry-run")["removed"]["groups"] == 1 and sleeper.poll() is None
        report = gc(fresh)
        assert report["removed"]["groups"] == 1, report
        assert sleeper.wait(timeout=60) == -signal.SIGKILL
    assert not any(path.exists() for path in ours) and all(path.exists() for path in others)
    assert gc(fresh)["removed"]["groups"] == 0
    for path in others:
        path.rmdir()


def test_partial_outputs_expire(cupel):
    gc(cupel)
    bad = cupel.run("--", "sh", "-c", "echo half > out/half; false").run_dir
    good = cupel.run("--", "sh", "-c", "echo whole > out/whole").run_dir
    for path in (bad, good):
        age(path / "verdict.json", 29)
    assert gc(cupel)["removed"]["partial"] == 0
    assert gc(cupel, "--dry-run", "--older-than", "28d")["removed"]["partial"] == 1
    for path in (bad, good):
        age(path / "verdict.json", 31)
    assert gc(cupel, "--dry-run")["removed"]["partial"] == 1 and (bad / "partial/out/half").exists()
    cupel.configure("gc: {partial: never}\n")
    assert gc(cupel)["removed"]["partial"] == 0
    cupel.configure("gc: {partial: 40d}\n")
    assert gc(cupel)["removed"]["partial"] == 0
    cupel.configure()
    report = gc(cupel)
    assert [(i["kind"], i["what"]) for i in report["removed"]["items"]] == [("partial", bad.name)]
    assert not (bad / "partial").exists() and (good / "outputs/out/whole").exists()
    assert gc(cupel)["removed"]["items"] == []
    for run in (bad, good):
        status, out, _ = cupel.call(cupel.binary, "audit", "verify", "--outputs", run.name)
        assert status == 0, out
    assert "half" in cupel.call(cupel.binary, "outputs", bad.name)[1], "what there was is on record"
    (bad / "partial.expired").unlink()
    assert cupel.call(cupel.binary, "audit", "verify", "--outputs", bad.name)[0] == 1, "else it is missed"


def test_temporary_files_and_the_store(fresh):
    run = fresh.run("--", "sh", "-c", "echo x > out/x").run_dir
    quiet(fresh)
    old, new = fresh.home / ".new-0123", fresh.home / ".new-4567"
    other = fresh.home / "else"
    for path in (old, new, other):
        path.write_text("?")
    age(old, 1)
    age(other, 1)
    subprocess.run(["rm", "-r", str(run)], check=True)
    before = contents(fresh.home)
    report = gc(fresh, "--dry-run")
    assert kinds(report) == ["store", "temporary"] and report["pruned"] == 1
    assert contents(fresh.home) == before
    report = gc(fresh)
    assert (report["pruned"], report["removed"]["temporary"]) == (1, 1)
    assert not old.exists() and new.exists() and other.exists()
    record = json.loads((fresh.home / "health/gc.json").read_text())
    assert record["status"] == "ok" and "1 other leftovers" in record["summary"]
    assert gc(fresh)["removed"]["items"] == []
    for path in (new, other):
        path.unlink()


def put_key(home, key, run_id):
    """An entry as finished_put writes it."""
    body = json.dumps({"key": key, "outputs": [], "run": run_id, "time": "2026-01-01T00:00:00.000Z"})
    place = home / "keys" / key[:2] / key[2:]
    place.parent.mkdir(0o700, parents=True, exist_ok=True)
    place.write_text(f"cupel-finished 1 {hashlib.sha256(body.encode()).hexdigest()}\n{body}")
    return place


def test_results_by_key(fresh):
    kept, gone = (fresh.run("--", "true").run_dir for _ in range(2))
    good = put_key(fresh.home, "ab" * 32, kept.name)
    bad = put_key(fresh.home, "cd" * 32, gone.name)
    torn = put_key(fresh.home, "ce" * 32, kept.name)
    torn.write_text(torn.read_text()[:-1])
    other = good.parent / "README"
    old = good.parent / ".new-0123"
    for path in (other, old):
        path.write_text("?")
    age(old, 1)
    quiet(fresh)
    subprocess.run(["rm", "-r", str(gone)], check=True)
    before = contents(fresh.home)
    assert gc(fresh, "--dry-run")["removed"]["keys"] == 2 and contents(fresh.home) == before
    report = gc(fresh)
    assert (report["removed"]["keys"], report["removed"]["temporary"]) == (2, 1)
    assert kinds(report) == ["keys", "temporary"]
    assert good.exists() and other.exists()
    assert not bad.exists() and not torn.exists() and not old.exists()
    assert gc(fresh)["removed"]["items"] == []


def test_keys_pipelines_and_contents_of_runtimes_are_known(fresh):
    """What pipelines keep in the home is nothing that a check of the home stumbles over."""
    run = fresh.run("--", "true").run_dir
    quiet(fresh)
    before = [fresh.call(fresh.binary, *words)[0] for words in LOOKS]
    put_key(fresh.home, "ab" * 32, run.name)
    for path in ("pipelines/p1/pipeline.json", "runtimes/base/content-01234567.json"):
        (fresh.home / path).parent.mkdir(0o700, parents=True)
        (fresh.home / path).write_text("{}")
    after = [fresh.call(fresh.binary, *words) for words in LOOKS]
    assert [status for status, _, _ in after] == before, after
    assert all(status == 0 for words, status in zip(LOOKS, before) if words != ("health",)), before


LOOKS = (
    ("verify",),
    ("audit", "verify"),
    ("health",),
    ("runtime", "list"),
    ("runtime", "show", "base"),
    ("list",),
    ("ledger", "check"),
    ("gc",),
)


def test_usage(fresh):
    assert gc(fresh)["removed"]["items"] == [] and not fresh.home.exists(), "no home, nothing made"
    for words in (("x",), ("--older-than", "x"), ("--older-than", "0s"), ("--dry",)):
        assert fresh.call(fresh.binary, "gc", *words)[0] == 2, words
    fresh.configure("gc: {partial: soon}\n")
    status, _, err = fresh.call(fresh.binary, "gc")
    assert status == 2 and f"{fresh.config}:2:15: " in err and "never" in err
    fresh.configure()
    (fresh.dir / "cupel.yaml").write_text("gc: {partial: 1ms}\n")
    assert "host's to say" in fresh.call(fresh.binary, "gc")[2]
    (fresh.dir / "cupel.yaml").unlink()


# A sweep removes what runs of its own home made, and nothing else.


def forge_claim(caller, run_id):
    """What a keeper leaves that dies as soon as it has taken the id."""
    run_dir = caller.run_dir(run_id)
    run_dir.mkdir(parents=True)
    entry = caller.home / "active" / run_id
    entry.parent.mkdir(exist_ok=True)
    entry.write_text(f"{caller.work_dir(run_id)}\n{caller.parent}\n", encoding="utf-8")
    for path in (caller.home, caller.home / "runs", run_dir, entry.parent, entry):
        caller.own(path)
    return run_dir


def sweep(caller):
    status, out, err = caller.call(caller.binary, "gc", "--json")
    assert status == 0, err
    return json.loads(out)["lost"]


def test_a_directory_that_the_dead_run_did_not_make_stays(cupel):
    run_id = cupel.new_id()
    foreign = cupel.work_dir(run_id)
    foreign.mkdir()
    try:
        cupel.own(foreign)
        (foreign / "precious").write_text("x", encoding="utf-8")
        forge_claim(cupel, run_id)
        assert sweep(cupel) == 1 and lib.verdict_of(cupel, run_id)["cause"] == "lost"
        assert (foreign / "precious").read_text(encoding="utf-8") == "x"
    finally:
        shutil.rmtree(foreign)


def test_a_run_of_another_home_with_the_same_id_lives_on(cupel):
    run_id = cupel.new_id()
    other = cupel.base / "other"
    share = cupel.base / f"share-{run_id}"
    share.mkdir()
    script = "echo up; until test -e data/share/go; do sleep 0.05; done; echo x > out/x"
    process, _ = cupel.start(
        "--data",
        f"{share}:share",
        "--",
        "sh",
        "-c",
        script,
        id=run_id,
        env={"CUPEL_HOME": str(other)},
        stdout=subprocess.PIPE,
    )
    with lib.going_on(process):
        assert process.stdout.readline() == b"up\n"
        forge_claim(cupel, run_id)
        assert sweep(cupel) == 1
        (share / "go").touch()
        assert process.wait(lib.RUN_LIMIT_S) == 1
    # The sign to go was put into an input.
    assert lib.verdict_of(cupel, run_id, other)["cause"] == "input-changed"
    assert (other / "runs" / run_id / "partial/out/x").read_text(encoding="utf-8") == "x\n"
    assert not cupel.work_dir(run_id).exists()


def test_outputs_that_no_verdict_vouches_for_are_set_aside(cupel):
    run_dir = forge_claim(cupel, cupel.new_id())
    (run_dir / "outputs").mkdir()
    cupel.own(run_dir / "outputs")
    (run_dir / "outputs/result").write_text("x", encoding="utf-8")
    assert sweep(cupel) == 1 and not (run_dir / "outputs").exists()
    assert (run_dir / "partial/result").read_text(encoding="utf-8") == "x"
