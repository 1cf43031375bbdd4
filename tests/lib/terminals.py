"""A terminal for tests: what a program sends to it, byte by byte."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import tty


def seen_on(caller, *words, columns=200, lines=50, keys=None, env=None):
    """Starts cupel with a terminal as stdin, stdout and stderr: (exit status, all bytes that the terminal received).
    `keys` maps bytes to wait for to the bytes that are typed then."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # no translation of newlines, no echo
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    os.fchown(theirs, caller.uid, -1)
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with caller.popen(
        caller.binary, *words, env={"TERM": "xterm", **(env or {})}, **streams
    ) as process:
        os.close(theirs)
        seen = b""
        waiting = dict(keys or {})
        while True:
            try:
                got = os.read(ours, 65536)
            except OSError:
                break  # EIO: nobody has the other end open
            seen += got
            for mark in [mark for mark in waiting if mark in seen]:
                os.write(ours, waiting.pop(mark))
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    os.close(ours)
    return process.returncode, seen
