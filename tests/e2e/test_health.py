"""cupel health: what was found last, how long ago, and the command for what is not well."""

import json
import os
import shutil
import time

import pytest

import cupel as lib


def health(caller, status):
    got, out, err = caller.call(caller.binary, "health", "--json")
    assert got == status, (out, err)
    answer = json.loads(out)
    return {(row["kind"], row["subject"]): row for row in answer["rows"]}, answer["level"]


def write(caller, kind, subject="", status="ok", days=0, detail=None, name=None):
    """As whoever looks leaves it."""
    folder = caller.home / "health"
    folder.mkdir(parents=True, exist_ok=True)
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days * 86400))
    record = {"kind": kind, "subject": subject, "time": when, "status": status,
              "summary": f"{kind} says {status}", "detail": detail}
    path = folder / f"{name or kind + '-' + subject.replace('/', '_')}.json"
    path.write_text(json.dumps(record))
    for made in (caller.home, folder, path):
        caller.own(made)
    return path


PARTS = ["ledger", "chain", "runs", "store", "runtimes"]


def all_well(caller):
    write(caller, "doctor", name="doctor")
    for part in PARTS:
        write(caller, "verify", part)


@pytest.fixture
def clean(cupel):
    shutil.rmtree(cupel.home, ignore_errors=True)
    yield cupel
    shutil.rmtree(cupel.home, ignore_errors=True)


def test_nothing_was_ever_looked_at(clean):
    rows, level = health(clean, 2)
    assert level == "unknown" and set(rows) == {("doctor", ""), *(("verify", p) for p in PARTS)}
    assert all(row["status"] == "never" and row["age_s"] is None for row in rows.values())
    assert rows["verify", "store"]["command"] == "cupel verify store"
    assert not clean.home.exists(), "looking makes nothing"


def test_all_is_well_and_then_not(clean):
    all_well(clean)
    rows, level = health(clean, 0)
    assert level == "ok" and all(0 <= row["age_s"] < 600 for row in rows.values())
    out = clean.call(clean.binary, "health")[1]
    assert out.splitlines()[0].split() == ["WHAT", "STATUS", "AGE", "SUMMARY"]
    assert "cupel verify" not in out, "nothing to do"

    write(clean, "verify", "chain", days=36)
    rows, level = health(clean, 2)
    assert (level, rows["verify", "chain"]["status"]) == ("unknown", "old")
    write(clean, "verify", "chain", days=34)
    assert health(clean, 0)[1] == "ok"

    write(clean, "verify", "store", status="problem")
    rows, level = health(clean, 1)
    assert level == rows["verify", "store"]["level"] == "problem"
    assert "verify store: cupel verify store\n" in clean.call(clean.binary, "health")[1]
    write(clean, "doctor", status="weak", name="doctor")
    write(clean, "verify", "store")
    assert health(clean, 1)[0]["doctor", ""]["command"] == "cupel doctor"
    write(clean, "doctor", status="unknown", name="doctor")
    assert health(clean, 2)[1] == "unknown"
    write(clean, "doctor", status="nonsense", name="doctor")
    assert health(clean, 1)[1] == "problem", "a word that is not known is no good news"
    write(clean, "doctor", name="doctor")
    write(clean, "gc", status="problem", name="gc")
    assert health(clean, 1)[0]["gc", ""]["command"] == "cupel gc"
    write(clean, "gc", days=400, name="gc")
    assert health(clean, 0)[1] == "ok", "that there was nothing to clean for long is no worry"


def test_from_the_real_ones(fresh):
    site = fresh.base / "site"
    site.mkdir()
    (site / "a").write_text("a")
    fresh.configure(f"protect: ['{site}']\n")
    assert fresh.run("--", "sh", "-c", "echo x > out/x").cause == "ok"
    write(fresh, "doctor", name="doctor")
    for words, status in ((("protect", "accept"), 0), (("verify",), 0)):
        got, out, err = fresh.call(fresh.binary, *words)
        assert got == status, out + err
    assert fresh.call(fresh.binary, "runtime", "check", "base")[0] == 0
    rows, level = health(fresh, 0)
    assert level == "ok" and {("protect", str(site)), ("verify", "protect"), ("runtime", "base")} <= set(rows)
    (site / "a").write_text("b")
    assert fresh.call(fresh.binary, "verify", "protect")[0] == 1
    rows, _ = health(fresh, 1)
    assert rows["protect", str(site)]["status"] == "changed"
    assert rows["protect", str(site)]["command"] == f"cupel protect accept '{site}'"
    path = next((fresh.home / "store/sha256").glob("*/*"))
    os.truncate(path, 0)
    assert fresh.call(fresh.binary, "verify", "store")[0] == 1
    assert health(fresh, 1)[0]["verify", "store"]["level"] == "problem"


def test_without_the_database(fresh):
    fresh.configure("ledger: {url: 'postgresql://nobody@/none?host=/nowhere'}\n")
    fresh.run("--", "true")
    assert fresh.call(fresh.binary, "verify", "chain")[0] == 0
    assert health(fresh, 2)[0]["verify", "chain"]["status"] == "ok"
    assert fresh.call(fresh.binary, "health", "x")[0] == 2
