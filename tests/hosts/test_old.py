"""On a kernel that is too old for a box (5.10 has neither mount_setattr nor Landlock) cupel says so, and
nothing is left. Debian 11's, in the virtual machine."""

import cupel as lib
import leftovers
import pytest

pytestmark = pytest.mark.old


@pytest.fixture
def caller(who):
    made = lib.Cupel(who)
    yield made
    leftovers.assert_nothing_left(made)
    made.close()


def test_landlock_is_named_first(caller):
    result = caller.run("--", "true")
    assert (result.status, result.verdict) == (125, None)
    assert "landlock: " in result.stderr and "5.13" in result.stderr


def test_without_landlock_it_is_the_mounts_that_are_never_optional(caller):
    result = caller.run("--allow-missing", "landlock", "--", "true")
    assert (result.status, result.cause) == (125, "setup"), result.stderr
    assert "mount: " in result.stderr and "5.12" in result.stderr
    assert "--allow-missing" not in result.stderr


def test_reading_the_records_still_works(caller):
    result = caller.run("--allow-missing", "landlock", "--", "true")
    status, out, err = caller.call(caller.binary, "show", result.run_dir.name)
    assert status == 0 and "5.12" in out, err
