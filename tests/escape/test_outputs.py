"""Outputs: the working directory is hostile. What is taken is a plain file of the analysis's
own, as it is; everything else is refused by name, and nothing of the host comes with it."""

import collections
import os
import stat

import pytest

import cupel as lib
import leftovers

HOSTILE = r"""
import os, socket, stat
os.chdir("out")
open("plain", "w").write("plain\n")
for name, target in (("shadow", "/etc/shadow"), ("root", "/"), ("up", "../.."), ("loop", "loop"),
                     ("dot", "."), ("proc", "/proc/self/root"), ("fine", "plain"),
                     ("record", "../../../verdict.json")):
    os.symlink(target, "link-" + name)
os.mkfifo("fifo")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
os.mkdir("hard")
open("hard/one", "w").write("x")
os.link("hard/one", "hard/two")
open("setid", "w").write("x")
os.chmod("setid", 0o6755)
open("mode0", "w").write("hidden")
os.chmod("mode0", 0)
os.mkdir("closed")
open("closed/file", "w").write("x")
os.chmod("closed", 0)
open(b"new\nline", "w").write("x")
open(b"not-utf8-\xff\xfe", "w").write("x")
open("tab\tand\x1b[31mred", "w").write("x")
open("-rf", "w").write("x")
open("x" * 255, "w").write("x")
for name in ("verdict.json", "outputs.json", "events.jsonl", ".outputs.tmp-0"):
    open(name, "w").write("{}")
with open("empty-file", "w"):
    pass
"""


@pytest.fixture
def hostile(cupel, _runs):
    key = ("hostile", cupel.who)
    if key not in _runs:
        _runs[key] = cupel.run("--", "/usr/bin/python3", "-c", HOSTILE)
    return _runs[key]


def taken(result):
    return {file["path"]: file for file in result.outputs["files"]}


def refused(result):
    return {row["path"]: row["reason"] for row in result.outputs["refused"]}


def test_the_plain_file_is_taken(hostile):
    """The control: the same collector takes what is in order, whole and read-only."""
    assert hostile.cause == "ok"
    assert taken(hostile)["out/plain"]["size"] == 6
    copy = hostile.run_dir / "outputs/out/plain"
    assert copy.read_text(encoding="utf-8") == "plain\n"
    assert stat.S_IMODE(copy.stat().st_mode) & 0o222 == 0


@pytest.mark.parametrize(
    "name, word",
    [
        *[
            (f"link-{name}", "symbolic link")
            for name in ("shadow", "root", "up", "loop", "dot", "proc", "fine", "record")
        ],
        ("fifo", "FIFO"),
        ("socket", "socket"),
        ("hard/one", "hard link"),
        ("hard/two", "hard link"),
        ("mode0", "unreadable"),
        ("closed", "unreadable"),
    ],
)
def test_is_refused_with_a_reason(hostile, name, word):
    assert word in refused(hostile)[f"out/{name}"]
    assert f"out/{name}" not in taken(hostile)
    assert not os.path.lexists(hostile.run_dir / "outputs/out" / name)


def test_nothing_of_the_host_was_copied(cupel, hostile):
    """Every entry below outputs/ is a directory or a regular file without a special bit, of the
    caller's own, whose other names are all in the store or in a run; none has the content of a
    secret."""
    home = hostile.run_dir.parent.parent
    assert lib.wait_until(lambda: not leftovers.processes(cupel))  # whoever delivers writes there
    ours = collections.Counter(
        os.lstat(os.path.join(folder, name)).st_ino
        for top in ("store", "runs")
        for folder, _, files in os.walk(os.fsencode(home / top))
        for name in files
    )
    with open("/etc/shadow", encoding="utf-8") as file:
        secret = file.read()
    for folder, dirs, files in os.walk(os.fsencode(hostile.run_dir / "outputs")):
        for name in dirs + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            assert stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode), path
            assert status.st_mode & 0o7000 == 0, path
            if stat.S_ISREG(status.st_mode):
                assert status.st_nlink == ours[status.st_ino], path
                with open(path, "rb") as file:
                    assert file.read(10000) != secret.encode()[:10000] or not secret


def test_odd_names_are_kept_as_they_are(hostile):
    """Also those that are no text: the manifest has their bytes."""
    names = os.listdir(os.fsencode(hostile.run_dir / "outputs/out"))
    for name in (
        b"new\nline",
        b"not-utf8-\xff\xfe",
        b"tab\tand\x1b[31mred",
        b"-rf",
        b"x" * 255,
        b"setid",
    ):
        assert name in names
    assert "out/new\nline" in taken(hostile)
    assert any(
        file.get("path_hex") == b"out/not-utf8-\xff\xfe".hex() for file in hostile.outputs["files"]
    )


def test_names_of_records_are_only_names(hostile):
    """They lie below outputs/, and the records beside it are ours."""
    assert hostile.verdict["cause"] == "ok"
    assert hostile.outputs["count"] == len(hostile.outputs["files"])
    assert (hostile.run_dir / "outputs/out/verdict.json").read_text(encoding="utf-8") == "{}"
    assert not [name for name in os.listdir(hostile.run_dir) if name.startswith(".outputs.tmp")]


def test_what_is_shown_of_odd_names_is_one_line_without_controls(cupel, hostile):
    """A name must not write on the terminal of whoever looks at the run."""
    for command in (["show", hostile.run_dir.name], ["list"], ["logs", hostile.run_dir.name]):
        _, out, err = cupel.call(cupel.binary, *command)
        assert "\x1b" not in out + err, command


def test_a_terabyte_of_nothing_is_over_the_cap_at_once(cupel):
    answers, result = cupel.probed("sparse=out/hole,1048576", options=["--file-size", "2T"])
    assert answers["sparse=out/hole,1048576"] == "ok"
    assert result.cause == "output-cap"
    assert result.outputs["over_cap"] is True
    assert result.outputs["bytes"] == 0


def test_more_files_than_allowed(cupel):
    result = cupel.run(
        "--output-count", "10", "--", "/bin/sh", "-c", "for i in $(seq 50); do : >out/$i; done"
    )
    assert result.cause == "output-cap"
    assert result.outputs["count"] <= 10


def test_depth_300(cupel):
    result = cupel.run(
        "--",
        "/usr/bin/python3",
        "-c",
        """
import os
os.chdir("out")
open("top", "w").write("x")
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").write("x")
""",
    )
    assert result.cause == "ok"
    assert list(taken(result)) == ["out/top"]
    assert any("deep" in reason for reason in refused(result).values())
    assert not cupel.work_dir(result.run_dir.name).exists()


def test_outputs_that_lead_out_of_the_working_directory(cupel):
    """`out` itself replaced: by a link to a secret directory, and by a file."""
    secret = cupel.base / "secret-dir"
    secret.mkdir(exist_ok=True)
    (secret / "file").write_text("secret", encoding="utf-8")
    for script in (
        f"rmdir out && ln -s {secret} out",
        "rmdir out && ln -s /etc out",
        "rmdir out && ln -s ../../etc out",
        "rmdir out && echo x >out",
    ):
        result = cupel.run("--", "/bin/sh", "-c", script)
        assert result.cause == "ok"
        assert result.outputs["count"] == 0 or taken(result).keys() == {"out"}, script
        assert not (result.run_dir / "outputs/out/file").exists()


def test_inputs_are_no_outputs(cupel):
    """A pattern that takes everything does not take what was only shown."""
    result = cupel.run(
        "--data",
        "/etc/hostname:h",
        "--out",
        "**",
        "--",
        "/bin/sh",
        "-c",
        "echo x >mine; cp mine tmp/",
    )
    assert list(taken(result)) == ["mine"]


def test_patterns_that_lead_out_are_refused(cupel):
    for pattern in ("/etc/passwd", "../*", "out/../../x"):
        result = cupel.run("--out", pattern, "--", "/bin/true")
        assert (result.status, result.verdict) == (2, None), pattern


def test_a_kept_working_directory_is_harmless_too(cupel):
    result = cupel.run("--keep", "always", "--", "/usr/bin/python3", "-c", HOSTILE)
    assert result.cause == "ok"
    kept = result.run_dir / "work"
    assert (kept / "out/plain").read_text(encoding="utf-8") == "plain\n"
    for folder, dirs, files in os.walk(os.fsencode(kept)):
        for name in dirs + files:
            status = os.lstat(os.path.join(folder, name))
            assert status.st_mode & 0o7000 == 0
            assert status.st_uid == cupel.uid
            assert (
                stat.S_ISREG(status.st_mode)
                or stat.S_ISDIR(status.st_mode)
                or stat.S_ISLNK(status.st_mode)
            )


def test_a_daemon_cannot_swap_outputs_while_they_are_read(cupel):
    """It swaps a file and a link as fast as it can; the box is dead before anything is
    collected."""
    result = cupel.run(
        "--",
        "/bin/sh",
        "-c",
        """
echo mine >out/a; ln -s /etc/shadow out/b
(while :; do mv -T out/a out/c; mv -T out/b out/a; mv -T out/c out/b; done) &
sleep 0.2""",
    )
    assert result.cause == "ok"
    for path in taken(result):
        assert (result.run_dir / "outputs" / path).read_text(encoding="utf-8") == "mine\n"
    assert lib.wait_until(lambda: not cupel.groups())
