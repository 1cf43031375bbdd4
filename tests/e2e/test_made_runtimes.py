"""Runtimes that `cupel runtime create` made, from the making to the verdict: run in, checked, locked, spoiled, refused."""

import base64
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import zipfile

import cupel as lib
import oci
import pytest

pytestmark = pytest.mark.test_all


BUSYBOX = pathlib.Path("/bin/busybox")


class Place:
    """One caller with a directory of his own that goes with the test."""

    def __init__(self, caller):
        self.caller = caller
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="made-", dir=caller.base))
        self.tmp.chmod(0o755)
        self.names = []

    def runtime(self, *words):
        """Exit status, and what was printed as JSON, or else the message."""
        status, out, err = self.caller.call(self.caller.binary, "runtime", *words, "--json",
                                            cwd=self.tmp)
        return status, json.loads(out) if out.strip() else err

    def create(self, name, *words):
        status, made = self.runtime("create", name, *words)
        assert status == 0, made
        self.names.append(name)
        return pathlib.Path(made["place"])

    def wheel(self, version):
        """A package of one module that knows its version."""
        info = f"clash-{version}.dist-info"
        files = {"clash.py": f"VERSION = '{version}'\n",
                 f"{info}/METADATA": f"Metadata-Version: 2.1\nName: clash\nVersion: {version}\n",
                 f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        lines = []
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(text)}\n")
        files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"])
        with zipfile.ZipFile(self.tmp / f"clash-{version}-py3-none-any.whl", "w") as wheel:
            for name, text in files.items():
                wheel.writestr(name, text)

    def venv(self, name, version):
        self.wheel(version)
        wanted = self.tmp / f"{name}.txt"
        wanted.write_text(f"clash=={version}\n", encoding="utf-8")
        return self.create(name, "--kind", "venv", "--requirements", wanted, "--wheels", self.tmp)


@pytest.fixture
def place(cupel):
    made = Place(cupel)
    yield made
    for name in made.names:
        status, text = made.runtime("remove", name)
        assert status == 0, text
    shutil.rmtree(made.tmp)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_conflicting_versions_run_at_the_same_moment(place):
    """Each is one library, of which a process can have only one version; the two runs overlap in time."""
    versions = {"old": "1.0", "new": "2.0"}
    for name, version in versions.items():
        place.venv(name, version)
    script = place.tmp / "which.py"
    script.write_text("import os, time, clash\nprint(clash.VERSION)\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\n", encoding="utf-8")
    started = {name: place.caller.start("-r", name, script) for name in versions}
    assert lib.wait_until(lambda: all(place.caller.has_started(run) for _, run in started.values())), "both are there before one may end"
    for _, run in started.values():
        place.caller.let_go(run)
    spans = []
    for name, (process, run) in started.items():
        assert process.wait(120) == 0
        folder = place.caller.run_dir(run)
        assert (folder / "stdout.log").read_text() == versions[name] + "\n"
        verdict = json.loads((folder / "verdict.json").read_text())
        assert (verdict["cause"], verdict["runtime"]) == ("ok", name)
        spans.append((moment(verdict["started"]), moment(verdict["ended"])))
    (first, first_end), (second, second_end) = sorted(spans)
    assert second < first_end, "they ran one after the other"


@pytest.fixture
def locked(place):
    """A venv that is healthy and locked, and the module in it."""
    prefix = place.venv("pinned", "1.0")
    assert place.runtime("lock", "pinned")[0] == 0
    status, report = place.runtime("check", "pinned", "--deep")
    assert (status, report["health"]) == (0, "healthy"), report
    return place, next(prefix.glob("lib/python3*/site-packages/clash.py"))


def refused(place):
    """Is a run refused, with the remedy, and can the refusal be read later?"""
    result = place.caller.run("-r", "pinned", "--", "python3", "-c", "import clash; print(clash.VERSION)")
    assert (result.status, result.cause, result.stdout) == (125, "runtime-broken", ""), result.stderr
    assert "Remedy" in result.verdict["completion_notes"]
    return result.verdict["completion_notes"]


def named(report):
    return [entry["what"] for entry in report["drift"]["drifts"]]


def test_control_nothing_was_changed(locked):
    place, _ = locked
    result = place.caller.run("-r", "pinned", "--", "python3", "-c", "import clash; print(clash.VERSION)")
    assert (result.cause, result.stdout) == ("ok", "1.0\n")


def test_one_byte_with_the_old_time_is_found_and_named(locked):
    place, module = locked
    before = module.stat()
    module.write_text(module.read_text().replace("1.0", "1.1"))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    status, report = place.runtime("check", "pinned")
    assert (status, report["health"]) == (1, "degraded")
    assert any(what.endswith("site-packages/clash.py") for what in named(report))
    assert "clash.py" in refused(place)


def test_a_missing_file_is_found_and_named(locked):
    place, module = locked
    module.unlink()
    status, report = place.runtime("check", "pinned")
    assert status == 1 and report["health"] in ("degraded", "broken")
    assert any(what.endswith("site-packages/clash.py") for what in named(report))
    refused(place)


def test_a_package_added_by_hand_is_refused_before_any_check(locked):
    """Identity is looked at before each run: nobody need have asked for a check."""
    place, module = locked
    info = module.parent / "extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "RECORD").write_text("extra-1.0.dist-info/METADATA,,\nextra-1.0.dist-info/RECORD,,\n")
    for path in (info, *info.iterdir()):
        place.caller.own(path)
    refused(place)
    # Overridden, the run says so; locked again, it is as it should be.
    result = place.caller.run("--allow-drift", "-r", "pinned", "--", "python3", "-c", "print(1)")
    assert result.cause == "ok" and "as was allowed" in result.verdict["completion_notes"]
    assert place.runtime("lock", "pinned")[0] == 0
    assert place.caller.run("-r", "pinned", "--", "python3", "-c", "print(1)").cause == "ok"


def image_layers():
    """A layer with busybox and one over it that takes something away: a whole small system."""
    applets = ["sh", "cat", "ls", "echo", "env"]
    below = [oci.entry("bin", kind=tarfile.DIRTYPE, mode=0o755),
             oci.entry("bin/busybox", BUSYBOX.read_bytes(), mode=0o755),
             *(oci.entry(f"bin/{name}", kind=tarfile.SYMTYPE, linkname="busybox") for name in applets),
             oci.entry("etc", kind=tarfile.DIRTYPE, mode=0o755),
             oci.entry("etc/motd", b"from the image\n", mode=0o644),
             oci.entry("etc/gone", b"removed above\n", mode=0o644)]
    return [below, [oci.entry("etc/.wh.gone")]]


def test_an_image_is_a_root_of_its_own(place):
    layout = oci.Layout(place.tmp / "layout", image_layers(), config={"Env": ["PATH=/bin", "COLOUR=blue green"]})
    for path in (place.tmp / "layout").rglob("*"):
        place.caller.own(path)
    place.create("small", "--kind", "image", "--layout", layout.path)
    status, report = place.runtime("check", "small")  # it has no Python, which nobody said it must, but a shell
    assert (status, report["health"]) == (0, "healthy"), report
    assert [check["name"] for check in report["checks"]] == ["starts"]
    result = place.caller.run("-r", "small", "--", "sh", "-c",
                              "cat /etc/motd; ls /etc/gone /usr/bin/python3; echo $COLOUR; echo made > out/made")
    assert result.stdout == "from the image\nblue green\n", result.stderr
    assert b"/etc/gone" in result.log("stderr.log") and b"/usr/bin/python3" in result.log("stderr.log")
    assert (result.run_dir / "outputs/out/made").read_text() == "made\n"
    analysis = json.loads((result.run_dir / "analysis.json").read_text())
    assert analysis["runtime"]["kind"] == "image"


def test_an_image_is_checked_locked_and_found_spoiled(place):
    """It is known by what it was unpacked to, and until then not at all."""
    layout = oci.Layout(place.tmp / "layout", image_layers(), config={"Env": ["PATH=/bin"]})
    for path in (place.tmp / "layout").rglob("*"):
        place.caller.own(path)
    entries = place.caller.base / "runtimes.d"
    entries.mkdir(exist_ok=True)
    entry = place.caller.own(entries) / "byhand.yaml"
    entry.write_text(f"name: byhand\nkind: image\nroot: {layout.path}\n"
                     "checks: [{run: {name: motd, command: [cat, /etc/motd], expect: from the image}}]\n")
    place.caller.own(entry)
    shutil.rmtree(place.caller.home / "cache/images", ignore_errors=True)
    _, shown = place.runtime("show", "byhand")
    assert shown["health"] == "unknown" and "unpacked" in shown["reason"]
    assert not (place.caller.home / "cache/images").exists()  # whoever only asks unpacks nothing
    status, report = place.runtime("check", "byhand")
    assert (status, report["health"]) == (0, "healthy"), report
    assert place.runtime("lock", "byhand")[0] == 0
    _, shown = place.runtime("show", "byhand")
    assert (shown["health"], shown["locked"]) == ("healthy", True) and shown["fingerprint"]["identity"]
    assert place.caller.run("-r", "byhand", "--", "cat", "/etc/motd").stdout == "from the image\n"
    next((place.caller.home / "cache/images").glob("sha256-*/root/etc/motd")).write_text("spoiled\n")
    status, report = place.runtime("check", "byhand")
    assert status == 1 and named(report) == ["etc/motd"]
    result = place.caller.run("-r", "byhand", "--", "cat", "/etc/motd")
    assert (result.status, result.cause) == (125, "runtime-broken"), result.stderr
    for path in (place.caller.home / "cache/images", place.caller.home / "runtimes/byhand", entries):
        shutil.rmtree(path)


def test_the_hosts_policy_may_forbid_the_override(locked):
    place, module = locked
    module.unlink()
    place.runtime("check", "pinned")
    place.caller.configure("policy: {allow_drift: false}\n")
    try:
        result = place.caller.run("--allow-drift", "-r", "pinned", "--", "python3", "-c", "print(1)")
        assert result.status == 2 and "policy: {allow_drift: true}" in result.stderr
        status, report = place.runtime("check", "pinned")  # which looks, whatever it finds
        assert status == 1 and report["checks"]
    finally:
        place.caller.configure()
    assert place.caller.run("--allow-drift", "-r", "pinned", "--", "python3", "-c", "print(1)").cause == "ok"
