"""Which user a run has: on a host without user namespaces, and beside a run of another home."""

import contextlib
import json
import subprocess

import cupel as lib

SLEEP = ("sh", "-c", "echo up; exec sleep 1000")

WITHOUT_USER_NAMESPACES = """
import ctypes, os, sys
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0:
        sys.exit(77)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    with open("/proc/sys/user/max_user_namespaces", "w") as f:
        f.write("0")
    os.execv(sys.argv[1], sys.argv[1:])
os.read(ready[0], 1)
for name in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{name}", "w") as f:
        f.write("0 0 2000000000")
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_root_on_a_host_without_user_namespaces(root):
    """The uid is changed for good, and what needed root for the capabilities was done before."""

    def without(run_id, *options):
        return root.call(
            "/usr/bin/python3",
            "-c",
            WITHOUT_USER_NAMESPACES,
            root.binary,
            "run",
            "-q",
            "--id",
            run_id,
            "--allow-missing",
            "disk",
            *options,
            "--",
            "grep",
            "-E",
            "^(Uid|Cap|NoNewPrivs)",
            "/proc/self/status",
        )

    refused = root.new_id()
    status, _, err = without(refused)
    assert (status, lib.verdict_of(root, refused)["cause"]) == (
        125,
        "setup",
    ) and "max_user_namespaces" in err
    run_id = root.new_id()
    status, out, err = without(run_id, "--allow-missing", "user")
    assert status == 0, err
    result = lib.Result(status, out, err, root.run_dir(run_id))
    assert "user" in result.receipt["missing_layers"] and "user" in result.verdict[
        "missing_layers"
    ].split(",")
    have = dict(line.split(":\t", 1) for line in out.splitlines())
    assert (
        have["Uid"].split() == [str(result.receipt["user"]["uid_host"])] * 4
        and have["Uid"].split()[0] != "0"
    )
    assert {value for name, value in have.items() if name.startswith("Cap")} == {"0" * 16}
    assert have["NoNewPrivs"] == "1"


def test_runs_of_two_homes_are_strangers(root):
    """Root's runs have uids to themselves on the whole host."""
    ids, homes, processes = [root.new_id(), root.new_id()], [root.home, root.base / "other"], []
    with contextlib.ExitStack() as stack:
        for run_id, home in zip(ids, homes):
            process, _ = root.start(
                "--", *SLEEP, id=run_id, env={"CUPEL_HOME": str(home)}, stdout=subprocess.PIPE
            )
            processes.append(stack.enter_context(lib.going_on(process)))
            assert process.stdout.readline() == b"up\n"
        receipts = [
            json.loads((home / "runs" / run_id / "receipt.json").read_text(encoding="utf-8"))
            for run_id, home in zip(ids, homes)
        ]
        for process in processes:
            process.terminate()
            assert process.wait(60) == 143
    assert receipts[0]["user"]["uid_host"] != receipts[1]["user"]["uid_host"]
