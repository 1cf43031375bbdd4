"""Pieces of work as analyses do them, in the current directory. usage: workload.py NAME SCALE: prints the milliseconds it took, and
the processor's, its own start not counted."""

import hashlib
import os
import resource
import subprocess
import sys
import time


def now():
    """Wall clock, and processor time with that of ended children; seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used)


def python_loop(scale):
    total, words = 0, {}
    for i in range(int(1_500_000 * scale)):
        total = (total * 31 + i) % 1_000_003
        words[total % 1000] = words.get(total % 1000, 0) + 1


def matmul(scale):
    import numpy  # pylint: disable=import-outside-toplevel

    a = numpy.random.default_rng(1).random((500, 500))
    start = now()
    for _ in range(max(1, int(12 * scale))):
        a = a @ a
        a /= a.max()
    return start


def fft(scale):
    import numpy  # pylint: disable=import-outside-toplevel

    a = numpy.random.default_rng(1).random(1 << 18)
    start = now()
    for _ in range(max(1, int(20 * scale))):
        a = numpy.fft.irfft(numpy.fft.rfft(a))
    return start


def big_file(scale):
    """Written, synced, read back and hashed, removed."""
    block = os.urandom(1 << 20)
    with open("big", "wb") as out:
        for _ in range(max(1, int(128 * scale))):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    with open("big", "rb") as back:
        digest = hashlib.sha256()
        while chunk := back.read(1 << 20):
            digest.update(chunk)
    os.unlink("big")


def many_files(scale):
    """Small ones in directories, written, listed, read, removed; no sync."""
    count, block = max(1, int(3000 * scale)), b"x" * 3000
    for i in range(count):
        if i % 100 == 0:
            os.mkdir(f"d{i // 100}")
        with open(f"d{i // 100}/{i}", "wb") as out:
            out.write(block)
    for i in range(count):
        with open(f"d{i // 100}/{i}", "rb") as back:
            back.read()
    for name in [n for n in os.listdir() if n[0] == "d" and n[1:].isdigit()]:
        for entry in os.scandir(name):
            os.unlink(entry.path)
        os.rmdir(name)


def synced_files(scale):
    """As a program that saves its state: write, fsync, rename."""
    for i in range(max(1, int(100 * scale))):
        with open("state.new", "wb") as out:
            out.write(b"y" * 4000)
            out.flush()
            os.fsync(out.fileno())
        os.rename("state.new", f"state{i % 5}")
    for i in range(5):
        if os.path.exists(f"state{i}"):
            os.unlink(f"state{i}")


def forks(scale):
    script = f"i=0; while [ $i -lt {max(1, int(2000 * scale))} ]; do /bin/true; i=$((i+1)); done"
    subprocess.run(["/bin/sh", "-c", script], check=True)


WORK = {
    work.__name__: work
    for work in (python_loop, matmul, fft, big_file, many_files, synced_files, forks)
}


def main():
    begun = now()
    begun = WORK[sys.argv[1]](float(sys.argv[2])) or begun
    print(*(f"{(after - before) * 1e3:.3f}" for before, after in zip(begun, now())))


if __name__ == "__main__":
    main()
