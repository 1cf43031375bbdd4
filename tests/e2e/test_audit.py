"""cupel audit verify: whatever of a record was changed, the first link that does not hold is named."""

import hashlib
import json
import os
import signal

import pytest

import cupel as lib
import leftovers


def verify(caller, *args):
    status, out, err = caller.call(caller.binary, "audit", "verify", "--json", *args)
    assert status in (0, 1), err
    return status, json.loads(out)


@pytest.fixture
def done(fresh):
    result = fresh.run("--", "sh", "-c", "echo out; echo err >&2; echo x > out/x; sleep 0.2", id="b")
    assert result.cause == "ok"
    return fresh, result.run_dir


def edit(path, change):
    path.chmod(0o600)
    text = path.read_bytes()
    assert change(text) != text
    path.write_bytes(change(text))


def without_line(number):
    return lambda text: b"".join(line for at, line in enumerate(text.splitlines(True), 1)
                                 if at != number)


def test_whole_records_hold(done):
    caller, run_dir = done
    caller.run("--", "false", id="a")
    assert lib.wait_until(lambda: not [*(caller.home / "undelivered").iterdir()])
    status, report = verify(caller, "--outputs")
    assert status == 0 and report["links"] == [] and report["broken"] == 0
    assert report["runs"] == 2 and report["events"] == 12
    assert report["files"] == 15, "seven of each run, and an output"
    assert verify(caller, "b")[1]["runs"] == 1
    assert "2 runs, 12 events, 15 files: 0 broken" in caller.call(caller.binary, "audit", "verify")[1]
    assert "2 runs, 12 events, 14 files: 0 broken" in caller.call(caller.binary, "audit", "verify", "--fast")[1], "no output was read"
    assert verify(caller, "--outputs")[1] == report, "looking changes nothing"


@pytest.mark.parametrize("name, change, file, line", [
    ("events.jsonl", lambda t: t.replace(b'"started"', b'"Started"', 1), "events.jsonl", 3),
    ("events.jsonl", without_line(1), "events.jsonl", 1),
    ("events.jsonl", without_line(3), "events.jsonl", 3),
    ("events.jsonl", without_line(6), "events.jsonl", 5),
    ("events.jsonl", lambda t: t.replace(b'"cause":"ok"', b'"cause":"ko"'), "events.jsonl", 6),
    ("events.jsonl", lambda t: t + t.splitlines(True)[0], "events.jsonl", 7),
    ("events.jsonl", lambda t: t[:-1], "events.jsonl", 6),
    ("events.jsonl", lambda t: t + b"nonsense\n", "events.jsonl", 7),
    ("events.jsonl", lambda t: b"", "events.jsonl", None),
    ("verdict.json", lambda t: t.replace(b'"exit_status": 0', b'"exit_status": 1'), "verdict.json", None),
    ("verdict.json", lambda t: t[:-9], "verdict.json", None),
    ("analysis.json", lambda t: t.replace(b'"none"', b'"host"', 1), "analysis.json", None),
    ("receipt.json", lambda t: t + b" ", "receipt.json", None),
    ("plan.json", lambda t: t.replace(b"/usr", b"/tmp", 1), "plan.json", None),
    ("outputs.json", lambda t: t.replace(b'"size": 2', b'"size": 3'), "outputs.json", None),
    ("stdout.log", lambda t: t + b"more\n", "stdout.log", None),
    ("stderr.log", lambda t: b"", "stderr.log", None),
    ("usage.jsonl", lambda t: t[1:], "usage.jsonl", None),
    ("outputs/out/x", lambda t: b"y\n", "outputs/out/x", None),
])
def test_a_change_is_named(done, name, change, file, line):
    caller, run_dir = done
    edit(run_dir / name, change)
    caller.run("--", "true", id="c")
    status, report = verify(caller, "--outputs")
    assert status == 1 and report["broken"] == 1
    link = report["links"][0]
    assert (link["run"], link["file"], link["line"]) == ("b", file, line), link
    words = caller.call(caller.binary, "audit", "verify", "--outputs")[1]
    assert words.startswith(f"broken: b/{file}{f':{line}' if line else ''}: ")


@pytest.fixture
def three(fresh):
    """A run with three outputs, one of them of another name than UTF-8 has."""
    result = fresh.run("--", "sh", "-c", "echo x > out/x; mkdir out/d; echo y > out/d/y; printf z > $(printf 'out/\\377')", id="b")
    assert result.cause == "ok"
    return fresh, result.run_dir / "outputs"


def put_link(top):
    (top / "out/link").symlink_to("/etc/passwd")


def exchange(top):
    (top / "out/x").unlink()
    (top / "out/x").symlink_to("/etc/hostname")


@pytest.mark.parametrize("act, file, is_fast", [
    (lambda top: edit(top / "out/x", lambda t: b"y\n"), "out/x", False),
    (lambda top: edit(top / "out/x", lambda t: b"longer\n"), "out/x", True),
    (lambda top: (top / "out/d/y").unlink(), "out/d/y", True),
    (lambda top: (top / "out/added").write_text(""), "out/added", True),
    (lambda top: (top / "added").write_text("x"), "added", True),
    (lambda top: (top / "out/d/.hidden").write_text("x"), "out/d/.hidden", True),
    (put_link, "out/link", True),
    (lambda top: os.mkfifo(top / "out/fifo"), "out/fifo", True),
    (exchange, "out/x", True),
])
def test_outputs_are_part_of_what_is_verified(three, act, file, is_fast):
    """Without an option, and with --fast as far as names and sizes tell."""
    caller, top = three
    assert verify(caller)[0] == verify(caller, "--fast")[0] == 0, "the control"
    act(top)
    for options, is_found in (((), True), (("b",), True), (("--fast",), is_fast)):
        status, report = verify(caller, *options)
        found = [(link["run"], link["file"]) for link in report["links"]]
        assert (status, found) == ((1, [("b", f"outputs/{file}")]) if is_found else (0, [])), (options, report)


def test_outputs_of_a_run_that_has_none(fresh):
    run_dir = fresh.run("--", "true", id="b").run_dir
    assert verify(fresh)[0] == 0 and not (run_dir / "outputs").exists()
    (run_dir / "outputs").mkdir()
    assert verify(fresh)[0] == 0, "a directory is no output"
    (run_dir / "outputs/x").write_text("x")
    assert verify(fresh)[1]["links"][0]["file"] == "outputs/x"


def test_partial_outputs_are_verified_too(fresh):
    run_dir = fresh.run("--", "sh", "-c", "echo x > out/x; exit 3", id="b").run_dir
    assert (run_dir / "partial/out/x").exists() and verify(fresh)[0] == 0
    (run_dir / "partial/out/more").write_text("")
    assert verify(fresh)[1]["links"][0]["file"] == "partial/out/more"
    (run_dir / "partial/out/more").unlink()
    (run_dir / "outputs").mkdir()
    assert verify(fresh)[1]["links"][0]["file"] == "partial"


def test_a_file_that_is_gone_is_named(done):
    caller, run_dir = done
    (run_dir / "receipt.json").unlink()
    assert verify(caller)[1]["links"][0]["file"] == "receipt.json"


def test_a_chain_that_was_made_again_does_not_fit_the_verdict(done):
    """Who rewrites every line after his change still has the verdict against him."""
    caller, run_dir = done
    path = run_dir / "events.jsonl"
    prev, lines = "0" * 64, []
    for line in path.read_text().splitlines():
        event = json.loads(line)
        event["time"], event["prev"] = "2020-01-01T00:00:00.000Z", prev
        lines.append(json.dumps(event, separators=(",", ":")))
        prev = hashlib.sha256(lines[-1].encode()).hexdigest()
    path.write_text("\n".join(lines) + "\n")
    status, report = verify(caller)
    assert status == 1 and report["links"][0]["line"] == 6
    assert "verdict.json names" in report["links"][0]["reason"]


def test_a_run_that_goes_on_and_one_that_was_lost(fresh):
    process, run_id = fresh.start("--", "sleep", "1000")
    with process:
        events = fresh.run_dir(run_id) / "events.jsonl"
        assert lib.wait_until(lambda: events.exists() and "started" in events.read_text())
        status, report = verify(fresh)
        assert status == 0 and report["unfinished"] == 1 and report["events"] == 2
        keeper = json.loads(events.read_text().splitlines()[0])["data"]["keeper_pid"]
        process.send_signal(signal.SIGSTOP)  # it would sweep
        os.kill(keeper, signal.SIGKILL)
        process.kill()
    assert lib.wait_until(lambda: not leftovers.processes(fresh)), "a killed keeper takes its time to die"
    with open(events, "ab") as file:
        file.write(b'{"n":3,"ti')  # as a crash would cut it
    assert verify(fresh)[1]["unfinished"] == 1
    assert fresh.call(fresh.binary, "gc")[0] == 0
    status, report = verify(fresh)
    assert status == 0 and report["unfinished"] == 0 and report["torn"] == 1
    edit(fresh.run_dir(run_id) / "verdict.json", lambda t: t.replace(b'"lost"', b'"ok"'))
    assert verify(fresh)[1]["links"][0]["file"] == "verdict.json"


def test_usage(fresh):
    assert fresh.call(fresh.binary, "audit", "verify")[0] == 0, "no run, nothing broken"
    assert not fresh.home.exists(), "looking makes nothing"
    for args in ((), ("verfy",), ("verify", "a", "b"), ("verify", "none"), ("verify", "../x")):
        status, _, err = fresh.call(fresh.binary, "audit", *args)
        assert status == 2 and err.startswith("cupel: ")
