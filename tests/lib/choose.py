"""A plugin of pytest for tests/run: tells what there is to run, or runs a part of it.

--list FILE   write the tests with their marks, as JSON, and run none
--only FILE   run the tests whose names are the lines of FILE; a name that is not found is an error
"""

import json
import pathlib

import pytest


def pytest_addoption(parser):
    parser.addoption("--list", type=pathlib.Path, metavar="FILE")
    parser.addoption("--only", type=pathlib.Path, metavar="FILE")


def pytest_collection_modifyitems(config, items):
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
        path.write_text(json.dumps(tests, default=str), encoding="utf-8")


def pytest_runtestloop(session):
    """True: done, nothing was run."""
    return True if session.config.getoption("--list") and not session.testsfailed else None
