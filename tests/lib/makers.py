"""A caller that makes runtimes by `cupel runtime create`, for tests."""

import json
import pathlib
import shutil
import tempfile

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
