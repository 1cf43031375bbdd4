"""The keeper, or what makes the box for it, dies at each step of a box that an OCI runtime makes: the run is
recorded once, and neither container nor group nor bundle is left."""

import pathlib
import shutil

import pytest

import cupel as lib
import faults
import leftovers

PHASES = ["oci-bundle-made", "oci-maker-cloned", "oci-maker-born", "oci-root-made", "oci-created",
          "oci-started", "oci-answered", "oci-deleted"]
# The maker is a child of the keeper, which lives on and says what happened.
OF_THE_MAKER = {"oci-maker-born", "oci-root-made"}
PROGRAM = shutil.which("runc", path="/usr/sbin:/usr/bin")


@pytest.fixture
def runc(faulty_root):
    if not PROGRAM:
        pytest.skip("runc: not installed")
    faulty_root.caller.configure(f"executors: {{runc: {{kind: oci, program: {PROGRAM}}}}}\n")
    yield faulty_root
    faulty_root.caller.configure()
    for tree in pathlib.Path("/sys/fs/cgroup").glob(f"*/{faulty_root.caller.name}"):
        if tree not in faulty_root.caller.trees:
            lib._remove_group(tree)


def test_every_phase_is_known():
    if not faults.BINARY.exists():
        pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
    assert [p for p in faults.phases() if p.startswith("oci-")] == sorted(PHASES)


@pytest.mark.parametrize("phase", [None, *PHASES])
def test_a_death(runc, phase):
    fault = {"CUPEL_FAULT": f"abort:{phase}"} if phase else {}
    result = runc.caller.run("-x", "runc", "--memory", "64M", "--disk", "16M", "--", "true", env=fault)
    expected = "ok" if not phase else "setup" if phase in OF_THE_MAKER else "lost"
    assert result.cause == expected, result.stderr
    runc.recover()
    leftovers.assert_nothing_left(runc.caller)
    left = list((runc.caller.home / "bundles").glob("*"))
    left += pathlib.Path("/sys/fs/cgroup").glob(f"*/{runc.caller.name}/cupel/*/")
    assert not left
    leftovers.assert_chain(result.run_dir)
