"""A runtime's tree may be anybody's work. However its links, nodes and names are made, the box that is
built from it shows nothing of the host, and nothing on the host changes: the run works in what is
left of the tree, or is refused in words."""

import os
import shutil
import subprocess

import pytest

SECRET = "not for analyses"


class Tree:
    """A root of one static program, and beside it what must not be reached."""

    def __init__(self, caller):
        self.caller = caller
        self.place = caller.base / "hostile"
        self.root = self.place / "root"
        self.host = self.place / "host"
        (self.root / "bin").mkdir(parents=True)
        self.host.mkdir()
        (self.host / "secret").write_text(SECRET, encoding="utf-8")
        shutil.copy("/bin/busybox", self.root / "bin/busybox")
        for tool in ("sh", "cat", "ls", "touch", "mkdir", "id", "echo", "readlink"):
            (self.root / "bin" / tool).symlink_to("busybox")
        self.directory = caller.base / "runtimes.d"
        self.directory.mkdir()
        self.entry = self.directory / "hostile.yaml"
        self.entry.write_text(f"name: hostile\nkind: rootfs\nroot: {self.root}\n",
                              encoding="utf-8")
        self.before = self.state()

    def close(self):
        shutil.rmtree(self.place)
        shutil.rmtree(self.directory)

    def state(self):
        """Everything of the host that a box could have touched by mistake."""
        found = {}
        for top in (self.host, "/etc", "/usr", "/"):
            for entry in os.scandir(top):
                found[entry.path] = os.lstat(entry.path).st_ino
        return found

    def own(self):
        for path in (self.directory, self.entry, *self.place.rglob("*")):
            self.caller.own(path)

    def run(self, text, is_owned=False):
        if not is_owned:
            self.own()
        result = self.caller.run("-r", "hostile", "--", "/bin/sh", "-c", text)
        assert self.state() == self.before
        assert (self.host / "secret").read_text(encoding="utf-8") == SECRET
        return result


@pytest.fixture
def tree(cupel):
    made = Tree(cupel)
    yield made
    made.close()


def test_the_tree_works_and_the_secret_is_readable_outside(tree):
    """The control of all that follows."""
    assert tree.run("echo works").stdout == "works\n"
    status, out, _ = tree.caller.call("cat", tree.host / "secret")
    assert (status, out) == (0, SECRET)


# Links at the top: what they say is made again inside, where it leads nowhere but into the box.
LINKS = ["usr", "lib", "opt", "srv", "mnt", "root"]
TARGETS = ["/", "../../../../..", "{host}", "/proc/1/root{host}", "/proc/self/cwd", "/etc",
           "/dev/fd", "usr/../../..", "loop"]


@pytest.mark.parametrize("target", TARGETS)
def test_links_lead_nowhere(tree, target):
    for name in LINKS:
        (tree.root / name).symlink_to(target.format(host=tree.host))
    (tree.root / "loop").symlink_to("loop")
    look = "; ".join(f"cat /{name}/secret /{name}{tree.host}/secret" for name in LINKS)
    write = "; ".join(f"touch /{name}/made; mkdir /{name}{tree.host}/made" for name in LINKS)
    result = tree.run(f"({look}; {write}) 2>/dev/null; echo end")
    assert result.cause == "ok" and result.stdout == "end\n", result.stderr


@pytest.mark.parametrize("name", ["dev", "proc", "sys", "run", "home", "tmp"])
@pytest.mark.parametrize("what", ["link", "file", "nothing"])
def test_the_box_s_own_places_are_its_own(tree, name, what):
    """The working directory is below /tmp: its path must not lead through the tree's."""
    if what == "link":
        (tree.root / name).symlink_to(tree.host)
    elif what == "file":
        (tree.root / name).write_text("x", encoding="utf-8")
    result = tree.run("cat /proc/self/comm; echo x >/dev/null; touch out/made /tmp/made; "
                      "for place in /tmp /dev /proc /sys /run /home; do readlink $place; done; "
                      "ls /home; ls /dev/shm; cat /tmp/secret /home/secret /run/secret")
    assert result.stdout == "cat\n" and "made" in str(result.outputs), result.stderr


@pytest.mark.parametrize("name", ["etc", "var"])
@pytest.mark.parametrize("target", ["/", "../host", "/etc"])
def test_etc_and_var_that_are_links_are_refused(tree, name, target):
    (tree.root / name).symlink_to(target)
    result = tree.run("echo never")
    assert result.cause == "runtime-broken" and result.stdout == ""
    assert f"{tree.root}/{name} is not a directory" in result.verdict["completion_notes"]


def test_links_in_etc_and_var(tree):
    for folder, names in (("etc", ["passwd", "group", "hosts", "resolv.conf", "shadow", "alternatives"]),
                          ("var", ["tmp", "run", "lib", "cache"])):
        (tree.root / folder).mkdir()
        for name in names:
            (tree.root / folder / name).symlink_to(tree.host / "secret")
    (tree.root / "var/lib").unlink()
    (tree.root / "var/lib").symlink_to(tree.host)
    result = tree.run("cat /etc/* /var/lib/secret /var/run 2>/dev/null; touch /var/tmp/x && echo open")
    assert SECRET not in result.stdout and "analysis:x:1000" in result.stdout
    assert result.stdout.endswith("open\n")


def test_nodes_and_set_id_programs(tree):
    """No device of it works, no program of it gains anything."""
    (tree.root / "opt").mkdir()
    (tree.root / "etc").mkdir()
    os.mkfifo(tree.root / "etc/fifo")
    os.mkfifo(tree.root / "fifo")
    os.mknod(tree.root / "etc/node", 0o20666, os.makedev(1, 5))
    os.mknod(tree.root / "opt/zero", 0o20666, os.makedev(1, 5))
    os.mknod(tree.root / "node", 0o20666, os.makedev(1, 5))
    for path in (tree.root / "opt/zero", tree.root / "opt/id"):
        if path.name == "id":
            shutil.copy("/bin/busybox", path)
        path.chmod(path.stat().st_mode | 0o666)
    tree.own()
    (tree.root / "opt/id").chmod(0o6755)
    result = tree.run("ls / /etc; cat /opt/zero; /opt/id -u", is_owned=True)
    assert "fifo" not in result.stdout and "node" not in result.stdout
    assert result.stdout.endswith("1000\n")
    assert "zero" in result.stderr and "Permission denied" in result.stderr
    # The control: the node is a real one, and the set-id bit is there.
    with open(tree.root / "opt/zero", "rb") as zero:
        assert zero.read(1) == b"\0"
    assert (tree.root / "opt/id").stat().st_mode & 0o6000


def test_names_that_could_confuse_are_refused(tree):
    (tree.root / "a\nb").mkdir()
    result = tree.run("true")
    assert result.cause == "runtime-broken"
    assert "not printable" in result.verdict["completion_notes"]


def test_too_many_names_are_refused(tree):
    (tree.root / "etc").mkdir()
    for number in range(700):
        (tree.root / f"etc/{number}").touch()
    result = tree.run("true")
    assert result.cause == "runtime-broken" and "more than" in result.verdict["completion_notes"]


def test_names_with_blanks_and_odd_bytes_are_shown(tree):
    for name in ("a b", "\u00e9", "back\\slash", "-rf"):
        (tree.root / name).mkdir()
    os.mkdir(os.fsencode(tree.root) + b"/\xff\xfe")
    result = tree.run("ls -1 /")
    assert result.cause == "ok", result.stderr
    assert {"a b", "back\\slash", "-rf"} <= set(result.stdout.splitlines())


def test_nothing_at_all_is_no_root(tree):
    shutil.rmtree(tree.root / "bin")
    result = tree.run("true")
    assert result.cause == "runtime-broken" and "neither usr nor bin" in result.stderr


@pytest.mark.parametrize("root", ["/", "/proc", "{home}", "{base}"])
def test_the_host_itself_is_no_runtime(tree, root):
    caller = tree.caller
    caller.run("--", "true")  # there is a home
    tree.entry.write_text("name: hostile\nkind: rootfs\nroot: "
                          + root.format(home=caller.home, base=caller.base) + "\n")
    result = tree.run("ls /etc/shadow /root")
    assert result.status in (2, 125) and result.stdout == ""


def test_everything_of_the_tree_is_read_only(tree):
    for folder in ("usr/lib", "etc/x", "var/x", "opt", "srv"):
        (tree.root / folder).mkdir(parents=True)
    for path in tree.root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o777)
    result = tree.run("for d in / /usr /usr/lib /etc /etc/x /var /var/x /opt /srv /bin; do "
                      "touch $d/made && echo $d; done; touch /etc/passwd && echo passwd")
    assert result.stdout == "", result.stdout
    assert result.stderr.count("Read-only file system") + result.stderr.count("Permission") == 11
    assert not list(tree.root.rglob("made"))


def test_a_tree_that_changes_meanwhile(tree):
    """A directory becomes a link and back while boxes are made: each run shows the directory, or the
    link that leads nowhere, or is refused."""
    (tree.root / "opt").mkdir()
    (tree.root / "spare").symlink_to(tree.host)
    tree.own()
    code = ("import ctypes, os\nlibc = ctypes.CDLL(None)\n"
            f"a, b = {os.fsencode(tree.root / 'opt')!r}, {os.fsencode(tree.root / 'spare')!r}\n"
            "while True: libc.renameat2(-100, a, -100, b, 2)\n")
    with subprocess.Popen(["/usr/bin/python3", "-c", code]) as swapper:
        try:
            causes = set()
            for _ in range(25):
                result = tree.run("cat /opt/secret 2>/dev/null; echo end", is_owned=True)
                causes.add(result.cause)
                assert SECRET not in result.stdout
        finally:
            swapper.kill()
    assert causes <= {"ok", "setup", "runtime-broken"} and "ok" in causes
