"""Tables for people: whole where they are piped, within the terminal where there is one, and nothing in them that a
terminal would obey, whoever chose the words."""

import contextlib
import fcntl
import json
import os
import pty
import re
import sqlite3
import struct
import subprocess
import termios

import pytest

import cupel as lib

SNOWMAN = "☃"
LONG = SNOWMAN + "n" * 60


def on_terminal(caller, columns, *words):
    """What a terminal of that width is sent, as lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with caller.popen(caller.binary, *words, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        seen = b""
        try:
            while got := os.read(ours, 65536):
                seen += got
        except OSError:
            pass  # EIO: the other end is closed
        err = process.stderr.read()
    os.close(ours)
    assert process.returncode == 0, err
    return seen.decode().replace("\r\n", "\n").splitlines()


@pytest.fixture(scope="module")
def one(callers):
    callers("root")
    caller = lib.Cupel("root", own_work=True)
    script = f'mkdir -p "out/{"d" * 40}"; echo x > "out/{"d" * 40}/{"f" * 40}.txt"'
    assert caller.run("--name", LONG, "--", "sh", "-c", script, id="one").status == 0
    assert lib.wait_until(lambda: not [*(caller.home / "undelivered").iterdir()])
    yield caller
    caller.close()


def printed(caller, *words, **options):
    status, out, err = caller.call(caller.binary, *words, **options)
    assert status == 0, err
    return out


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "no_SUCH"])
def test_a_pipe_gets_all_of_it(one, locale):
    env = {"LANG": locale, "LC_ALL": locale, "COLUMNS": "40"}
    head, line = printed(one, "list", env=env).splitlines()
    assert head.split() == ["RUN", "CAUSE", "STARTED", "WALL", "MEMORY", "NAME"]
    assert line.endswith(f"  {LONG}") and line.startswith("one  ok  ")
    assert f"out/{'d' * 40}/{'f' * 40}.txt  " in printed(one, "outputs", "one", env=env)


@pytest.mark.parametrize("columns", [72, 100])
def test_a_terminal_is_kept_within(one, columns):
    head, line = on_terminal(one, columns, "list")
    assert len(head) <= columns and len(line) <= columns and SNOWMAN in line and LONG not in line
    assert re.search(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line), "the name gives way, not the time"
    lines = on_terminal(one, columns, "outputs", "one")
    assert len(lines) > 2 and all(len(line) <= columns for line in lines)
    path = "".join(line.split("  ")[0].strip() for line in lines[1:])
    assert path == f"out/{'d' * 40}/{'f' * 40}.txt", "it goes on in the next line"


def test_a_terminal_with_room_gets_all_of_it(one):
    assert "\n".join(on_terminal(one, 300, "list")) + "\n" == printed(one, "list")


HOSTILE = ["\033[31mred", "\x9b31m", "a\nb", "a\rb", "\007", "\x7f", "\u009b2J"]


def test_nothing_a_terminal_would_obey(one):
    """The names of outputs are the analysis's to choose, those in the ledger whoever's who may write it."""
    for at, name in enumerate(HOSTILE):
        (one.dir / "names").write_bytes(name.encode(errors="surrogateescape"))
        result = one.run("--data", one.dir / "names", "--", "sh", "-c",
                         'echo x > "out/$(cat data/names)x"', id=f"h{at}")
        assert result.status == 0, result.stderr
    for words in (["outputs", "h0"], ["outputs", "h1"], ["outputs", "h2"], ["outputs", "h6"],
                  ["diff", "h0", "h1"], ["list"], ["config"]):
        out = one.call(one.binary, *words)[1]
        assert len(out) > 10 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out), (words, out)
    assert lib.wait_until(lambda: not [*(one.home / "undelivered").iterdir()])
    with contextlib.closing(sqlite3.connect(one.home / "cupel.db")) as db:
        db.execute("UPDATE runs SET name = ? WHERE id = 'h0'", ("\033[31m\x9bred",))
        db.commit()
    out = printed(one, "list")
    assert "red" in out and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)


def test_pages_are_one_table(one):
    """Two thousand rows are printed in parts, under one head, in line."""
    fill = ("WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 2499) INSERT INTO runs (home, id, "
            "accepted, started, cause, exit_status, notes, evidence, missing_layers, labels, verdict_sha256, chain, "
            "record, name) SELECT (SELECT home FROM homes), printf('z%05d', i), '2020', '2020', 'ok', 0, '', '', '', '', "
            "'', '', '', 'x' FROM s")
    subprocess.run(["sqlite3", one.home / "cupel.db", fill], check=True, timeout=60)
    lines = printed(one, "list", "--after", "one").splitlines()
    assert len(lines) == 2501 and sum("RUN" in line for line in lines) == 1
    assert len({len(line) for line in lines[1:]}) == 1
    assert [line.split()[0] for line in lines[1:]] == [f"z{i:05}" for i in reversed(range(2500))]
    subprocess.run(["sqlite3", one.home / "cupel.db", "DELETE FROM runs WHERE id LIKE 'z%'"], check=True,
                   timeout=60)


def test_without_the_library_it_says_so(one, tmp_path):
    (tmp_path / "libsmartcols.so.1").write_bytes(b"")
    tmp_path.chmod(0o755)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    status, out, err = one.call(one.binary, "list", env=env)
    assert status == 125 and out == "" and "apt-get install libsmartcols1" in err
    assert "h0" in [run["id"] for run in json.loads(printed(one, "list", "--json", env=env))]
    assert one.call(one.binary, "run", "--quiet", "--", "true", env=env)[0] == 0
