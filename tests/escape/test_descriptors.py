"""Descriptors, directory, terminal: nothing inherited but three streams, and no way to type for
the caller."""

import fcntl
import os
import pty
import select
import socket
import subprocess
import termios
import time

import cupel as lib


def test_only_three_descriptors(cupel):
    """Though the caller leaves a file, a directory, a socket and a pipe open for whoever does
    not look."""
    secret = os.open("/etc/hostname", os.O_RDONLY)
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    left, right = socket.socketpair()
    pipe = os.pipe()
    fds = [secret, folder, left.fileno(), right.fileno(), *pipe]
    try:
        control = cupel.outside("descriptors", pass_fds=fds)["descriptors"]
        assert all(str(fd) in control.strip("[]").split() for fd in fds)
        answers, _ = cupel.probed("descriptors", "getcwd", pass_fds=fds)
        assert answers["descriptors"] == "[0 1 2]"
        assert answers["getcwd"].startswith("/tmp/scidex-analysis-")
    finally:
        for fd in (secret, folder, *pipe):
            os.close(fd)
        left.close()
        right.close()


def test_what_the_three_are(cupel):
    """Standard input is empty whatever the caller's is; the streams are pipes, not the caller's
    files."""
    result = cupel.run(
        "--",
        "/bin/sh",
        "-c",
        "readlink /proc/self/fd/0; readlink /proc/self/fd/1; wc -c",
        stdin=subprocess.PIPE,
    )
    lines = result.stdout.splitlines()
    assert lines[0].endswith("/null")
    assert lines[1].startswith("pipe:")
    assert lines[2] == "0"


def test_a_closed_caller_is_no_way_in(cupel):
    """Without standard streams of its own, cupel must not put something else in their place."""

    def close_all():
        os.closerange(0, 3)

    command = [
        str(cupel.binary),
        "run",
        "--quiet",
        "--id",
        (run_id := cupel.new_id()),
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "data/probe",
        "descriptors",
    ]
    with subprocess.Popen(
        command,
        env=cupel.environ(),
        cwd=cupel.dir,
        close_fds=True,
        preexec_fn=lambda: (cupel._become(), close_all()),
    ) as process:
        process.wait(lib.RUN_LIMIT_S)
    log = (cupel.run_dir(run_id) / "stdout.log").read_text(encoding="utf-8")
    assert log == "descriptors [0 1 2]\n"


class Terminal:
    """The caller at a terminal of its own: what appears on it, and what is typed into its line."""

    def __init__(self, cupel, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cupel.dir)
                attributes = termios.tcgetattr(0)
                attributes[3] &= ~termios.ECHO
                termios.tcsetattr(0, termios.TCSANOW, attributes)
                os.chown(os.ttyname(0), cupel.uid, -1)
                cupel._become()
                os.execve(str(command[0]), [str(word) for word in command], cupel.environ())
            finally:
                os._exit(99)

    def finish(self):
        """(all output, bytes waiting to be read by whoever comes next, exit status)"""
        seen, end = b"", time.monotonic() + lib.RUN_LIMIT_S
        status = None
        while status is None and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if pid else None
        while select.select([self.fd], [], [], 0)[0]:
            try:
                seen += os.read(self.fd, 65536)
            except OSError:
                break
        os.close(self.fd)
        return lib.answers(seen.decode(errors="replace").replace("\r\n", "\n")), status


ACTS = ["tty", "tiocsti=0", "tiocsti=1", "tiocsti=2", "tiocsti=0,upper", "tioclinux=0"]


def test_nothing_types_into_the_callers_terminal(cupel):
    """TIOCSTI, also with the upper half of its argument set (CVE-2017-5226, CVE-2019-7303)."""
    answers, status = Terminal(
        cupel,
        cupel.binary,
        "run",
        "--quiet",
        "--id",
        cupel.new_id(),
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "data/probe",
        *ACTS,
    ).finish()
    assert status == 0
    assert answers == {"tty": "ENOENT", **{act: "EPERM" for act in ACTS[1:]}}


def test_the_control_types_into_it(callers):
    root = callers("root")
    answers, _ = Terminal(root, root.probe, *ACTS).finish()
    assert answers["tty"] == "ok"
    assert answers["tiocsti=0"] == answers["tiocsti=0,upper"] == "ok"


def test_the_box_is_not_in_the_callers_session(cupel):
    """Terminal signals reach cupel, never the box by itself."""
    result = cupel.run(
        "--",
        "/bin/sh",
        "-c",
        "ps -o sid=,tty= -p $$ 2>/dev/null || cut -d' ' -f6,7 /proc/self/stat",
    )
    session, terminal = result.stdout.split()[:2]
    assert session == "2"
    assert terminal in ("0", "?")


def test_locks_and_flags_do_not_reach_the_caller(cupel):
    """O_NONBLOCK on a stream the caller shares would break the caller; the box's streams are
    its own."""
    read_end, write_end = os.pipe()
    try:
        run_id = cupel.new_id()
        with cupel.popen(
            cupel.binary,
            "run",
            "--quiet",
            "--id",
            run_id,
            "--",
            "/usr/bin/python3",
            "-c",
            "import os\nfor fd in (0, 1, 2): os.set_blocking(fd, False)\nprint('set')",
            stdout=write_end,
        ) as process:
            process.wait(lib.RUN_LIMIT_S)
        assert os.read(read_end, 100) == b"set\n"
        assert not fcntl.fcntl(write_end, fcntl.F_GETFL) & os.O_NONBLOCK
    finally:
        os.close(read_end)
        os.close(write_end)
