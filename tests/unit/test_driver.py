"""The driver of the tests: no job, no failure and no skip is lost, and what needs the machine alone has it."""

import json
import os
import pathlib
import subprocess
import sys
import threading

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "driver"))

from outcomes import Case, enforce, junit_cases, tap_cases, totals  # noqa: E402  pylint: disable=wrong-import-position
from schedule import Job, Schedule  # noqa: E402  pylint: disable=wrong-import-position


def run(jobs, workers=3):
    """{name of a job: its cases}, in the order in which the jobs ended."""
    ended = {}
    Schedule(jobs, workers, lambda job, cases, began, end: ended.update({job.name: cases})).run()
    return ended


def test_a_job_begins_after_what_it_needs():
    built = threading.Event()
    build = Job("build", "build", lambda: built.set() or [], priority=1)
    tests = [Job("e2e", f"t{i}", lambda: [Case("t", "passed" if built.is_set() else "failed")], priority=9, needs=(build,)) for i in range(5)]
    ended = run([*tests, build])
    assert list(ended)[0] == "build" and len(ended) == 6
    assert all(case.outcome == "passed" for cases in ended.values() for case in cases)


def test_a_job_that_needs_the_machine_has_it():
    running, seen, lock = set(), [], threading.Lock()

    def work(name):
        with lock:
            running.add(name)
            seen.append(frozenset(running))
        threading.Event().wait(0.01)
        with lock:
            running.remove(name)
        return []

    jobs = [Job("e2e", name, lambda name=name: work(name), alone=name.startswith("alone")) for name in ("alone1", "a", "b", "alone2", "c")]
    ended = run(jobs)
    assert set(list(ended)[-2:]) == {"alone1", "alone2"}
    assert {frozenset({"alone1"}), frozenset({"alone2"})} <= set(seen)
    assert not any(len(names) > 1 and any(name.startswith("alone") for name in names) for names in seen)


def test_a_mistake_of_the_driver_fails_its_job_only():
    ended = run([Job("unit", "bad", lambda: 1 // 0), Job("unit", "good", lambda: [Case("t", "passed")])])
    assert ended["bad"][0].outcome == "failed" and "ZeroDivisionError" in ended["bad"][0].detail
    assert ended["good"][0].outcome == "passed"


def test_a_job_whose_report_fails_is_missed():
    told = []

    def over(job, cases, began, ended):
        told.append((job.name, [case.outcome for case in cases]))
        if len(told) == 1:
            raise ValueError("the report is broken")

    Schedule([Job("unit", "a", lambda: []), Job("unit", "b", lambda: [])], 1, over).run()
    assert told == [("a", []), ("b", []), ("a", ["failed"])]


def test_a_skip_of_what_is_required_is_a_failure():
    cases = [Case("a", "skipped", "landlock: the kernel has none"), Case("b", "skipped", "Skipped: root: not now"), Case("c", "passed")]
    enforce(cases, {"landlock"})
    assert totals(cases) == "1 passed, 1 failed, 1 skipped"


def test_tap_is_counted_against_its_plan():
    cases, planned = tap_cases("p", "1..3\nok 1 - one\nnot ok 2 - two\n# why\n")
    assert planned == 3 and [(case.name, case.outcome, case.detail) for case in cases] == [
        ("p: one", "passed", ""), ("p: two", "failed", "why\n")]


def listed(place, *options):
    """What the plugin says of the files in `place`: (exit status, output, list)."""
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-p", "choose", *options, "--list", place / "list.json", place],
        env={**os.environ, "PYTHONPATH": str(TESTS / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}, cwd=place, capture_output=True, text=True, check=False)
    path = place / "list.json"
    return done.returncode, done.stdout + done.stderr, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def test_a_file_that_skips_itself_is_reported(tmp_path):
    (tmp_path / "test_here.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    (tmp_path / "test_not.py").write_text('import pytest\npytest.importorskip("no_such_module", reason="thing: not installed")\n', encoding="utf-8")
    status, output, answer = listed(tmp_path)
    assert status == 0, output
    assert [test["name"].split("::")[1] for test in answer["tests"]] == ["test_one"]
    assert [(pathlib.Path(one["name"]).name, "thing: not installed" in one["reason"]) for one in answer["skipped"]] == [("test_not.py", True)]


def test_a_mark_that_no_layer_looks_for_is_refused(tmp_path):
    folder = tmp_path / "load"
    folder.mkdir()
    (folder / "test_here.py").write_text("import pytest\n@pytest.mark.systemd\ndef test_one():\n    pass\n", encoding="utf-8")
    status, output, _ = listed(folder)
    assert status == 4 and "no layer runs the mark systemd in the folder load" in output


def test_a_chosen_test_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "test_here.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    (tmp_path / "only").write_text("test_here.py::test_two\n", encoding="utf-8")
    status, output, _ = listed(tmp_path, f"--only={tmp_path}/only")
    assert status == 4 and "no such test: test_here.py::test_two" in output


def test_a_failed_fixture_is_a_failure(tmp_path):
    path = tmp_path / "r.xml"
    path.write_text('<testsuites><testsuite><testcase classname="a" name="t" time="1.5"><error message="m">E   why</error></testcase>'
                    '<testcase classname="a" name="u" time="0"><skipped message="loop: none"/></testcase></testsuite></testsuites>', encoding="utf-8")
    assert [(case.name, case.outcome, case.detail, case.seconds) for case in junit_cases(path)] == [
        ("a::t", "failed", "E   why", 1.5), ("a::u", "skipped", "loop: none", 0)]
