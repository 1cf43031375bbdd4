"""Files made to hurt whoever reads them, as an analysis file and as configuration: refused with a
reason, in little time and memory. Time is the processor's, so that a busy host changes nothing."""

import os

import cupel as lib
import pytest

CPU_LIMIT_S = 5 * lib.SLOW
MEMORY_LIMIT_KB = lib.memory_limit_kb(64 << 10)


def aliases(levels, width):
    """Each level repeats the one before: width ** levels values once they are expanded."""
    lines = ["l0: &l0 [x]"]
    for i in range(1, levels + 1):
        lines.append(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * width)}]")
    return "\n".join(lines).encode() + b"\n"


MEGABYTE = 1 << 20
# name: (content, words of the reason)
FILES = {
    "billion laughs": (aliases(9, 10), "aliases expanded"),
    "quadratic aliases": (
        b"a: &a " + b"x" * 100000 + b"\nb: [" + b", ".join([b"*a"] * 5000) + b"]\n",
        "aliases expanded",
    ),
    "alias inside itself": (b"a: &a [*a]\n", "inside what it refers to"),
    "many anchors": (b"".join(b"- &a%d x\n" % i for i in range(50000)), "anchors"),
    "deep lists": (b"name: " + b"[" * (MEGABYTE - 100), "nested deeper"),
    "deep block lists": (b"- " * 500000, "nested deeper"),
    "deep maps": (b"{a: " * 250000, "nested deeper"),
    "keys of keys": (b"? " * 500000, "a key must be"),
    "duplicate keys": (b"protect: [a]\nprotect: [b]\n", "second time"),
    "duplicate keys, one quoted": (b"name: a\n'name': b\n", "second time"),
    "many keys": (b"".join(b"%050d: 1\n" % i for i in range(18000)), "more than"),
    "many values": (b"name: [" + b"a," * 500000, "more than"),
    "directives": (
        b"".join(b"%%TAG !%x! x\n" % i for i in range(70000)) + b"--- {}\n",
        "%TAG",
    ),
    "directives at the end": (
        b"a: 1\n" + b"".join(b"%%TAG !%x! x\n" % i for i in range(70000)) + b"--- {}\n",
        "%TAG",
    ),
    "one long text": (b"name: " + b"x" * (MEGABYTE - 100), "at most"),
    "an open quote": (b'name: "' + b"\n" * (MEGABYTE - 100), "not valid YAML"),
    "bad UTF-8": (b"name: \xff\xfe\n", "UTF-8"),
    "overlong UTF-8": (b"name: \xc0\xaf\n", "UTF-8"),
    "a surrogate": (b"name: \xed\xa0\x80\n", "UTF-8"),
    "UTF-16": ("name: x\n".encode("utf-16"), "UTF-8"),
    "control characters": (b"name: \x1b[31m\n", "control characters"),
    "a key with escapes": (b'"\\e[31m\\u009b": x\n', "unknown key '?[31m?"),
    "NUL": (b"name: a\x00b\n", "control characters"),
    "an escaped NUL": (b'name: "a\\0b"\n', "NUL"),
    "100 MB": (b"# nothing\n" * (10 * MEGABYTE), "larger than"),
    "two documents": (b"---\nprotect: [a]\n---\nprotect: [b]\n", "second document"),
}
ROLES = ["analysis", "system", "user", "project"]


@pytest.fixture(scope="module")
def caller(callers):
    callers("root")
    made = lib.Cupel("root")
    yield made
    made.close()


@pytest.fixture
def place(caller, request):
    """Where the file of a role lies, and the command that reads it there."""
    role = request.param
    path = {
        "analysis": caller.dir / "hostile.yaml",
        "system": caller.base / "hostile.yaml",
        "user": caller.dir / ".config/cupel/cupel.yaml",
        "project": caller.dir / "cupel.yaml",
    }[role]
    path.parent.mkdir(parents=True, exist_ok=True)
    yield path, ["run", path] if role == "analysis" else ["config"]
    path.unlink(missing_ok=True)


def refused(caller, place, words):
    """Of the caller's home and groups nothing is made."""
    path, command = place
    env = {"CUPEL_CONFIG": str(path)} if path.parent == caller.base else None
    status, out, err, peak_kb = caller.measured(CPU_LIMIT_S, caller.binary, *command, env=env)
    assert (status, out) == (2, ""), err
    assert words in err and (str(path) in err or str(path.resolve()) in err), err
    assert err.count("\n") == 1 and len(err) < 1200, err
    assert err.rstrip("\n").isprintable(), err
    assert peak_kb < MEMORY_LIMIT_KB
    assert not caller.home.exists() and not caller.groups()


@pytest.mark.parametrize("place", ROLES, indirect=True)
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused_in_little_time_and_memory(caller, place, name):
    content, words = FILES[name]
    place[0].write_bytes(content)
    refused(caller, place, words)


@pytest.mark.parametrize("place", ROLES, indirect=True)
def test_a_file_without_end_is_refused(caller, place):
    place[0].symlink_to("/dev/zero")
    project = place[0] == caller.dir / "cupel.yaml"
    refused(caller, place, "a symbolic link" if project else "regular file")


@pytest.mark.parametrize("place", ROLES, indirect=True)
def test_nobody_waits_at_a_pipe(caller, place):
    os.mkfifo(place[0])
    refused(caller, place, "regular file")


@pytest.mark.parametrize("place", ROLES, indirect=True)
def test_a_sparse_file_is_refused_by_its_size(caller, place):
    place[0].touch()
    os.truncate(place[0], 1 << 40)
    refused(caller, place, "larger than")


def test_control_the_same_files_are_read_when_they_are_harmless(caller):
    """The measure lets a good file pass, and would have seen a bad one."""
    path = caller.dir / "good.yaml"
    path.write_text("command: [true]\n", encoding="utf-8")
    status, _, err, peak_kb = caller.measured(CPU_LIMIT_S, caller.binary, "plan", path)
    path.unlink()
    assert status == 0 and peak_kb < MEMORY_LIMIT_KB, err
    greedy = ("/usr/bin/python3", "-c", f"x = b'x' * ({MEMORY_LIMIT_KB} << 10)")
    assert caller.measured(CPU_LIMIT_S, *greedy)[3] > MEMORY_LIMIT_KB
