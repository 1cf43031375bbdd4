"""`cupel runtime create` and `remove`: real tools, real environments, and nothing half-done whatever
happens in between."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import zipfile

import cupel as lib
import oci
import pytest


class Maker:
    """`cupel runtime ...` by one caller, and where that leaves things."""

    def __init__(self, caller):
        self.caller, self.home = caller, caller.home
        # pytest's own directory is closed to others, and one of our callers is another.
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="create-", dir=caller.base))
        self.tmp.chmod(0o755)
        self.entries = (caller.base / "runtimes.d" if caller.who == "root"
                        else caller.dir / ".config/cupel/runtimes.d")
        for path in (self.entries.parent.parent, self.entries.parent, self.entries):
            if caller.who == "user" and not path.exists():
                caller.own(path.mkdir() or path)

    def do(self, *words, **options):
        return self.caller.call(self.caller.binary, "runtime", *words, cwd=self.tmp, **options)

    def make(self, name, *words, **options):
        """Must work: what it printed as JSON."""
        status, out, err = self.do("create", name, *words, "--json", **options)
        assert status == 0, err
        return json.loads(out)

    def entry(self, name):
        return self.entries / f"{name}.yaml"

    def left(self, name):
        """What is there of a name, but the log of the last time."""
        at = self.home / "runtimes" / name
        return sorted(p.name for p in at.iterdir() if p.name != "create.log") if at.exists() else []

    def assert_nothing(self, name):
        assert self.left(name) == []
        assert not self.entry(name).exists()
        assert list((self.home / "runtimes/.making").iterdir()) == []


@pytest.fixture
def maker(cupel):
    made = Maker(cupel)
    yield made
    for entry in made.entries.glob("*.yaml"):
        made.do("remove", entry.stem)
    assert not list(made.entries.glob("*.yaml"))
    shutil.rmtree(made.tmp)
    shutil.rmtree(made.home / "cache/images", ignore_errors=True)


@pytest.fixture
def wheels(maker):
    """A directory with one small wheel, which is a zip file of a few texts."""
    place = maker.tmp / "wheels"
    place.mkdir()
    files = {
        "tinymod.py": "def answer():\n    return 42\n\ndef main():\n    print(answer())\n",
        "tinymod-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinymod\nVersion: 1.0\n",
        "tinymod-1.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tinymod-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tinymod:main\n",
    }
    record = "tinymod-1.0.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    with zipfile.ZipFile(place / "tinymod-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return place


def python(prefix, code):
    return subprocess.run([f"{prefix}/bin/python3", "-c", code], capture_output=True, text=True,
                          check=True, env={}).stdout.strip()


# venv

def test_venv_of_wheels_works_and_needs_no_network(maker, wheels):
    made = maker.make("tiny", "--kind", "venv", "--wheels", wheels)
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"
    # Its scripts name the place where it stays.
    script = pathlib.Path(made["place"], "bin/tiny")
    assert script.read_text(encoding="utf-8").splitlines()[0] == f"#!{made['place']}/bin/python"
    assert subprocess.run([script], capture_output=True, text=True, check=True).stdout == "42\n"
    text = maker.entry("tiny").read_text(encoding="utf-8")
    assert "name: \"tiny\"\n" in text and "kind: venv\n" in text
    assert f"prefix: \"{made['place']}\"\n" in text
    assert made["entry"] == str(maker.entry("tiny"))
    assert made["next"] == ["cupel", "runtime", "check", "tiny"]
    # A run has another uid: everybody may read it, nobody else may write it.
    for folder, _, files in os.walk(made["place"]):
        for path in [folder] + [os.path.join(folder, name) for name in files]:
            seen = os.lstat(path)
            assert seen.st_uid == maker.caller.uid
            assert os.path.islink(path) or seen.st_mode & 0o022 == 0, path
            assert os.path.islink(path) or seen.st_mode & 0o004, path


def test_venv_of_requirements(maker, wheels):
    wanted = maker.tmp / "requirements.txt"
    wanted.write_text("tinymod == 1.0\n", encoding="utf-8")
    made = maker.make("tiny", "--kind", "venv", "--requirements", "requirements.txt",
                      "--wheels", "wheels", "--python", "/usr/bin/python3")
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"
    created = json.loads((pathlib.Path(made["place"]).parent / "created.json").read_text())
    assert created["command"][:4] == ["cupel", "runtime", "create", "tiny"]
    assert created["directory"] == str(maker.tmp)


def test_broken_requirements_leave_nothing_but_the_log(maker, wheels):
    wanted = maker.tmp / "requirements.txt"
    wanted.write_text("tinymod\nthere-is-no-such-thing==9\n", encoding="utf-8")
    status, out, err = maker.do("create", "broken", "--kind", "venv", "--requirements", wanted,
                                "--wheels", wheels)
    assert (status, out) == (125, "")
    assert "there-is-no-such-thing" in err and "create.log" in err
    maker.assert_nothing("broken")
    log = (maker.home / "runtimes/broken/create.log").read_text(encoding="utf-8")
    assert "there-is-no-such-thing" in log and "--no-index" in log


def test_the_callers_variables_do_not_bend_it(maker, wheels):
    bent = {"PYTHONHOME": "/nonexistent", "PYTHONPATH": str(maker.tmp), "PIP_TARGET": "/nonexistent",
            "PIP_INDEX_URL": "http://127.0.0.1:9/", "VIRTUAL_ENV": "/nonexistent"}
    assert subprocess.run(["/usr/bin/python3", "-c", ""], env=bent, capture_output=True,
                          check=False).returncode != 0  # the control: they would
    made = maker.make("tiny", "--kind", "venv", "--wheels", wheels, env=bent)
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"


def test_a_name_is_taken_once_and_replaced_in_one_step(maker, wheels):
    first = maker.make("tiny", "--kind", "venv")
    status, _, err = maker.do("create", "tiny", "--kind", "venv")
    assert status == 2 and "--replace" in err
    # One that fails leaves the old one as it was, and alive.
    before = maker.entry("tiny").read_bytes()
    wanted = maker.tmp / "wanted.txt"
    wanted.write_text("nobody-has-made-this==1\n", encoding="utf-8")
    status, _, _ = maker.do("create", "tiny", "--kind", "venv", "--replace", "--requirements", wanted,
                            "--wheels", maker.tmp)
    assert status == 125
    assert maker.entry("tiny").read_bytes() == before
    assert python(first["place"], "print(1)") == "1"
    second = maker.make("tiny", "--kind", "venv", "--replace", "--wheels", wheels)
    assert second["place"] != first["place"] and not os.path.exists(first["place"])
    assert python(second["place"], "import tinymod; print(tinymod.answer())") == "42"
    assert len(maker.left("tiny")) == 1


# Interruptions. A slow interpreter holds the moment; it is what --python names, and nothing else of it is used.

def slow_python(maker, body):
    program = maker.tmp / "slow-python"
    program.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    marks = maker.tmp / "marks"
    marks.mkdir(mode=0o777)
    marks.chmod(0o777)
    return program, marks / "started"


def start(maker, name, program, started):
    process = maker.caller.popen(maker.caller.binary, "runtime", "create", name, "--kind", "venv",
                                 "--python", program, cwd=maker.tmp, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
    assert lib.wait_until(started.exists)
    assert lib.wait_until(lambda: started.read_text(encoding="utf-8").endswith("\n"))
    return process, int(started.read_text(encoding="utf-8"))


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_kill_9_leaves_nothing_after_the_next_command(maker):
    program, started = slow_python(maker, f"mkdir -p ${{@: -1}}/half; echo $$ > {maker.tmp}/marks/started; "
                                          "exec sleep 1000")
    process, tool = start(maker, "slow", program, started)
    process.kill()
    process.communicate()
    assert lib.wait_until(lambda: is_gone(tool))  # it ends with us
    assert len(maker.left("slow")) == 1  # the control: there is something to sweep
    assert maker.caller.call(maker.caller.binary, "gc")[0] == 0
    maker.assert_nothing("slow")


def test_nothing_is_swept_from_under_a_tool_that_lives_on(maker):
    program, started = slow_python(
        maker, f"trap '' TERM; echo $$ > {maker.tmp}/marks/started; while :; do sleep 0.2; done")
    process, tool = start(maker, "stubborn", program, started)
    process.kill()
    process.communicate()
    assert maker.caller.call(maker.caller.binary, "gc")[0] == 0
    assert len(maker.left("stubborn")) == 1
    status, _, err = maker.do("create", "stubborn", "--kind", "venv")
    assert status == 2 and "another process" in err
    os.kill(tool, signal.SIGKILL)

    def swept():
        maker.caller.call(maker.caller.binary, "gc")
        return not maker.left("stubborn")

    assert lib.wait_until(swept)  # the shell's sleep holds the lock for a moment longer
    maker.assert_nothing("stubborn")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_cancelled_leaves_nothing(maker, number):
    program, started = slow_python(maker, f"echo $$ > {maker.tmp}/marks/started; exec sleep 1000")
    process, tool = start(maker, "slow", program, started)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"cancelled" in err
    assert is_gone(tool)
    maker.assert_nothing("slow")


# conda

def test_conda_says_what_is_missing(maker):
    status, _, err = maker.do("create", "sc", "--kind", "conda", "--packages", "numpy",
                              env={"PATH": "/usr/bin:/bin"})
    assert status == 125 and "micromamba, mamba and conda" in err
    maker.assert_nothing("sc")


STAND_IN = """#!/usr/bin/python3
# Not a conda: it makes an empty prefix where it is told to, and writes down how it was called.
import json, os, sys
prefix = sys.argv[sys.argv.index("--prefix") + 1]
os.makedirs(prefix + "/conda-meta")
with open(prefix + "/conda-meta/history", "w") as out:
    json.dump([sys.argv[1:], sorted(k for k in os.environ if k.startswith("CONDA"))], out)
"""


@pytest.mark.parametrize("program", ["micromamba", "mamba", "conda"])
def test_conda_is_called_as_it_wants_to_be(maker, program):
    """Only the calling convention, with a stand-in: no conda can be had from Debian."""
    place = maker.tmp / "bin"
    place.mkdir()
    (place / program).write_text(STAND_IN, encoding="utf-8")
    (place / program).chmod(0o755)
    env = {"PATH": f"{place}:/usr/bin:/bin", "CONDA_PREFIX": "/nonexistent"}
    yml, explicit = maker.tmp / "environment.yml", maker.tmp / "explicit.txt"
    yml.write_text("dependencies: [numpy]\n", encoding="utf-8")
    explicit.write_text("# a comment\n@EXPLICIT\nhttp://example.org/x.conda\n", encoding="utf-8")
    head = ["create"] if program == "micromamba" else ["env", "create"]
    yes = ["--yes"] if program == "micromamba" else []
    cases = [
        (["--packages", "numpy>=1.20,pip", "--channel", "conda-forge"],
         lambda at: ["create", "--yes", "--prefix", at, "--channel", "conda-forge", "numpy>=1.20",
                     "pip"]),
        (["--file", "explicit.txt"],
         lambda at: ["create", "--yes", "--prefix", at, "--file", str(explicit)]),
        (["--file", "environment.yml"],
         lambda at: [*head, *yes, "--prefix", at, "--file", str(yml)]),
    ]
    for words, expected in cases:
        made = maker.make("sc", "--kind", "conda", "--replace", *words, env=env)
        called, variables = json.loads(
            pathlib.Path(made["place"], "conda-meta/history").read_text(encoding="utf-8"))
        assert called == expected(made["place"])
        assert variables == ["CONDA_ALWAYS_YES"]
        assert made["notes"]["made_by"] == program
    assert "kind: conda\n" in maker.entry("sc").read_text(encoding="utf-8")


# rootfs

def need_mirror():
    """Whatever apt uses here must answer."""
    with tempfile.TemporaryDirectory() as place:
        tried = subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "hello"], cwd=place,
                               capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            pytest.skip(f"network: no Debian mirror: {tried.stderr.strip()[-200:]}")


@pytest.mark.limit_s(1200)  # as slow as the mirror
@pytest.mark.parametrize("who", ["root"])
@pytest.mark.parametrize("packed", [False, True], ids=["directory", "squashfs"])
def test_rootfs_of_debian_packages(maker, packed):
    need_mirror()
    words = ["--squashfs"] if packed else ["--packages", "hello"]
    made = maker.make("deb", "--kind", "rootfs", *words, limit_s=1200)
    root = pathlib.Path(made["place"])
    result = maker.caller.run("-r", "deb", "--", "cat", "/etc/debian_version")
    assert result.cause == "ok" and result.stdout.startswith("12"), result.stderr
    if packed:
        listed = subprocess.run(["unsquashfs", "-lls", root], capture_output=True, text=True,
                                check=True).stdout
        assert " squashfs-root/usr/bin/dpkg\n" in listed
        assert not [line for line in listed.splitlines() if line[0] in "cb" or "s" in line[:10]]
        return
    said = subprocess.run(["chroot", root, "hello"], capture_output=True, text=True, check=True)
    assert said.stdout == "Hello, world!\n"
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in root.rglob("*")}
    assert kinds == {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
    assert not [p for p in root.rglob("*") if not p.is_symlink() and p.lstat().st_mode & 0o6022]


@pytest.mark.parametrize("who", ["root"])
def test_a_rootfs_that_cannot_be_fetched_leaves_nothing(maker):
    """Nobody answers there, so this fails wherever it is run."""
    status, _, err = maker.do("create", "deb", "--kind", "rootfs", "--packages", "x",
                              "--mirror", "http://127.0.0.1:9/debian")
    assert status == 125 and "mmdebstrap" in err
    maker.assert_nothing("deb")


# image

def image_root(maker, made):
    root = pathlib.Path(made["notes"]["unpacked"])
    assert root == maker.home / f"cache/images/sha256-{made['notes']['digest']}/root"
    return root


@pytest.mark.parametrize("packing", list(oci.PACKED))
@pytest.mark.parametrize("form", ["directory", "archive"])
def test_image_layers_apply_in_order(maker, packing, form):
    lower = [oci.entry("usr/bin/tool", b"#!old", mode=0o4755), oci.entry("etc/a", b"a"),
             oci.entry("etc/b", b"b"), oci.entry("opt/x/y", b"y"),
             oci.entry("usr/lib", kind=tarfile.DIRTYPE),
             oci.entry("lib", kind=tarfile.SYMTYPE, linkname="usr/lib")]
    upper = [oci.entry("etc/.wh.a"), oci.entry("usr/bin/tool", b"#!new", mode=0o755),
             oci.entry("opt/x/z", b"z"), oci.entry("opt/x/.wh..wh..opq"),
             oci.entry("lib/libm.so", b"m"), oci.entry("srv/caf\u00e9/" + "n" * 200, b"long")]
    layout = oci.Layout(maker.tmp / "layout", [lower, upper], packing,
                        config={"Env": ["PATH=/opt/bin", "MODEL=x"], "WorkingDir": "/srv",
                                "User": "nobody"})
    source = layout.path if form == "directory" else layout.archive(maker.tmp / "image.tar")
    made = maker.make("img", "--kind", "image", "--layout", source)
    root = image_root(maker, made)
    files = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*")
             if p.is_file() and not p.is_symlink()}
    assert files == {"usr/bin/tool": b"#!new", "etc/b": b"b", "opt/x/z": b"z",
                     "usr/lib/libm.so": b"m", "srv/caf\u00e9/" + "n" * 200: b"long"}
    assert (root / "lib").is_symlink()
    assert {p.lstat().st_uid for p in root.rglob("*")} == {maker.caller.uid}
    assert not [p for p in root.rglob("*") if not p.is_symlink() and p.lstat().st_mode & 0o6022]
    assert made["notes"]["left_out"] == {"devices": 0, "odd_names": 0, "set_id_bits": 1}
    assert made["notes"]["user"] == "nobody" and made["notes"]["work_dir"] == "/srv"
    told = json.loads((root.parent / "image.json").read_text(encoding="utf-8"))
    assert told["env"] == {"PATH": "/opt/bin", "MODEL": "x"}
    assert f"sha256:{made['notes']['digest']}" == layout.manifest["digest"]
    # The copy stands alone: it is whole, and a second making finds the tree there.
    inode = root.stat().st_ino
    again = maker.make("img", "--kind", "image", "--layout", made["place"], "--replace")
    assert image_root(maker, again).stat().st_ino == inode
    assert f"root: \"{again['place']}\"\n" in maker.entry("img").read_text(encoding="utf-8")


HOSTILE = {
    "climbs": ([oci.entry("../escaped", b"x")], "leads upward"),
    "climbs-inside": ([oci.entry("a/../../escaped", b"x")], "leads upward"),
    "through-a-link": ([oci.entry("up", kind=tarfile.SYMTYPE, linkname="../../../../.."),
                        oci.entry("up/nowhere-at-all/../x", b"x")], "leads upward"),
    "hard-link-out": ([oci.entry("passwd", kind=tarfile.LNKTYPE, linkname="/etc/passwd")],
                      "hard link"),
    "hard-link-through": ([oci.entry("etc", kind=tarfile.SYMTYPE, linkname="/etc"),
                           oci.entry("p", kind=tarfile.LNKTYPE, linkname="etc/passwd")],
                          "hard link"),
    "deep": ([oci.entry("d/" * 200 + "f", b"x")], "nested too deeply"),
    "long-name": ([oci.entry("n" * 300, b"x")], "255 bytes"),
    "below-a-file": ([oci.entry("f", b"x"), oci.entry("f/g", b"x")], "'f/g'"),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_hostile_layers_are_refused_and_leave_nothing(maker, case):
    entries, words = HOSTILE[case]
    layout = oci.Layout(maker.tmp / "layout", [[oci.entry("ok", b"ok"), *entries]])
    before = set(maker.caller.base.rglob("*"))
    status, _, err = maker.do("create", "bad", "--kind", "image", "--layout", layout.path)
    assert status == 2 and words in err, err
    maker.assert_nothing("bad")
    new = {str(p.relative_to(maker.caller.base)) for p in set(maker.caller.base.rglob("*")) - before}
    assert not [name for name in new if "escaped" in name or ".new" in name or "sha256-" in name]


def test_writing_through_links_stays_inside(maker):
    outside = maker.tmp / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    layers = [[oci.entry("abs", kind=tarfile.SYMTYPE, linkname=str(outside)),
               oci.entry(str(outside).strip("/"), kind=tarfile.DIRTYPE)],
              [oci.entry("abs/planted", b"x"), oci.entry(f"{outside}/absolute", b"x")]]
    made = maker.make("img", "--kind", "image", "--layout",
                      oci.Layout(maker.tmp / "layout", layers).path)
    root = image_root(maker, made)
    assert list(outside.iterdir()) == []
    assert (root / str(outside).strip("/") / "planted").read_bytes() == b"x"  # it went somewhere
    assert (root / str(outside).strip("/") / "absolute").read_bytes() == b"x"


def test_a_bomb_is_refused(maker):
    """300 MB of zeros, 1000 to 1. In small memory, and before the disk has noticed."""
    layout = oci.Layout(maker.tmp / "layout", [[oci.entry("zeros", bytes(300_000_000))]])
    assert sum(p.stat().st_size for p in layout.path.rglob("*")) < 1_000_000
    status, _, err = maker.do("create", "bad", "--kind", "image", "--layout", layout.path)
    assert status == 2 and "fill disks" in err
    maker.assert_nothing("bad")
    assert not list((maker.home / "cache/images").glob("[s.]*"))


def test_devices_and_odd_names_are_left_out_and_told(maker):
    entries = [oci.entry("dev/mem", kind=tarfile.CHRTYPE, devmajor=1, devminor=1),
               oci.entry("pipe", kind=tarfile.FIFOTYPE), oci.entry("new\nline", b"x"),
               oci.entry("fine", b"x")]
    layout = oci.Layout(maker.tmp / "layout", [entries])
    made = maker.make("img", "--kind", "image", "--layout", layout.path)
    assert [p.name for p in image_root(maker, made).rglob("*") if p.is_file()] == ["fine"]
    assert made["notes"]["left_out"] == {"devices": 2, "odd_names": 1, "set_id_bits": 0}
    _, out, _ = maker.do("create", "img", "--kind", "image", "--layout", layout.path, "--replace")
    assert "2 device nodes" in out


def damage_bit(layout):
    blob = layout.path / "blobs/sha256" / layout.layers[0]["digest"].split(":")[1]
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)


def damage_missing(layout):
    (layout.path / "blobs/sha256" / layout.layers[0]["digest"].split(":")[1]).unlink()


def damage_platform(layout):
    layout.write("index.json", {"schemaVersion": 2, "manifests": [
        {**layout.manifest, "platform": {"os": "linux", "architecture": "s390x"}}]})


def damage_traversal(layout):
    layout.write("index.json", {"schemaVersion": 2, "manifests": [
        {**layout.manifest, "digest": "sha256:../../../../etc/passwd"}]})


@pytest.mark.parametrize("damage, words", [
    (damage_bit, "another content"), (damage_missing, "not whole"),
    (damage_platform, "no image for linux/amd64"), (damage_traversal, "sha256:HEX"),
], ids=lambda value: value.__name__.removeprefix("damage_") if callable(value) else "")
def test_damaged_layouts_are_refused(maker, damage, words):
    layout = oci.Layout(maker.tmp / "layout", [[oci.entry("f", os.urandom(5000))]])
    damage(layout)
    status, _, err = maker.do("create", "bad", "--kind", "image", "--layout", layout.path)
    assert status == 2 and words in err, err
    maker.assert_nothing("bad")


def test_kill_9_while_an_image_is_unpacked(maker):
    entries = [oci.entry(f"d{i % 100}/f{i}", b"x" * 100) for i in range(20000)]
    layout = oci.Layout(maker.tmp / "layout", [entries], "tar")
    cache = maker.home / "cache/images"
    process = maker.caller.popen(maker.caller.binary, "runtime", "create", "big", "--kind", "image",
                                 "--layout", layout.path, cwd=maker.tmp)
    assert lib.wait_until(lambda: (cache / ".new-tree/root/d50").exists())
    process.kill()
    process.wait()
    assert (cache / ".new-tree").exists()  # the control: it was in the middle
    assert maker.caller.call(maker.caller.binary, "gc")[0] == 0
    assert not (cache / ".new-tree").exists() and not list(cache.glob("sha256-*"))
    maker.assert_nothing("big")
    made = maker.make("big", "--kind", "image", "--layout", layout.path)
    assert sum(p.is_file() for p in image_root(maker, made).rglob("*")) == 20000


@pytest.mark.parametrize("who", ["root"])
@pytest.mark.parametrize("form", ["oci", "oci-archive", "docker-archive"])
def test_an_image_of_other_tools(maker, form):
    """Made by umoci, converted by skopeo; umoci's own unpacking is what ours is compared with."""
    tree = maker.tmp / "tree"
    for name, data in {"usr/bin/tool": b"#!/bin/sh\n", "usr/share/caf\u00e9": b"x",
                       "var/big": os.urandom(300_000)}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    (tree / "usr/bin/tool").chmod(0o755)
    (tree / "bin").symlink_to("usr/bin")
    os.link(tree / "var/big", tree / "var/again")

    def tool(*words):
        subprocess.run([str(word) for word in words], check=True, capture_output=True, cwd=maker.tmp)

    tool("umoci", "init", "--layout", "made")
    tool("umoci", "new", "--image", "made:v1")
    tool("umoci", "config", "--image", "made:v1", "--config.env", "MODEL=x",
         "--config.workingdir", "/srv")
    tool("umoci", "insert", "--image", "made:v1", tree, "/")
    tool("umoci", "insert", "--image", "made:v1", "--whiteout", "/var/again")
    tool("umoci", "gc", "--layout", "made")
    tool("umoci", "unpack", "--image", "made:v1", "expected")
    source = maker.tmp / "made"
    if form != "oci":
        source = maker.tmp / "image.tar"
        tool("skopeo", "--insecure-policy", "copy", "oci:made:v1",
             f"{form}:{source}" + (":img:v1" if form == "docker-archive" else ""))
    made = maker.make("img", "--kind", "image", "--layout", source)
    root = image_root(maker, made)

    def files(top):
        return {str(p.relative_to(top)): os.readlink(p) if p.is_symlink() else
                hashlib.sha256(p.read_bytes()).hexdigest() for p in top.rglob("*")
                if p.is_symlink() or p.is_file()}

    expected = files(maker.tmp / "expected/rootfs")
    assert files(root) == expected and "var/again" not in expected and len(expected) == 4
    told = json.loads((root.parent / "image.json").read_text(encoding="utf-8"))
    assert told["env"]["MODEL"] == "x" and told["work_dir"] == "/srv"


# remove

def test_remove_says_what_goes_and_how_to_make_it_again(maker, wheels):
    made = maker.make("tiny", "--kind", "venv", "--wheels", "wheels")
    status, out, _ = maker.do("remove", "tiny", "--dry-run")
    assert status == 0 and f"would remove {maker.entry('tiny')}\n" in out
    assert os.path.exists(made["place"]) and maker.entry("tiny").exists()
    status, out, _ = maker.do("remove", "tiny")
    assert status == 0
    assert "to make tiny again: cupel runtime create tiny --kind venv --wheels wheels\n" in out
    assert not (maker.home / "runtimes/tiny").exists()
    maker.assert_nothing("tiny")
    status, _, err = maker.do("remove", "tiny")
    assert status == 2 and "nothing to remove" in err


def test_what_cupel_did_not_make_stays(maker):
    prefix = maker.tmp / "own"
    (prefix / "bin").mkdir(parents=True)
    maker.entries.mkdir(parents=True, exist_ok=True)
    text = f"name: own\nkind: venv\nprefix: {prefix}\n"
    maker.entry("own").write_text(text, encoding="utf-8")
    for path in (maker.entries, *maker.entries.parents):
        if maker.caller.dir in path.parents:
            maker.caller.own(path)
    for words in ([], ["--replace"]):
        status, _, err = maker.do("create", "own", "--kind", "venv", *words)
        assert status == 2 and "was not made by" in err
    assert maker.entry("own").read_text(encoding="utf-8") == text
    status, out, _ = maker.do("remove", "own", "--json")
    assert status == 0 and json.loads(out)["entry_text"] == text
    assert not maker.entry("own").exists() and (prefix / "bin").is_dir()


@pytest.mark.parametrize("who", ["root"])
def test_the_line_that_tells_why_is_shown(maker):
    """apt names the package, and mmdebstrap then says that it failed."""
    tool = maker.tmp / "tool"
    tool.write_text("#!/bin/sh\necho 'an Error on the way'; echo 'E: no package x'; echo 'E: failed to run'; exit 25\n")
    tool.chmod(0o755)
    maker.caller.own(tool)
    status, _, err = maker.do("create", "x", "--kind", "venv", "--python", str(tool))
    assert status == 125 and "status 25: E: no package x; all it said" in err, err
    assert (maker.home / "runtimes/x/create.log").read_text().endswith("E: failed to run\n")
    shutil.rmtree(maker.home / "runtimes/x")


def test_remove_takes_the_lock_along_and_says_what_stays(maker):
    entry = maker.entry("base")
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text("name: base\nkind: system\n", encoding="utf-8")
    maker.caller.own(entry)
    status, _, err = maker.do("lock", "base")
    assert status == 0, err
    assert sorted(path.suffix for path in entry.parent.glob("base.*")) == [".lock", ".manifest", ".yaml"]
    stale = entry.parent / f"base.lock.{16 * '0'}.manifest"  # of a lock that is of another place now
    stale.touch()
    other = entry.parent / "base.lock.mine.manifest"
    other.touch()
    for path in (stale, other):
        maker.caller.own(path)
    assert maker.do("lock", "base")[0] == 0 and not stale.exists()
    other.unlink()
    status, out, _ = maker.do("remove", "base", "--json")
    removed = json.loads(out)
    assert (status, removed["lock"], removed["remaining"]) == (0, str(entry.with_suffix(".lock")), "built-in")
    assert not list(entry.parent.glob("base.*"))
    # A lock that stayed would refuse every run of whatever gets the name next.
    assert maker.caller.run("-r", "base", "--", "true").cause == "ok"


def test_nothing_is_removed_under_a_run(maker):
    maker.entries.mkdir(parents=True, exist_ok=True)
    maker.entry("base").write_text("name: base\nkind: system\n", encoding="utf-8")
    process, run_id = maker.caller.start("--", "sleep", "1000")
    assert lib.wait_until((maker.caller.run_dir(run_id) / "receipt.json").exists)
    status, _, err = maker.do("remove", "base")
    assert status == 2 and run_id in err and maker.entry("base").exists()
    process.terminate()
    process.wait()
    assert maker.do("remove", "base")[0] == 0 and not maker.entry("base").exists()


# The command line.

def test_every_option_is_in_the_manual_and_no_other(maker):
    page = (lib.TESTS.parent / "docs/man/cupel-runtime-create.1.scd").read_text(encoding="utf-8")
    heads = "\n".join(re.findall(r"^\*-.*$", page, re.MULTILINE))
    said = set()
    for command in ("create", "remove"):
        said |= set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)",
                               maker.do(command, "--help")[1].split("options:")[1].replace(",", " ")))
    assert said == set(re.findall(r"\*(--?[a-z][a-z-]*)\*", heads))



@pytest.mark.parametrize("words, told", [
    (["create"], "usage: cupel runtime create NAME"),
    (["create", "x"], "--kind venv|rootfs|conda|image"),
    (["create", "x", "--kind", "tree"], "no kind 'tree'"),
    (["create", "x", "--kind", "system"], "nothing to make"),
    (["create", "x", "y", "--kind", "venv"], "usage"),
    (["create", "x", "--kind", "venv", "--layout", "y"], "--layout is not for --kind venv"),
    (["create", "x", "--kind", "image"], "--layout PATH"),
    (["create", "x", "--kind", "conda"], "--file FILE"),
    (["create", "x", "--kind", "rootfs", "--packages", "a,--option"], "not a package's name"),
    (["create", "x", "--kind", "venv", "--requirement", "y"], "did you mean --requirements"),
    (["create", "x", "--kind", "venv", "--requirements", "nowhere.txt"], "--requirements nowhere.txt: No such file"),
    (["create", "x", "--kind", "venv", "--wheels", "nowhere"], "--wheels nowhere: No such file"),
    (["create", "../x", "--kind", "venv"], "the runtime's name '../x'"),
    (["remove"], "usage: cupel runtime remove NAME"),
    (["remove", "../x"], "../x"),
])
def test_mistakes_are_told_before_anything_is_made(maker, words, told):
    status, _, err = maker.do(*words)
    assert status == 2 and told in err, err
    assert not (maker.home / "runtimes/x").exists()


def test_an_image_has_a_health_check(maker, tmp_path):
    """One that has a shell: it is started. One without has no check that cupel could know of."""
    source, shell = tmp_path / "sh.c", tmp_path / "sh"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    subprocess.run(["cc", "-static", "-o", shell, source], check=True, timeout=60)
    layers = [[oci.entry("usr/bin/sh", shell.read_bytes(), mode=0o755), oci.entry("bin", kind=tarfile.SYMTYPE, linkname="usr/bin")]]
    layout = oci.Layout(maker.tmp / "with-shell", layers)
    maker.make("shelled", "--kind", "image", "--layout", layout.path)
    status, out, err = maker.do("check", "shelled")
    assert status == 0 and out.startswith("shelled: healthy") and "starts" in out, (out, err)
    layout = oci.Layout(maker.tmp / "without", [[oci.entry("usr/bin/tool", shell.read_bytes(), mode=0o755)]])
    maker.make("bare", "--kind", "image", "--layout", layout.path)
    status, out, _ = maker.do("check", "bare")
    assert status == 1 and out.startswith("bare: unknown"), out
