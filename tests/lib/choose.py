"""A plugin of pytest for tests/run: it lists the tests, or runs a part of them.

--list FILE   write the tests with their marks, and the files that were skipped, as JSON; run none
--only FILE   run the tests whose names are the lines of FILE; a name that is not found is an error
"""

import json
import pathlib

import pytest

# The folders in which a layer of the driver looks for these marks. In another folder such a test would never run.
FOLDERS = {
    "vm": {"kernel", "escape", "crash", "hosts"},
    "systemd": {"kernel", "escape", "crash", "e2e"},
    "old": {"hosts"},
    "also_in_vm": {"e2e"},
}

_skipped_files = []


def pytest_addoption(parser):
    parser.addoption("--list", type=pathlib.Path, metavar="FILE")
    parser.addoption("--only", type=pathlib.Path, metavar="FILE")


def pytest_collectreport(report):
    """A file that skips itself has no tests, but its skip is reported."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped_files.append({"name": report.nodeid, "reason": reason})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        for mark, folders in FOLDERS.items():
            if item.get_closest_marker(mark) and item.path.parent.name not in folders:
                raise pytest.UsageError(f"{item.nodeid}: no layer runs the mark {mark} in the folder {item.path.parent.name}")
    path = config.getoption("--only")
    if not path:
        return
    wanted = set(path.read_text(encoding="utf-8").splitlines())
    chosen = [item for item in items if item.nodeid in wanted]
    lost = wanted - {item.nodeid for item in chosen}
    if lost:
        raise pytest.UsageError(f"no such test: {', '.join(sorted(lost))}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
    items[:] = chosen


def pytest_collection_finish(session):
    path = session.config.getoption("--list")
    if path:
        tests = [{"name": item.nodeid, "file": str(item.path),
                  "marks": {mark.name: list(mark.args) for mark in item.iter_markers() if mark.name != "parametrize"}}
                 for item in session.items]
        answer = {"tests": tests, "skipped": _skipped_files}
        path.write_text(json.dumps(answer, default=str), encoding="utf-8")


def pytest_runtestloop(session):
    """True: done, no test was run."""
    return True if session.config.getoption("--list") and not session.testsfailed else None
