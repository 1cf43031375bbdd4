"""Records that a database has trouble with: they hold up nobody else."""

import json
import os
import subprocess

import pytest

import cupel as lib
import leftovers
import ledgers

pytestmark = pytest.mark.test_all


@pytest.fixture
def caller():
    made = lib.Cupel("root", own_work=True) if os.geteuid() == 0 else pytest.skip("root: a home of its own")
    yield made
    made.close()


def settle(caller):
    """Whoever delivers in the background has come to an end."""
    assert lib.wait_until(lambda: not leftovers.processes(caller))


def ledger(caller, word):
    status, out, err = caller.call(caller.binary, "ledger", word, "--json")
    return status, json.loads(out) if out else None, err


def test_names_that_the_database_has_no_letters_for(caller):
    """An analysis chooses the names of its outputs, an administrator the encoding of the database."""
    if not (ledgers.BIN / "postgres").exists():
        pytest.skip("postgres: PostgreSQL 15 is not installed")
    server = ledgers.Server()
    try:
        server.psql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' "
                    "LC_CTYPE 'C' TEMPLATE template0")
        url = f"postgresql://app@/latin?host={server.base}"
        caller.configure("ledger: {url: 'sqlite:/nonexistent/for/now'}\n")
        state = caller.home / "runtimes/odd/state.json"
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"health": "broken", "verified_time": "t", "reason": "\u6f22"}))
        for number, name in enumerate(("plain", "caf\u00e9", "\u6f22\u5b57", "after")):
            caller.run("--", "sh", "-c", f"echo x > 'out/{name}'", id=f"r{number}")
        caller.configure(f"ledger: {{url: '{url}'}}\n")
        settle(caller)
        status, _, err = ledger(caller, "rebuild")
        assert status == 125 and "r2" in err and "LATIN1" in err, "one is refused, and said to be"
        rows = server.psql("latin", "SELECT id FROM cupel.runs ORDER BY id", "-At")
        assert rows.split() == ["r0", "r1", "r3"]
        assert os.listdir(caller.home / "undelivered") == ["r2"]
        caller.run("--", "true", id="r4")
        assert lib.wait_until(lambda: server.psql(
            "latin", "SELECT id FROM cupel.runs WHERE id = 'r4'", "-At").strip() == "r4")
        settle(caller)
        assert "r2" in ledger(caller, "status")[1]["last_error"]
    finally:
        settle(caller)
        server.close()


def test_a_run_with_very_many_outputs(caller):
    result = caller.run("--", "sh", "-c", "echo a > out/a")
    settle(caller)
    listed = result.outputs
    listed["files"] = [{**listed["files"][0], "path": f"out/number-{i}"} for i in range(60000)]
    text = json.dumps(listed, indent=2)
    assert len(text) > 9 << 20
    (result.run_dir / "outputs.json").write_text(text, encoding="utf-8")
    status, report, err = ledger(caller, "rebuild")
    assert (status, report["entered"], report["failed"]) == (0, 1, 0), err
    count = subprocess.run(
        ["/usr/bin/python3", "-c", "import sqlite3, sys; print(sqlite3.connect(sys.argv[1])"
         ".execute('SELECT count(*) FROM outputs').fetchone()[0])", caller.home / "cupel.db"],
        check=True, capture_output=True, text=True, timeout=60)
    assert count.stdout.strip() == "60000"
