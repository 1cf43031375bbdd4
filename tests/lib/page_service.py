"""A service with a browser for tests of its pages: `person` opens tabs that have their token, `left` is a run with outputs to look at."""

import json

import pytest

import browser as browsers
import cupel as lib
import leftovers
from serving import Serving

RUNC = "/usr/sbin/runc"
ROWS = "[...document.querySelectorAll('.runs tr[data-id]')]"
LEAVES = r"""
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("out/picture.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 16, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress((b"\0" + b"\x20\x80\xe0" * 32) * 16)) + chunk(b"IEND", b""))
open("out/table.csv", "w").write("gene,score\nBRCA1,0.5\nTP53,0.25\n")
open("out/words.txt", "w").write("five clusters\n")
open("out/drawing.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><circle cx="20" cy="10" r="9"/></svg>')
print("to stdout")
print("to stderr", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def service(callers):
    callers("root")  # skips where there is none
    caller = lib.Cupel("root")
    try:
        with Serving(caller, "max_running: 2, ", config=f"executors: {{boxes: {{kind: oci, program: {RUNC}}}}}\n") as made:
            yield made
        assert lib.wait_until(lambda: not caller.groups()), caller.groups()
        leftovers.assert_nothing_left(caller)
    finally:
        caller.close()


@pytest.fixture(scope="module")
def browser():
    if not browsers.program():
        pytest.skip("chromium: not installed")
    with browsers.Browser() as made:
        yield made


@pytest.fixture
def person(service, browser):
    """Opens tabs that have their token. In the end none of them may have complained of anything, or have asked anybody else."""
    tabs = []

    def enter(path="/", **how):
        tab = browser.tab(**how)
        tabs.append(tab)
        service.enter(tab, path)
        return tab

    yield enter
    for tab in tabs:
        assert "\n".join(tab.complaints) == ""
        foreign = [url for url in tab.requests if not url.startswith((service.url, "blob:", "data:"))]
        assert foreign == []


@pytest.fixture(scope="module")
def left(service):
    """A run that left a picture, a table and words."""
    run_id = service.submit("python3", "-c", LEAVES, name="leaves three", quest="harvest", outputs=[{"path": "**"}])
    assert service.wait(run_id)["cause"] == "ok"
    return run_id


def row(run_id):
    return f"document.querySelector('.runs tr[data-id=\"{run_id}\"]')"


def wait_row(tab, run_id, *words):
    for word in words:
        tab.wait(f"{row(run_id)}?.innerText.includes({json.dumps(word)})")


def wait_loaded(tab):
    """All parts of a run's page are there: one that comes later pushes those below it from under the pointer."""
    tab.wait("document.querySelector('#s-use-over-time + div')?.childElementCount > 0")
    tab.wait("!!document.querySelector('.log')?.innerText.trim()")
    tab.wait("!!document.querySelector('.output') && [...document.querySelectorAll('.output[open] .preview')].every((one) => one.childElementCount > 0)")
