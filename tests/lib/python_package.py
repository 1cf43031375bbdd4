"""The Python package, for tests. `cupel` is what they call their own helper, so each program that uses the package is
run by another interpreter, and the last line that it prints is JSON."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import textwrap

import cupel as lib
import pytest

PYTHON = "/usr/bin/python3"
BEFORE = """
import asyncio, json, os, pathlib, signal, sys, threading, time
import cupel
from cupel.platform import *

def tell(*what):
    print(json.dumps(what if len(what) != 1 else what[0], default=str))

def facts(result):
    return [result.returncode, result.cause]

def open_things():
    "Descriptors and children of this process."
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sorted(os.listdir("/proc/self/fd")), children
"""


@contextlib.contextmanager
def installed():
    """`pip install ./python`, without a network, into a directory that every user can read."""
    if subprocess.run([PYTHON, "-c", "import pip"], check=False, capture_output=True).returncode:
        pytest.skip("python: python3-pip is not installed")
    base = pathlib.Path(tempfile.mkdtemp(prefix="cupel-python-"))
    try:
        base.chmod(0o755)
        shutil.copytree(lib.TESTS.parent / "python", base / "source", ignore=shutil.ignore_patterns("__pycache__"))
        made = subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--no-index", "--root-user-action=ignore", "--target", base / "installed", base / "source"],
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        subprocess.run(["chmod", "-R", "a+rX", base / "installed"], check=True)
        yield base / "installed"
    finally:
        shutil.rmtree(base)


def run(package, caller, text, *args, files=None, **env):
    """Runs a program as a caller of cupel, in an empty directory of his, and returns what it tells. A descriptor, a file
    or a task that it forgets is an error."""
    place = caller.dir / caller.new_id()
    temporary = place / "tmp"
    temporary.mkdir(parents=True)
    caller.own(temporary)
    for name, content in {**(files or {}), "program.py": BEFORE + textwrap.dedent(text)}.items():
        (place / name).write_text(content, encoding="utf-8")
        caller.own(place / name)
    status, out, err = caller.call(
        PYTHON, "-X", "dev", "-W", "error", "program.py", *args, cwd=caller.own(place),
        env={"PYTHONPATH": str(package), "CUPEL": str(caller.binary), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary), **env})
    assert status == 0, out + err
    assert "Warning" not in err and "never awaited" not in err, err
    return json.loads(out.strip().splitlines()[-1])
