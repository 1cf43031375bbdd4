"""A catalog of runtimes for tests: prefixes, virtual environments and trees made by hand, with their entries."""

import json
import os
import shutil
import subprocess
import textwrap

import pytest

PYTHON = "/usr/bin/python3"


class Catalog:
    """Runtimes of one caller, beside its configuration; everything is gone afterwards."""

    def __init__(self, caller):
        self.caller = caller
        self.directory = caller.base / "runtimes.d"
        self.place = caller.base / "places"
        for path in (self.directory, self.place):
            path.mkdir(exist_ok=True)
            caller.own(path)

    def close(self):
        for path in (self.directory, self.place, self.caller.home / "runtimes"):
            shutil.rmtree(path, ignore_errors=True)

    def write(self, path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        path.chmod(mode)
        self.own_all(path.parent)
        return path

    def own_all(self, top):
        for folder, folders, files in os.walk(top):
            for name in [folder, *(os.path.join(folder, n) for n in folders + files)]:
                self.caller.own(name)

    def add(self, name, text, directory=None):
        return self.write((directory or self.directory) / f"{name}.yaml",
                          f"name: {name}\n" + textwrap.dedent(text))

    def conda(self, name, more=""):
        prefix = self.place / name
        self.write(prefix / "conda-meta/history", "")
        self.write(prefix / "bin/tool", "#!/bin/sh\necho tool of $CONDA_PREFIX\n", 0o755)
        self.write(prefix / "bin/python", f'#!/bin/sh\nexec {PYTHON} "$@"\n', 0o755)
        self.own_all(prefix)
        self.add(name, f"kind: conda\nprefix: {prefix}\n" + textwrap.dedent(more))
        return prefix

    def venv(self, name, python=PYTHON, module=None, directory=None, prefix=None):
        prefix = prefix or self.place / name
        subprocess.run([python, "-m", "venv", "--without-pip", prefix], check=True)
        site = next(prefix.glob("lib/python3*/site-packages"))
        for key, value in (module or {}).items():
            (site / f"{key}.py").write_text(value, encoding="utf-8")
        self.own_all(prefix)
        self.add(name, f"kind: venv\nprefix: {prefix}\n", directory)
        return prefix

    def rootfs(self, name):
        """A small system of one static program, that differs from the host where it can."""
        root = self.place / name
        for folder in ("usr/bin", "etc/deep", "var/lib/own", "var/tmp", "opt/app", "tmp", "dev"):
            (root / folder).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "usr/bin/busybox")
        for tool in ("sh", "cat", "ls", "echo", "env", "touch", "readlink", "sleep", "test", "id"):
            (root / "usr/bin" / tool).symlink_to("busybox")
        (root / "bin").symlink_to("usr/bin")
        self.write(root / "etc/passwd", "intruder:x:0:0::/:/bin/sh\n")
        self.write(root / "etc/os-release", "NAME=Tiny\n")
        self.write(root / "etc/deep/file", "deep\n")
        self.write(root / "var/lib/own/file", "var\n")
        self.write(root / "opt/app/data", "opt\n")
        (root / "etc/link").symlink_to("deep/file")
        self.own_all(root)
        return root


@pytest.fixture
def catalog(cupel):
    made = Catalog(cupel)
    yield made
    made.close()


def analysis(result):
    return json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))


def plan(caller, *args):
    status, out, err = caller.call(caller.binary, "plan", "--json", *args)
    return status, json.loads(out) if out else None, err
