"""Inputs are data. Whatever is in them, an analysis reads files, and reaches no program and no view of the
kernel through them; and what only its caller may read is shown to this one run."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess

import pytest

import cupel as lib
from cupel import maps_ids


class Place:
    """A directory `in` with a file, a listening socket and a FIFO that has a reader, all open to everyone."""

    def __init__(self, base):
        self.base = base
        self.dir = base / "in"
        self.dir.mkdir()
        self.dir.chmod(0o755)
        (self.dir / "file").write_text("text", encoding="utf-8")
        (self.dir / "file").chmod(0o644)
        self.stack = contextlib.ExitStack()

    def serve(self, below="."):
        folder = self.dir / below
        path = folder / "s"
        server = self.stack.enter_context(socket.socket(socket.AF_UNIX))
        here = os.open(folder, os.O_PATH)
        server.bind(f"/proc/self/fd/{here}/s")
        os.close(here)
        server.listen(64)
        path.chmod(0o777)
        os.mkfifo(folder / "fifo")
        (folder / "fifo").chmod(0o666)
        reader = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        self.stack.callback(os.close, reader)
        return self

    def acts(self, where, below="."):
        at = "" if below == "." else f"{below}/"
        return [f"unix={where}/{at}s", f"write={where}/{at}fifo", f"read={where}/file"]


def mounted(stack, base, kind):
    """A file system of this kind at `base`."""
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "test", base], check=True)
    elif kind == "ext4":
        image = base.with_suffix(".img")
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        stack.callback(image.unlink)
        subprocess.run(["mount", "-o", "loop", image, base], check=True)
    elif kind == "overlay":
        layers = base.with_suffix(".layers")
        for name in ("lower", "upper", "work"):
            (layers / name).mkdir(parents=True)
        stack.callback(shutil.rmtree, layers)
        options = ",".join(f"{key}dir={layers / key}" for key in ("lower", "upper", "work"))
        subprocess.run(["mount", "-t", "overlay", "-o", options, "test", base], check=True)
    if kind != "here":
        stack.callback(subprocess.run, ["umount", base], check=True)


@pytest.fixture
def place(cupel, request):
    """In the caller's own directory; a parameter names the file system."""
    with contextlib.ExitStack() as stack:
        base = cupel.base / "input-place"  # other tests of the session leave a `place` there
        base.mkdir()
        stack.callback(shutil.rmtree, base)
        mounted(stack, base, getattr(request, "param", "here"))
        base.chmod(0o755)
        made = Place(base)
        stack.callback(shutil.rmtree, made.dir)
        with made.stack:
            yield made


def assert_refused(result, folder):
    """Before anything ran, and by the name of one of the two."""
    assert (result.status, result.cause) == (125, "setup"), result.stderr
    assert any(f"{folder / name} is a {kind}" in result.stderr for name, kind in (("s", "socket"), ("fifo", "FIFO")))


def assert_closed(cupel, place, *options, where="data/in", below=".", shown=None):
    """No connection and no byte, but the file is read; or the run is refused in words."""
    acts = place.acts(shown or place.dir, below)
    assert cupel.outside(*acts) == {act: "ok" for act in acts}, "the control"
    inside = place.acts(where, below)
    answers, result = cupel.probed(*inside, options=options)
    if cupel.who == "root" and maps_ids(place.dir / below):
        assert answers == dict(zip(inside, ("EACCES", "EACCES", "ok"))), result.stderr
        assert result.receipt["mounts"]["id_mapped"] >= 1
        assert result.receipt["mounts"]["searched"] == 0
    else:
        assert_refused(result, place.dir / below)
        assert not answers


@pytest.mark.parametrize("place", ["here", "tmpfs", "ext4", "overlay"], indirect=True)
def test_a_socket_in_an_input_is_not_reached(cupel, place):
    place.serve()
    assert_closed(cupel, place, "--data", place.dir)


def test_a_socket_deep_below_is_not_reached(cupel, place):
    deep = "/".join("abcdefgh")
    (place.dir / deep).mkdir(parents=True)
    place.serve(deep)
    assert_closed(cupel, place, "--data", place.dir, below=deep)


def test_a_socket_on_another_file_system_below_is_not_reached(cupel, place):
    """An input is shown with everything that is mounted below it."""
    below = place.dir / "below"
    below.mkdir()
    with contextlib.ExitStack() as stack:
        mounted(stack, below, "tmpfs")
        with place.stack:
            place.serve("below")
            assert_closed(cupel, place, "--data", place.dir, below="below")


def test_a_socket_in_the_projects_data_is_not_shown(cupel):
    """Beside inputs its entries are shown one by one: only files and directories are."""
    with contextlib.ExitStack() as stack:
        base = cupel.dir / "project"
        base.mkdir()
        stack.callback(shutil.rmtree, base)
        made = Place(base)
        project = base / "cupel.yaml"
        project.write_text("project: {data: in}\n", encoding="utf-8")
        for path in (base, project, made.dir):
            cupel.own(path)
        with made.stack:
            made.serve()
            acts = made.acts("data")
            answers, result = cupel.probed(*acts, cwd=base)
            assert answers == dict(zip(acts, ("ENOENT", "ENOENT", "ok"))), result.stderr


def test_a_socket_in_the_projects_docs_is_not_reached(cupel):
    with contextlib.ExitStack() as stack:
        base = cupel.dir / "project"
        base.mkdir()
        stack.callback(shutil.rmtree, base)
        made = Place(base)
        project = base / "cupel.yaml"
        project.write_text("project: {docs: in}\n", encoding="utf-8")
        for path in (base, project, made.dir):
            cupel.own(path)
        with made.stack:
            made.serve()
            acts = made.acts("docs")
            answers, result = cupel.probed(*acts, cwd=base)
            if cupel.who == "root" and maps_ids(made.dir):
                assert answers == dict(zip(acts, ("EACCES", "EACCES", "ok"))), result.stderr
            else:
                assert_refused(result, made.dir)


def test_a_socket_in_a_runtime_is_not_reached(callers, cupel, place):
    """As root; an ordinary user's prefixes are not searched before each run (docs/THREATS.md)."""
    if cupel.who == "user":
        pytest.skip("user: prefixes are shown as they are")
    if not maps_ids(place.dir):
        pytest.skip("idmap: the kernel takes no id-mapped mounts of this file system")
    place.serve()
    entries = cupel.base / "runtimes.d"
    entries.mkdir()
    (entries / "shown.yaml").write_text(f"name: shown\nkind: system\nread_only: [{place.dir}]\n", encoding="utf-8")
    acts = place.acts(place.dir)
    answers, result = cupel.probed(*acts, options=("-r", "shown"))
    assert answers == dict(zip(acts, ("EACCES", "EACCES", "ok"))), result.stderr


def test_an_input_without_a_socket_is_searched_and_shown(cupel, place):
    answers, result = cupel.probed("read=data/in/file", options=("--data", place.dir))
    assert answers == {"read=data/in/file": "ok"}, result.stderr
    mounts = result.receipt["mounts"]
    if cupel.who == "root" and maps_ids(place.dir):
        assert (mounts["id_mapped"], mounts["searched"]) == (1, 0)
    else:
        assert (mounts["id_mapped"], mounts["searched"], mounts["searched_in_part"]) == (0, 1, 0)
    plan = json.loads((result.run_dir / "plan.json").read_text(encoding="utf-8"))
    step = next(step for step in plan["steps"] if step.get("source") == str(place.dir))
    assert (step["ids"], step["searched"]) == ("unmapped" if cupel.who == "root" else "plain", True)


def test_a_directory_that_can_be_entered_and_not_listed_is_recorded(callers):
    """Names in it could be guessed: nobody can say that there is no socket."""
    user = callers("user")
    user.configure()
    base = user.base / "closed"
    (base / "in").mkdir(parents=True)
    (base / "in").chmod(0o711)
    user.own(base)
    try:
        result = user.run("--data", base, "--", "/bin/true")
        assert result.receipt["mounts"]["searched_in_part"] == 1
    finally:
        shutil.rmtree(base)


# Views of the kernel and of programs: by path, by file system, through a link.
@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/proc/version", "/sys", "/sys/kernel", "/dev", "/dev/shm",
                                  "/run", "/run/{name}", "/var/run", "/sys/fs/cgroup", "/"])
@pytest.mark.parametrize("through", ["path", "link"])
def test_a_view_of_the_kernel_is_no_input(cupel, path, through):
    path = path.format(name=cupel.name)
    made = pathlib.Path("/run", cupel.name)
    made.mkdir()
    link = cupel.base / "link"
    try:
        if through == "link":
            link.symlink_to(path)
        named = link if through == "link" else path
        result = cupel.run("--data", f"{named}:in", "--", "/bin/true")
        assert result.status == 2 and result.verdict is None, result.stderr
        assert any(word in result.stderr for word in ("of the kernel", "is below /", "would show")), result.stderr
    finally:
        made.rmdir()
        link.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "hugetlbfs"])
def test_what_programs_keep_in_memory_below_run_is_no_input(cupel, kind):
    """Each is a mount of its own there, as a disk would be: /run/user/UID, /run/credentials, /dev/hugepages."""
    made = pathlib.Path("/run", f"{cupel.name}-memory")
    made.mkdir()
    mounted = subprocess.run(["mount", "-t", kind, "-o", "mode=755", "test", made], check=False).returncode == 0
    try:
        if not mounted:
            pytest.skip(f"this host mounts no {kind}")
        result = cupel.run("--data", f"{made}:in", "--", "/bin/true")
        assert result.status == 2 and "is below /run" in result.stderr, result.stderr
    finally:
        if mounted:
            subprocess.run(["umount", made], check=True)
        made.rmdir()


def test_a_kernels_file_system_elsewhere_is_no_input(cupel, place):
    """Also below an input."""
    with contextlib.ExitStack() as stack:
        for kind in ("proc", "sysfs", "devtmpfs"):
            (place.dir / kind).mkdir()
            subprocess.run(["mount", "-t", kind, "test", place.dir / kind], check=True)
            stack.callback(subprocess.run, ["umount", place.dir / kind], check=True)
        for path in ("proc", "sysfs", "proc/version"):
            result = cupel.run("--data", f"{place.dir / path}:in", "--", "/bin/true")
            assert result.status == 2 and "of the kernel" in result.stderr
        for path in ("devtmpfs", "."):
            result = cupel.run("--data", f"{place.dir / path}:in", "--", "/bin/true")
            assert (result.status, result.cause) == (125, "setup"), result.stderr
            assert "file system of the kernel" in result.stderr or " is a " in result.stderr


def test_a_disk_mounted_below_run_is_an_input(cupel):
    """As /run/media/USER/DISK is; a tmpfs there is what programs keep for each other."""
    base = pathlib.Path("/run", f"{cupel.name}-disk")
    base.mkdir()
    try:
        for kind, status in (("ext4", 0), ("tmpfs", 2)):
            with contextlib.ExitStack() as stack:
                at = base
                if kind == "ext4":
                    image = cupel.base / "disk.img"
                    with open(image, "wb") as file:
                        file.truncate(16 << 20)
                    subprocess.run(["mkfs.ext4", "-q", image], check=True)
                    stack.callback(image.unlink)
                    subprocess.run(["mount", "-o", "loop", image, at], check=True)
                else:
                    subprocess.run(["mount", "-t", "tmpfs", "test", at], check=True)
                stack.callback(subprocess.run, ["umount", at], check=True)
                (at / "file").write_text("data", encoding="utf-8")
                (at / "dir").mkdir()
                (at / "file").chmod(0o644)
                for path in (at / "file", at / "dir"):
                    result = cupel.run("--data", f"{path}:in", "--", "/bin/ls", "data/in")
                    assert result.status == status, result.stderr
    finally:
        base.rmdir()


@pytest.fixture
def root(callers):
    caller = callers("root")
    caller.configure()
    return caller


@pytest.fixture
def private(root, request):
    """PLACE/in with a file and a directory that only their owner may read."""
    with contextlib.ExitStack() as stack:
        base = root.base / "private"
        base.mkdir()
        stack.callback(shutil.rmtree, base)
        mounted(stack, base, getattr(request, "param", "here" if maps_ids(base) else "ext4"))
        base.chmod(0o755)
        made = hide(Place(base))
        stack.callback(shutil.rmtree, made.dir)
        with made.stack:
            yield made


def hide(made):
    """What is in it is for its owner alone."""
    (made.dir / "sub").mkdir()
    (made.dir / "sub/more").write_text("more", encoding="utf-8")
    for path, mode in ((made.dir / "sub/more", 0o600), (made.dir / "sub", 0o700), (made.dir / "file", 0o600), (made.dir, 0o700)):
        path.chmod(mode)
    return made


@pytest.mark.parametrize("private", ["overlay"], indirect=True)
def test_what_cannot_be_shown_to_one_run_alone_is_refused(root, private):
    """The file system takes no id-mapped mounts. Nobody is told to open the file to everyone."""
    for path in (private.dir, private.dir / "file"):
        result = root.run("--data", path, "--", "/bin/true")
        assert (result.status, result.cause) == (125, "setup"), result.stderr
        assert f"{path}: not all users may read it" in result.stderr and "id-mapped mounts" in result.stderr
        assert "chmod" not in result.stderr


def test_what_only_root_may_read_is_shown_to_this_run_alone(root, private):
    shown = ("--data", private.dir, "--data", f"{private.dir}/file:one")
    answers, result = root.probed("read=data/in/file", "read=data/in/sub/more", "read=data/one", "write=data/one",
                                  "create=data/in/new", "chmod=data/in", options=shown)
    assert answers == {"read=data/in/file": "ok", "read=data/in/sub/more": "ok", "read=data/one": "ok",
                       "write=data/one": "EACCES", "create=data/in/new": "EROFS", "chmod=data/in": "EROFS"}, result.stderr
    assert oct(private.dir.stat().st_mode & 0o777) == "0o700", "nothing is changed on the host"
    assert result.receipt["mounts"]["id_mapped"] == 2
    plan = json.loads((result.run_dir / "plan.json").read_text(encoding="utf-8"))
    assert [step["ids"] for step in plan["steps"] if step.get("source") == str(private.dir)] == ["run"]
    script = private.dir / "script.sh"
    script.write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    script.chmod(0o700)
    assert root.run(script).stdout == "ran\n"


def test_the_right_of_a_group_shows_what_the_group_may_read(root, private):
    """And nothing that its owner alone may."""
    for path, mode in ((private.dir, 0o050), (private.dir / "file", 0o040)):
        os.chown(path, 4242, 4343)
        path.chmod(mode)
    answers, result = root.probed("read=data/in/file", "read=data/in/sub/more", options=("--data", private.dir))
    assert answers == {"read=data/in/file": "ok", "read=data/in/sub/more": "EACCES"}, result.stderr


def test_a_private_input_has_no_socket(root, private):
    """Nor a FIFO; and one that is made while the analysis runs is not reached either."""
    private.serve()
    result = root.run("--data", private.dir, "--", "/bin/true")
    assert_refused(result, private.dir)


def test_a_socket_made_later_in_a_private_input_is_not_reached(root, private):
    process, run_id = root.start("--data", f"{root.probe}:probe", "--data", private.dir, "--", "/bin/sh", "-c",
                                 "echo up; until [ -e data/in/fifo ]; do sleep 0.05; done; "
                                 "data/probe unix=data/in/s write=data/in/fifo", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    private.serve()
    out, _ = process.communicate(timeout=lib.RUN_LIMIT_S)
    assert lib.answers(out.decode()) == {"unix=data/in/s": "EACCES", "write=data/in/fifo": "EACCES"}


@pytest.mark.parametrize("path", ["/etc/shadow", ".ssh/key", "home"])
def test_keys_and_passwords_are_never_shown(root, path):
    home = root.base / "home-of-root"
    (home / ".ssh").mkdir(parents=True)
    home.chmod(0o700)
    (home / ".ssh/key").write_text("key", encoding="utf-8")
    (home / ".ssh/key").chmod(0o600)
    named = {"/etc/shadow": "/etc/shadow", ".ssh/key": home / ".ssh/key", "home": home}[path]
    try:
        result = root.run("--data", f"{named}:in", "--", "/bin/cat", "data/in")
        assert result.status == 2 and "never shown" in result.stderr
        assert "chmod" not in result.stderr and "o+r" not in result.stderr
    finally:
        shutil.rmtree(home)


def test_what_nobody_but_roots_power_reads_is_refused_without_bad_advice(root, private):
    (private.dir / "file").chmod(0)
    result = root.run("--data", f"{private.dir}/file", "--", "/bin/true")
    assert result.status == 2 and "neither its owner nor its group may read it" in result.stderr
    assert "chmod" not in result.stderr
