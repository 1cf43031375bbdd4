"""Who may define a runtime, what it may show, and when a run in one is refused."""

import json
import os
import shutil
import time

import pytest

import cupel as lib
from catalogs import analysis, catalog, plan  # noqa: F401  (fixtures)


# Who may say what.


def test_the_nearest_entry_counts(cupel, catalog):
    user = cupel.dir / ".config/cupel/runtimes.d"
    project = cupel.dir / "project"
    catalog.add("who", "kind: system\nenv: {WHO: system}\n")
    say = lambda: cupel.run("-r", "who", "--", "/bin/sh", "-c", "echo $WHO", cwd=project).stdout
    try:
        catalog.write(project / "cupel.yaml", "{}\n")
        assert say() == "system\n"
        catalog.add("who", "kind: system\nenv: {WHO: user}\n", user)
        catalog.own_all(cupel.dir)
        assert say() == "user\n"
        catalog.add("who", "kind: system\nenv: {WHO: project}\n", project / "runtimes.d")
        catalog.own_all(cupel.dir)
        assert say() == "project\n"
        catalog.add("who", "kind: sytem\n", project / "runtimes.d")
        result = cupel.run("-r", "who", "--", "true", cwd=project)
        assert result.status == 2
        assert "project/runtimes.d/who.yaml:2:7" in result.stderr and "'system'" in result.stderr
    finally:
        shutil.rmtree(cupel.dir / ".config", ignore_errors=True)
        shutil.rmtree(project, ignore_errors=True)


def test_a_project_shows_nothing_from_outside(cupel, catalog):
    """By its text, by a link, and by what a virtual environment names."""
    project = cupel.dir / "project"
    secret = catalog.place / "secret"
    catalog.write(secret / "conda-meta/history", "")
    try:
        catalog.write(project / "cupel.yaml", "{}\n")
        place = project / "runtimes.d"
        catalog.add("text", f"kind: conda\nprefix: {secret}\n", place)
        (project / "link").symlink_to(secret)
        catalog.add("link", "kind: conda\nprefix: ../link\n", place)
        catalog.venv("venv", directory=place, prefix=project / "venv")
        catalog.write(secret / "lib/python3.99/os.py", "")
        cfg = project / "venv/pyvenv.cfg"
        cfg.write_text(cfg.read_text(encoding="utf-8").replace("home = /usr/bin",
                                                               f"home = {secret}/bin"))
        catalog.own_all(project)
        result = cupel.run("-r", "text", "--", "true", cwd=project)
        assert result.status == 2 and "outside the project" in result.stderr
        for name in ("link", "venv"):
            result = cupel.run("-r", name, "--", "true", cwd=project)
            assert result.cause == "runtime-broken", result.stderr
            assert "outside the project" in result.verdict["completion_notes"]
        # The control: the same entry is fine where the user himself says it.
        catalog.add("link", f"kind: conda\nprefix: {project}/link\n")
        assert cupel.run("-r", "link", "--", "true").cause == "ok"
    finally:
        shutil.rmtree(project, ignore_errors=True)


def test_a_runtime_shows_neither_protected_paths_nor_records(cupel, catalog):
    prefix = catalog.conda("sc")
    cupel.configure(f"protect: [{prefix}/conda-meta]\n")
    result = cupel.run("-r", "sc", "--", "true")
    assert result.status == 2 and "protected path" in result.stderr
    cupel.configure()
    catalog.add("all", f"kind: system\nread_only: [{cupel.base}]\n")
    result = cupel.run("-r", "all", "--", "true")
    assert result.status == 2 and "own records" in result.stderr


def test_limits_of_a_runtime_lie_below_those_of_an_analysis(cupel, catalog):
    catalog.add("small", "kind: system\nlimits: {memory: 100M, pids: 33}\n")
    result = cupel.run("-r", "small", "--pids", "44", "--", "true")
    limits = analysis(result)["limits"]
    assert limits["memory"]["value"] == "100M" and "small.yaml:3" in limits["memory"]["origin"]
    assert limits["pids"]["value"] == "44"


def test_a_device_of_a_runtime_is_there(cupel, catalog):
    devices = [path for path in ("/dev/fuse", "/dev/net/tun", "/dev/ptmx", "/dev/kvm", "/dev/tty")
               if os.path.exists(path) and not os.path.islink(path)]
    if not devices:
        pytest.skip("device: the host has none of those that are tried")
    catalog.add("with", f"kind: system\ndevices: [{devices[0]}]\n")
    catalog.add("without", "kind: system\n")
    look = ("--", "/bin/sh", "-c", f"test -c {devices[0]} && echo there")
    assert cupel.run("-r", "with", *look).stdout == "there\n"
    assert cupel.run("-r", "without", *look).stdout == ""
    catalog.add("with", "kind: system\ndevices: [/dev/no-such]\n")
    assert cupel.run("-r", "with", *look).cause == "runtime-broken"


def test_a_home_of_others_is_not_even_used_as_a_cache(cupel, catalog):
    """It is refused before anything is read from it, or written through a link in it."""
    prefix = catalog.conda("sc")
    for path in (prefix / "conda-meta", prefix):
        for entry in [path, *path.iterdir()]:
            os.utime(entry, (0, 0))
    home, target = catalog.place / "home", catalog.place / "target"
    for path in (home, target):
        path.mkdir()
        cupel.own(path)
    (home / "cache").symlink_to(target)
    run = lambda: cupel.call(cupel.binary, "run", "-q", "-r", "sc", "--", "true",
                             env={"CUPEL_HOME": str(home)})
    home.chmod(0o777)
    assert lib.wait_until(lambda: time.time() - (prefix / "bin").stat().st_ctime > 3)
    status, _, err = run()
    assert status == 2 and "writable for nobody else" in err
    assert list(target.iterdir()) == []
    home.chmod(0o755)  # the control
    run()
    assert (target / "identity").is_dir()


# Refusal.


def test_a_runtime_that_is_gone_is_refused_and_recorded(cupel, catalog):
    prefix = catalog.conda("sc")
    shutil.rmtree(prefix)
    for more in ((), ("--allow-drift",)):
        result = cupel.run(*more, "-r", "sc", "--", "true")
        assert result.status == 125 and result.cause == "runtime-broken"
        assert str(prefix) in result.stderr and "Remedy" in result.stderr
        assert analysis(result)["runtime"]["selection"]["rule"] == "option"
        assert not (result.run_dir / "receipt.json").exists()
        assert "started" not in [event["event"] for event in result.events]
    status, _, err = cupel.call(cupel.binary, "plan", "-r", "sc", "--", "true")
    assert status == 125 and "runtime-broken" in err
    status, out, _ = cupel.call(cupel.binary, "show", result.run_dir.name)
    assert status == 0 and "runtime-broken" in out


def set_health(caller, name, health, identity):
    state = caller.home / "runtimes" / name / "state.json"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"health": health, "reason": "a library has one byte changed",
                                 "fingerprint": {"identity": identity}}), encoding="utf-8")
    for path in (state, state.parent, state.parent.parent):
        caller.own(path)


@pytest.mark.parametrize("health", ["degraded", "broken"])
def test_a_runtime_known_to_be_unfit_is_refused_unless_allowed(cupel, catalog, health):
    catalog.conda("sc")
    _, foreseen, _ = plan(cupel, "-r", "sc", "--", "true")
    identity = foreseen["runtime"]["fingerprint"]["identity"]
    set_health(cupel, "sc", health, identity)

    result = cupel.run("-r", "sc", "--", "true")
    assert result.status == 125 and result.cause == "runtime-broken"
    for words in (health, "one byte changed", "--allow-drift"):
        assert words in result.verdict["completion_notes"]
    status, foreseen, err = plan(cupel, "-r", "sc", "--", "true")
    assert status == 125 and foreseen["refused"] and "runtime-broken" in err

    file = catalog.write(cupel.dir / "a.yaml",
                         "runtime: sc\ncommand: [tool]\nallow_drift: true\n")
    for args in (("--allow-drift", "-r", "sc", "--", "tool"), (file,)):
        result = cupel.run(*args)
        assert result.cause == "ok" and "tool of" in result.stdout
        for record in (result.receipt["runtime"], result.verdict["runtime_state"]):
            assert "one byte changed" in record["allowed_drift"]
            assert record["fingerprint"]["identity"] == identity
        assert "as was allowed" in result.verdict["completion_notes"]
    status, foreseen, _ = plan(cupel, "--allow-drift", "-r", "sc", "--", "true")
    assert status == 0 and "one byte changed" in foreseen["plan"]["warnings"][0]

    # It was another one that was unfit: nobody knows anything of what is there now.
    set_health(cupel, "sc", health, "0" * 64)
    result = cupel.run("-r", "sc", "--", "tool")
    assert result.cause == "ok" and result.verdict["runtime_state"]["allowed_drift"] is None
    set_health(cupel, "sc", "healthy", identity)
    assert cupel.run("-r", "sc", "--", "tool").cause == "ok"


def test_packages_that_are_not_installed(cupel, catalog):
    catalog.add("deb", "kind: system\npackages: [python3, no-such-package-anywhere]\n")
    result = cupel.run("-r", "deb", "--", "true")
    assert result.cause == "runtime-broken"
    assert "apt-get install no-such-package-anywhere" in result.verdict["completion_notes"]
    catalog.add("deb", "kind: system\npackages: [python3, libc6]\n")
    assert cupel.run("-r", "deb", "--", "true").cause == "ok"


def test_the_plan_says_who_chose_and_what_was_found(cupel, catalog):
    catalog.conda("sc")
    file = catalog.write(cupel.dir / "a.yaml", "runtime: sc\ncommand: [tool]\n")
    status, out, _ = cupel.call(cupel.binary, "plan", file)
    assert status == 0
    assert "runtime    sc (conda, 0)" in out and "chosen     by analysis" in out
    _, foreseen, _ = plan(cupel, file)
    assert foreseen["runtime"]["fingerprint"]["identity"] in out
    assert foreseen["runtime"]["origin"].endswith("sc.yaml:1")
    result = cupel.run(file)
    assert analysis(result)["runtime"]["selection"]["rule"] == "analysis"
    assert analysis(result)["runtime"]["fingerprint"] == foreseen["runtime"]["fingerprint"]
