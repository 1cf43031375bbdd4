"""A run while it goes on: streams, the status line, Ctrl-C, signals."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import pytest

import cupel as lib


def test_output_arrives_while_the_analysis_runs(cupel):
    process, run_id = cupel.start(
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; sleep 1000",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"out\n"
        assert process.stderr.readline() == b"err\n"
        assert process.poll() is None and not (cupel.run_dir(run_id) / "verdict.json").exists()
        process.terminate()
        assert process.wait(60) == 143


def test_streams_are_stored_apart(cupel):
    result = cupel.run("--", "sh", "-c", "echo one; echo two >&2; echo three; printf four >&2")
    assert result.log("stdout.log") == b"one\nthree\n" == result.stdout.encode()
    assert result.log("stderr.log") == b"two\nfour" == result.stderr.encode()


def test_every_byte_passes(cupel):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4000)"
    run_id = cupel.new_id()
    with cupel.popen(
        cupel.binary,
        "run",
        "-q",
        "--id",
        run_id,
        "--",
        "python3",
        "-c",
        code,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.read() == bytes(range(256)) * 4000
    assert (cupel.run_dir(run_id) / "stdout.log").read_bytes() == bytes(range(256)) * 4000


def test_a_log_above_its_limit_is_cut_with_a_mark_and_the_run_goes_on(cupel):
    result = cupel.run(
        "--log", "64K", "--", "sh", "-c", "yes | head -c 3000000; echo ended > out/end; echo e >&2"
    )
    assert (result.status, result.cause) == (0, "ok")
    log = result.log()
    assert 64 << 10 <= len(log) < 70 << 10 and b"cupel" in log[-300:], log[-300:]
    assert result.log("stderr.log") == b"e\n"
    assert result.verdict["usage"]["log_dropped_bytes"] >= 3000000 - len(log)
    assert "dropped" in result.verdict["completion_notes"]
    assert [f["path"] for f in result.outputs["files"]] == ["out/end"]


def test_a_reader_that_goes_away_does_not_end_the_run(cupel):
    process, run_id = cupel.start(
        "--",
        "sh",
        "-c",
        "echo first; yes | head -c 1000000; echo last > out/last",
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert len((cupel.run_dir(run_id) / "stdout.log").read_bytes()) == 1000006


@pytest.mark.parametrize(
    "command, cause",
    [
        ("echo hi", "ok"),
        ("printf 'no newline'", "ok"),
        ("exit 3", "exit"),
        ("printf x; exit 4", "exit"),
    ],
)
def test_json_is_the_last_line(cupel, command, cause):
    status, out, _ = cupel.call(cupel.binary, "run", "--json", "--", "sh", "-c", command)
    verdict = json.loads(out.splitlines()[-1])
    assert verdict["cause"] == cause and verdict["exit_status"] == status
    recorded = json.loads(open(verdict["directory"] + "/verdict.json", encoding="utf-8").read())
    assert recorded == {key: value for key, value in verdict.items() if key != "directory"}


def test_a_summary_for_people_and_none_when_quiet(cupel):
    _, out, err = cupel.call(cupel.binary, "run", "--", "true")
    assert out == "" and re.match(r"cupel: ok: .*\ncupel: record: /.*/runs/\w+\n$", err)
    assert cupel.run("--", "true").stderr == ""


def test_no_status_line_when_piped(cupel):
    status, out, err = cupel.call(cupel.binary, "run", "--", "sleep", "1.5", env={"TERM": "xterm"})
    assert (status, out) == (0, "") and "\r" not in err and "\x1b" not in err


class Terminal:
    """`cupel run` on a terminal of its own, as from a shell."""

    def __init__(self, cupel, *args):
        self.master, slave = pty.openpty()
        os.fchown(slave, cupel.uid, -1)
        self.id = cupel.new_id()
        self.seen = b""
        self.process = cupel.popen(
            "setsid",
            "--ctty",
            cupel.binary,
            "run",
            "--id",
            self.id,
            *args,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm"}
        )
        os.close(slave)

    def read_until(self, pattern):
        while not re.search(pattern, self.seen):
            try:
                more = os.read(self.master, 4096)
            except OSError:
                more = b""
            assert more, self.seen
            self.seen += more

    def type(self, data):
        os.write(self.master, data)

    def close(self):
        self.process.wait(60)
        os.close(self.master)


@pytest.fixture
def terminal(cupel):
    made = []

    def make(*args):
        made.append(Terminal(cupel, *args))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.close()


def test_status_line_and_ctrl_c(cupel, terminal):
    screen = terminal("--memory", "256M", "--", "sh", "-c", "echo up; sleep 1000")
    screen.read_until(rb"up\r\n")
    screen.read_until(rb"\r\x1b\[Kcupel: .*memory .* of 256.*cpu \d")
    screen.type(b"\x03")
    assert screen.process.wait(60) == 130
    screen.read_until(rb"cancelled")
    verdict = json.loads((cupel.run_dir(screen.id) / "verdict.json").read_text())
    assert (verdict["cause"], verdict["exit_status"]) == ("cancelled", 130)
    assert "interrupted" in verdict["completion_notes"]


def test_ctrl_c_twice_does_not_wait_for_the_grace(cupel, terminal):
    screen = terminal(
        "--grace", "1h", "--", "sh", "-c", "trap '' TERM INT; echo up; while :; do sleep 1000; done"
    )
    screen.read_until(rb"up\r\n")
    screen.type(b"\x03")
    assert lib.wait_until(
        lambda: b"stopping" in (cupel.run_dir(screen.id) / "events.jsonl").read_bytes()
    )
    screen.type(b"\x03")
    assert screen.process.wait(60) == 130
    verdict = json.loads((cupel.run_dir(screen.id) / "verdict.json").read_text())
    assert verdict["cause"] == "cancelled" and verdict["evidence"]["killed_by_force"] is True


def test_quiet_on_a_terminal(terminal):
    screen = terminal("--quiet", "--", "sh", "-c", "sleep 1.5; echo end")
    screen.read_until(rb"end\r\n")
    assert screen.process.wait(60) == 0 and screen.seen == b"end\r\n"


def test_the_analysis_has_no_terminal(terminal):
    screen = terminal(
        "--quiet", "--", "sh", "-c", "tty; test -t 1 || echo none; (: < /dev/tty) || echo no-tty"
    )
    screen.read_until(rb"no-tty")
    assert b"not a tty" in screen.seen and b"none" in screen.seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_cancels(cupel, number):
    process, run_id = cupel.start(
        "--",
        "sh",
        "-c",
        "trap 'echo bye; exit 0' TERM; echo up; sleep 1000 & wait",
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        assert process.stdout.read() == b"bye\n"
        assert process.wait(60) == 128 + number
    verdict = json.loads((cupel.run_dir(run_id) / "verdict.json").read_text())
    assert verdict["cause"] == "cancelled" and verdict["exit_code"] == 0
    assert verdict["evidence"]["killed_by_force"] is False


def test_signals_are_the_analysis_own_and_at_their_defaults(cupel):
    """Even if the caller ignores or blocks them."""
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    status, out, _ = cupel.call(
        "sh",
        "-c",
        "trap '' INT HUP PIPE TERM; exec \"$@\"",
        "sh",
        cupel.binary,
        "run",
        "-q",
        "--",
        "sh",
        "-c",
        script,
    )
    assert status == 0 and re.findall(r"Sig(\w+):\s+(\w+)", out) == [
        ("Blk", "0" * 16),
        ("Ign", "0" * 16),
    ]


# make does this to its children with the two signals that glibc keeps for itself.
IGNORE_ALL = """
import ctypes, os, sys
action = (ctypes.c_ulong * 4)(1, 0, 0, 0)  # SIG_IGN, as rt_sigaction has it
for number in range(1, 65):
    ctypes.CDLL(None).syscall(13, number, action, None, 8)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_signals_that_no_library_touches_are_at_their_defaults_too(cupel):
    words = ("run", "-q", "--", "grep", "SigIgn", "/proc/self/status")
    status, out, err = cupel.call("/usr/bin/python3", "-c", IGNORE_ALL, cupel.binary, *words)
    assert (status, out.split()) == (0, ["SigIgn:", "0" * 16]), err


def test_standard_input_is_empty(cupel):
    with cupel.popen(
        cupel.binary,
        "run",
        "-q",
        "--",
        "sh",
        "-c",
        "cat; echo end",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdin.write(b"secret of the caller")
        process.stdin.flush()
        assert process.stdout.read() == b"end\n"


def test_sigterm_while_nobody_reads(cupel):
    process, run_id = cupel.start(
        "--", "sh", "-c", "yes | head -c 4000000; sleep 1000", stdout=subprocess.PIPE
    )

    def unread():
        return struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)))[0]

    with lib.going_on(process):
        assert lib.wait_until(lambda: unread() == fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ))
        process.terminate()
        assert process.wait(lib.RUN_LIMIT_S) == 143
    assert lib.verdict_of(cupel, run_id)["cause"] == "cancelled"


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_the_caller_ignores_does_not_cancel(cupel, name):
    """As under nohup, and as a shell starts background jobs."""
    run_id = cupel.new_id()
    words = (
        "sh",
        "-c",
        f"trap '' {name}; exec \"$@\"",
        "sh",
        cupel.binary,
        "run",
        "-q",
        "--id",
        run_id,
        "--",
        "sh",
        "-c",
        "echo up; sleep 1; echo end",
    )
    with lib.going_on(cupel.popen(*words, stdout=subprocess.PIPE)) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.read() == b"end\n"
        assert process.wait(60) == 0
    assert lib.verdict_of(cupel, run_id)["cause"] == "ok"
