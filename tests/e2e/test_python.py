"""The Python package as people install it: its own tests, its interface, its documents."""

import os
import re
import shutil
import subprocess

import pytest

import cupel as lib
import python_package

ROOT = lib.TESTS.parent
PYTHON = python_package.PYTHON


def test_the_package_is_what_it_says(package):
    """Installed: typed, of the program's version, and with nothing but the standard library."""
    assert (package / "cupel/py.typed").exists() and (package / "cupel/platform/__init__.py").exists()
    version = subprocess.run([lib.BINARY, "version"], capture_output=True, text=True, check=True).stdout
    asked = subprocess.run([PYTHON, "-S", "-c", "import cupel, cupel.platform; print(cupel.__version__)"], check=True,
                           env={"PYTHONPATH": str(package)}, capture_output=True, text=True)
    assert asked.stdout.strip() in version
    assert (package / f"cupel-{asked.stdout.strip()}.dist-info").is_dir()


@pytest.mark.parametrize("how", ["editable", "sdist"])
def test_other_ways_to_install_it(package, tmp_path, how):
    """As developers do, and from an archive: what is imported is what `pip install ./python` has."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    before = sorted(source.rglob("*"))
    venv = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    pip = [PYTHON, "-m", "pip", "--python", venv / "bin/python3", "install", "-q", "--no-index"]
    if how == "sdist":
        made = subprocess.run([PYTHON, "-c", "import make_wheel, sys; print(make_wheel.build_sdist(sys.argv[1]))", tmp_path],
                              cwd=source, env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=True)
        words = [tmp_path / made.stdout.strip()]
    else:
        words = ["-e", source]
    done = subprocess.run([*pip, *words], env={"PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(source.rglob("*")) == before, "nothing is written to the sources"
    asked = subprocess.run([venv / "bin/python3", "-c", "import cupel.platform, importlib.metadata as m; print(cupel.__file__);"
                            " print(m.version('cupel')); print(len(m.distribution('cupel').read_text('LICENSE')) > 1000)"],
                           cwd="/", env={"PYTHONDONTWRITEBYTECODE": "1"}, check=True, capture_output=True, text=True)
    place, version, licensed = asked.stdout.split()
    assert place.startswith(str(source if how == "editable" else venv)) and licensed == "True"
    assert (package / f"cupel-{version}.dist-info").is_dir()


def test_its_own_tests(package):
    """Those of values and of the client, which need no cupel."""
    done = subprocess.run([PYTHON, "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null",
                           "--rootdir", ROOT / "python/tests", ROOT / "python/tests"], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 100


# The one interface.

def test_local_has_all_of_the_interface(cupel, python):
    told = python(cupel, """
        door, quest = cupel.Local(), cupel.new_id()
        run = door.run("seq 1 3; echo x > out/a; echo y > out/b", quest=quest, name="n", limits={"memory": 64 << 20})
        follow = door.submit("for i in 1 2 3; do echo $i; sleep 0.1; done")
        live = "".join(door.logs(follow, follow=True))
        events = [event["event"] for event in door.events(follow, follow=True)]
        with door.open_output(run.id, "out/a") as file:
            opened = file.read().decode()
        again = door.wait(door.rerun(run.id))
        foreign = door.submit(["sleep", "100"])
        next(door.events(foreign, follow=True))
        stranger = cupel.Local()
        try:
            stranger.wait(foreign, 0.2)
        except cupel.WaitTimeout:
            stranger.cancel(foreign)
        try:
            door.show("nobody")
        except cupel.NotFound:
            listed = [run.name for run in door.list(quest=quest, limit=10, newest_first=False)]
        pathlib.Path("p.yaml").write_text("parameters: {k: 1}\\nsteps:\\n  a: {command: 'echo {{k}} > out/a'}\\n  b: {command: 'cat data/a', inputs: [{step: a, path: out/a}]}\\n")
        pipeline = door.run(pathlib.Path("p.yaml"), parameters={"k": "two words"})
        resumed = door.wait(door.resume(pipeline.id))
        with open("p.yaml", "a") as file:
            file.write("# changed\\n")
        try:
            door.wait(door.resume(pipeline.id))
        except cupel.Refused as error:
            assert "changed" in str(error), error
        else:
            raise AssertionError("a changed file")
        tell([run.ok, run.name, run.quest == quest, run.runtime, run.memory_peak_bytes > 0], live, [events[0], events[-1]],
             [output.path for output in door.outputs(run.id)], opened, [path.read_text() for path in door.download(run.id, "got")],
             again.cause, stranger.wait(foreign).cause, listed, [pipeline.kind, pipeline.cause, pipeline.returncode], resumed.cause,
             sorted({line["step"] for line in door.why(pipeline.id)}), door.plan(["true"])["plan"]["argv"],
             [runtime["name"] for runtime in door.runtimes()], quest in [row["quest"] for row in door.quests()], "level" in door.host()["health"],
             door.wait(foreign).returncode)
        """)
    assert told == [[True, "n", True, "base", True], "1\n2\n3\n", ["accepted", "verdict"], ["out/a", "out/b"], "x\n", ["x\n", "y\n"],
                    "ok", "cancelled", ["n", "n"], ["pipeline", "ok", 0], "ok", ["a", "b"], ["true"], ["base"], True, True, -15]


def test_async_local_has_the_same(root, python):
    told = python(root, """
        async def main():
            quest = cupel.new_id()
            async with cupel.AsyncLocal() as door:
                run = await door.run("seq 1 3; echo x > out/a", quest=quest)
                follow = await door.submit("for i in 1 2 3; do echo $i; sleep 0.1; done")
                live = "".join([text async for text in door.logs(follow, follow=True)])
                events = [event["event"] async for event in door.events(follow, follow=True)]
                opened = b"".join([piece async for piece in door.open_output(run.id, "out/a")])
                slow = await door.submit(["sleep", "100"])
                try:
                    await door.wait(slow, 0.2)
                except cupel.WaitTimeout:
                    await door.cancel(slow)
                other = cupel.AsyncLocal()
                return [run.ok, live, [events[0], events[-1]], opened.decode(), (await other.wait(slow)).cause, (await door.wait(slow)).cause,
                        [path.name for path in await door.download(run.id, "got")], (await other.wait(follow)).cause,
                        (await door.wait(await door.rerun(run.id))).cause, "".join([text async for text in door.logs(run.id)]),
                        len(await door.list(quest=quest)), quest in [row["quest"] for row in await door.quests()], len(await door.runtimes()),
                        (await door.plan(["true"]))["plan"]["argv"], "level" in (await door.host())["health"]]
        tell(asyncio.run(main()), open_things()[1])
        """)
    assert told == [[True, "1\n2\n3\n", ["accepted", "verdict"], "x\n", "cancelled", "cancelled", ["a"], "ok", "ok", "1\n2\n3\n", 2, True, 1,
                     ["true"], True], []]


def test_without_a_service_the_program_is_used(root, python):
    """Also where a dead service left its socket; one that is named outright has to be there."""
    assert python(root, """
        import socket
        kinds = [type(cupel.connect()).__name__, type(cupel.connect_async()).__name__]
        path = os.environ["CUPEL_HOME"] + "/cupel.sock"
        os.makedirs(os.environ["CUPEL_HOME"], mode=0o755, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        kinds.append(type(cupel.connect()).__name__)
        with socket.socket(socket.AF_UNIX) as alive:
            os.unlink(path)
            alive.bind(path), alive.listen()
            kinds += [type(cupel.connect()).__name__, type(cupel.connect_async()).__name__]
        os.unlink(path)
        os.environ["CUPEL_SERVICE"] = "/no/such/socket"
        result = isolated_run(["true"])
        os.environ["CUPEL_SERVICE"] = "none"
        kinds.append(type(cupel.connect()).__name__)
        tell(kinds, facts(result))
        """) == [["Local", "AsyncLocal", "Local", "Client", "AsyncClient", "Local"], [125, "no-service"]]


# Documents.

def test_the_example_runs_before_and_after(root, python, package):
    """They differ by the import, and print the same; only one of them leaves a record."""
    place = root.dir / root.new_id()
    shutil.copytree(ROOT / "examples/platform", place)
    texts = [(place / name).read_text(encoding="utf-8").splitlines() for name in ("before.py", "after.py")]
    differ = [pair for pair in zip(*texts) if len(set(pair)) == 2]
    assert [words[0].replace("plain_runtime", "cupel.platform") == words[1] for words in differ] == [True]
    said, runs = [], []
    for name in ("before.py", "after.py"):
        status, out, err = root.call(PYTHON, place / name, env={"PYTHONPATH": str(package), "CUPEL": str(root.binary)})
        assert status == 0, err
        said.append(out)
        runs.append(len(os.listdir(root.home / "runs")) if root.home.exists() else 0)
    assert said[0] == said[1] and "GC 52.4%" in said[0], said
    assert runs[1] == runs[0] + 1


def test_the_manual_shows_what_works(root, python):
    """Each block of Python in docs/PYTHON.md runs as it stands, in its order."""
    text = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(found) >= 4
    script = "print('hello')\nopen('out/result.csv', 'w').write('a,b\\n1,2\\n')\n"
    assert python(root, "\n".join([*found, "tell('done')"]), files={"analysis.py": script}) == "done"


def test_every_option_is_in_the_manual(package):
    options = subprocess.run([PYTHON, "-c", "import cupel.platform as p, dataclasses; print(*[f.name for f in dataclasses.fields(p.Options)])"],
                             env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=True).stdout.split()
    text = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    assert len(options) > 15 and [name for name in options if f"`{name}`" not in text] == []
    names = subprocess.run([PYTHON, "-c", "import cupel.platform as p; print(*p.__all__)"], env={"PYTHONPATH": str(package)},
                           capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in names if not name.endswith("_async") and f"`{name}" not in text] == []
