"""Each write, sync, rename, link, removal and new file of recording fails in turn, once and from
then on, or is the last thing its process does. The run ends with a right verdict or a clear error,
nothing is half-done, and the next command recovers."""

import pytest

import cupel as lib
from faults import Failures

# Emulated, one in so many is all there is time for.
STRIDE = 1 if lib.SLOW == 1 else 7


def numbers(faulty, operations):
    """All as root; as an ordinary user, where little is different, some."""
    stride = STRIDE if faulty.caller.who == "root" else 3 * STRIDE
    return range(1, len(operations) + 1, stride)


def last(operations):
    """What a complete run does last, the way `fail` names it: counted among the renames, since a run
    that takes long has more samples of its usage to write."""
    renamed = [path for kind, path in operations if kind == "rename"]
    return f"rename:{next(k for k, path in enumerate(renamed, 1) if '/undelivered/' in path)}"


def try_each(faulty, operations, chosen, kind, *more):
    """A run for each operation that is to fail, by its number; the causes they ended with."""
    failures = Failures()
    causes = set()
    tries = [(f"fail:any:{kind(k)}", " ".join(operations[k - 1])) for k in chosen]
    for fault, operation in tries + [(f"fail:{one}", "the last") for one in more]:
        result = faulty.run(fault)
        name = f"{fault} ({operation})"
        verdict = failures.case(
            name, faulty.check, result.run_dir.name, result.status, result.stderr
        )
        causes.add(verdict and verdict["cause"])
    failures.assert_none()
    return causes


def test_each_operation_fails_once(faulty):
    operations = faulty.trace().operations
    kinds = ["EIO", "ENOSPC", "EROFS"] if faulty.caller.who == "user" else ["EIO"]
    causes = try_each(
        faulty,
        operations,
        numbers(faulty, operations),
        lambda k: f"{k}:{kinds[k // 3 % len(kinds)]}",
    )
    assert {"ok", "setup"} <= causes or STRIDE > 1, "some of it can be done without, some ends the run"


def test_the_disk_takes_only_a_part(faulty_root):
    operations = faulty_root.trace().operations
    writes = [k for k, (kind, _) in enumerate(operations, 1) if kind == "write"]
    try_each(faulty_root, operations, writes[::STRIDE], lambda k: f"{k}:ENOSPC")


def test_the_disk_is_read_only_from_then_on(faulty_root):
    """The run cannot be recorded, unless all was done but to drop its entry."""
    operations = faulty_root.trace().operations
    chosen = [*numbers(faulty_root, operations)][::2]
    causes = try_each(
        faulty_root, operations, chosen, lambda k: f"{k}+:EROFS", f"{last(operations)}+:EROFS"
    )
    assert causes == {None, "lost", "ok"}


def test_each_operation_is_the_last_of_its_process(faulty):
    """A write comes half-way. After the verdict has its name the run is complete."""
    operations = faulty.trace().operations
    chosen = numbers(faulty, operations)
    causes = try_each(
        faulty, operations, chosen, lambda k: f"{k}:KILL", f"{last(operations)}:KILL"
    )
    assert causes == {None, "lost", "ok"}


def test_every_kind_of_operation_is_among_them(faulty_root):
    kinds = {kind for kind, _ in faulty_root.trace().operations}
    assert kinds >= {"write", "fsync", "fdatasync", "rename", "unlink", "mkdir", "create"}, kinds


def test_one_kind_can_be_chosen(faulty_root):
    """`fail:OP:K` counts that operation alone: one rename gives the verdict its name."""
    renames = [path for kind, path in faulty_root.trace().operations if kind == "rename"]
    k = next(k for k, path in enumerate(renames, 1) if "verdict.json" in path)
    result = faulty_root.run(f"fail:rename:{k}:EIO")
    assert result.status == 125 and "write 'verdict.json': Input/output error" in result.stderr
    verdict = faulty_root.check(result.run_dir.name, result.status, result.stderr)
    assert verdict["cause"] == "lost"


@pytest.mark.parametrize("kind", ["write", "fsync"])
def test_a_log_that_is_not_whole_is_said_to_be_so(faulty, kind):
    result = faulty.run(f"fail:{kind}@/stdout.log:1:EIO")
    verdict = faulty.check(result.run_dir.name, result.status, result.stderr)
    assert verdict["cause"] == "ok"
    assert "log could not be written to the end: Input/output error" in verdict["completion_notes"]


@pytest.mark.parametrize("fault", ["write@/events.jsonl:1:ENOSPC", "create@/events.jsonl:1:EIO"])
def test_an_id_that_is_refused_is_not_recorded(faulty, fault):
    """`cupel run` says that nothing was recorded: then nothing is, and the id is free."""
    result = faulty.run(f"fail:{fault}")
    assert result.status == 125 and "events.jsonl" in result.stderr, result.stderr
    assert not result.run_dir.exists() and not (faulty.caller.home / "active" / result.run_dir.name).exists()
    assert faulty.check(result.run_dir.name, result.status, result.stderr) is None


def test_an_id_that_could_not_be_given_back_is_one_of_a_lost_run(faulty_root):
    operations = faulty_root.trace().operations
    k = next(k for k, (kind, path) in enumerate(operations, 1) if kind == "write" and path.endswith("/events.jsonl"))
    result = faulty_root.run(f"fail:any:{k}+:EROFS")
    assert result.status == 125 and result.run_dir.exists()
    assert faulty_root.check(result.run_dir.name, result.status, result.stderr)["cause"] == "lost"


def test_a_sample_that_was_cut_in_the_middle_is_none(faulty):
    """Who reads usage.jsonl line by line need not know of crashes."""
    fault = {"CUPEL_FAULT": "fail:write@/usage.jsonl:2:KILL"}
    result = faulty.caller.run("--", "sleep", "60", env=fault)
    verdict = faulty.check(result.run_dir.name, result.status, result.stderr)
    assert verdict["cause"] == "lost"
    samples = (result.run_dir / "usage.jsonl").read_bytes()
    assert samples.count(b"\n") == 1 and samples.endswith(b"\n"), samples


def test_control_a_fault_that_never_comes(faulty):
    """Beyond the last operation nothing is touched."""
    operations = faulty.trace().operations
    for with_what in ("EIO", "KILL"):
        result = faulty.run(f"fail:any:{len(operations) + 50}+:{with_what}")
        verdict = faulty.check(result.run_dir.name, result.status, result.stderr)
        assert verdict["cause"] == "ok" and result.status == 0, result.stderr


@pytest.mark.parametrize("kind", ["{}:EIO", "{}+:EROFS", "{}:KILL"])
def test_recovery_fails_or_is_killed(faulty_root, kind):
    """The sweep of a lost run: the next one goes on where it stopped."""
    faulty_root.lose()
    operations = faulty_root.trace("gc").operations
    assert len(operations) > 5
    failures = Failures()
    for k in range(1, len(operations) + 1, STRIDE):
        run_id = faulty_root.lose()
        status, _, err = faulty_root.caller.call(
            faulty_root.caller.binary, "gc", env={"CUPEL_FAULT": "fail:any:" + kind.format(k)}
        )
        name = f"gc, {kind.format(k)} ({' '.join(operations[k - 1])})"
        failures.case(name, check_lost, faulty_root, run_id, status, err)
    failures.assert_none()


def check_lost(faulty, run_id, status, err):
    assert status in (0, 125, -9) and (status != 125 or "cupel: " in err), (status, err)
    verdict = faulty.check(run_id, -9, "")
    assert verdict["cause"] == "lost"
    partial = faulty.caller.run_dir(run_id) / "partial/out/x"
    assert partial.read_bytes() == b"x\n" and "partial/" in verdict["completion_notes"]


def test_the_analysis_never_sees_the_fault(faulty):
    result = faulty.caller.run("--", "env", env={"CUPEL_FAULT": "fail:any:10000"})
    assert result.status == 0 and "CUPEL_RUN_ID" in result.stdout
    assert "CUPEL_FAULT" not in result.stdout


def test_what_it_does_not_know_it_refuses(faulty_root):
    for words in ("abort", "abort:nowhere", "fail:any", "fail:any:0x1", "fail:sync:1", "x:y"):
        result = faulty_root.run(words)
        assert result.status == 125 and "CUPEL_FAULT" in result.stderr, words


def test_the_ordinary_build_knows_nothing_of_it(crash_root):
    assert b"CUPEL_FAULT" not in crash_root.caller.binary.read_bytes()
    result = crash_root.caller.run("--", "true", env={"CUPEL_FAULT": "fail:any:1+"})
    assert result.status == 0 and result.verdict["cause"] == "ok"
