"""Where systemd owns the control groups: a scope is asked of it over D-Bus, for root and for a user with a manager of his own."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess

import pytest

import cupel as lib

pytestmark = pytest.mark.systemd

EATER = "x = bytearray(200 << 20); print(0)"


def show(unit, name, *manager):
    done = subprocess.run(["systemctl", *manager, "show", "-p", name, "--value", unit], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip()


@pytest.fixture
def by_root(tmp_path):
    """Root without a configured group: what a fresh host offers."""
    tmp_path.chmod(0o711)
    env = {"PATH": os.environ["PATH"], "HOME": "/root", "CUPEL_HOME": str(tmp_path / "home")}

    def run(*words):
        return subprocess.run([lib.BINARY, "run", "--json", *words], env=env, cwd="/", capture_output=True,
                              text=True, timeout=lib.RUN_LIMIT_S, check=False)
    run.home = tmp_path / "home"
    return run


def verdict(done):
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def scopes(*manager):
    done = subprocess.run(["systemctl", *manager, "list-units", "--all", "--no-legend", "--plain", "cupel-*.scope"],
                          capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_root_gets_a_scope_with_the_limits(by_root):
    found = verdict(by_root("--id", "scoped", "--memory", "96M", "--", "/bin/true"))
    receipt = json.loads((by_root.home / "runs/scoped/receipt.json").read_text())
    assert found["cause"] == "ok"
    assert receipt["budget"]["mechanism"] == "cgroup2-systemd"
    values = {value["file"]: value["kernel"] for value in receipt["budget"]["values"]}
    assert values["memory.max"] == str(96 << 20)
    assert values["memory.oom.group"] == "1"
    assert int(show("cupel.slice", "MemoryMax")) > 0  # the cap of all runs together
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_memory_limit_ends_the_whole_box(by_root):
    found = verdict(by_root("--memory", "64M", "--", "/bin/sh", "-c", f"sleep 60 & /usr/bin/python3 -c '{EATER}'; sleep 60"))
    assert found["cause"] == "oom"
    assert found["evidence"]["oom_kills"] >= 1
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_killed_keeper_leaves_nothing(by_root):
    with subprocess.Popen([lib.BINARY, "run", "--id", "killed", "--", "/bin/sleep", "1000"], cwd="/",
                          env={"PATH": os.environ["PATH"], "CUPEL_HOME": str(by_root.home)}) as run:
        assert lib.wait_until(lambda: "started" in (by_root.home / "runs/killed/events.jsonl").read_text()
                              if (by_root.home / "runs/killed/events.jsonl").exists() else False)
        keeper = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0]
        os.kill(int(keeper), 9)
        run.wait(lib.RUN_LIMIT_S)
    assert json.loads((by_root.home / "runs/killed/verdict.json").read_text())["cause"] == "lost"
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_a_user_with_a_manager_gets_a_scope(tmp_path):
    """user@.service gives a delegated subtree; its bus is where the scope is asked for."""
    name = "cupeluser"
    binary = pathlib.Path("/tmp/cupel-for-user")  # the build may be where he can't go
    shutil.copy(lib.BINARY, binary)
    binary.chmod(0o755)
    subprocess.run(["useradd", "--create-home", name], check=True)
    try:
        user = pwd.getpwnam(name)
        subprocess.run(["loginctl", "enable-linger", name], check=True)
        bus = pathlib.Path(f"/run/user/{user.pw_uid}/bus")
        assert lib.wait_until(bus.exists), "no user manager came up"
        env = {"PATH": os.environ["PATH"], "HOME": user.pw_dir, "XDG_RUNTIME_DIR": str(bus.parent)}
        done = subprocess.run([binary, "run", "--json", "--memory", "64M", "--", "/usr/bin/python3", "-c", EATER],
                              env=env, cwd=user.pw_dir, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                              capture_output=True, text=True, timeout=lib.RUN_LIMIT_S, check=False)
        found = verdict(done)
        receipt = json.loads((pathlib.Path(found["directory"]) / "receipt.json").read_text())
        assert found["cause"] == "oom"
        assert receipt["budget"]["mechanism"] == "cgroup2-systemd"
        assert receipt["user"]["uid_host"] == user.pw_uid
    finally:
        binary.unlink()
        subprocess.run(["loginctl", "disable-linger", name], check=False)
        subprocess.run(["userdel", "--remove", "--force", name], check=False, capture_output=True)
