"""`cupel runtime create` of root file systems and images: layers apply in order, and hostile or damaged ones are refused and leave nothing."""

import hashlib
import json
import os
import pathlib
import stat
import subprocess
import tarfile
import tempfile

import pytest

import cupel as lib
import oci
from makers import maker  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all


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
