"""The pages of the service in a real browser, as people use them: with eyes, keys, a phone, a screen reader, and among hostile words."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

import browser as browsers
import cupel as lib
import faults
import leftovers
from serving import Serving

RUNC = "/usr/sbin/runc"
AXE = "axe-core@4.11.0"
MARK = '<script>document.title="owned"</script><img src=x onerror=document.title="owned">\u202eevil\'"&'
ROWS = "[...document.querySelectorAll('.runs tr[data-id]')]"
LINES = r"""
import time
for i in range(100000):
    print("line", i, "needle" if i % 50 == 7 else "", flush=True)
    time.sleep(0.01)
"""
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
HOSTILE = r"""
import sys
mark = sys.argv[1]
print("\x1b[31m" + mark + "\x1b[0m")
print("overwritten\rlast")
print("y" * 10000)
name = mark.replace("/", "_")[:60]
open("out/" + name + ".csv", "w").write("a," + mark.replace(",", ";").replace('"', "") + "\n1,2\n")
open("out/lie.png", "w").write(mark)
open("out/page.html", "w").write(mark)
open("out/drawing.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="41" height="20" onload="document.title=&quot;owned&quot;"><script>'
    'document.title="owned"; top.document.title="owned"</script><image href="http://example.com/x.png" width="9" height="9"/></svg>')
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


def test_a_token_is_asked_for_once_and_a_wrong_one_again(service, browser, left):
    tab = browser.tab()
    tab.open(service.url)
    tab.wait("document.activeElement.id === 'token'")
    tab.type("cupel_wrong")
    tab.press("Enter")
    tab.wait_text("not good any more", "dialog")
    tab.type(service.key)
    tab.press("Enter")
    wait_row(tab, left, "leaves three")
    assert not tab.run("!!document.querySelector('dialog')")
    assert tab.run("Object.keys(localStorage).length + document.cookie.length") == 0
    assert all("401" in complaint for complaint in tab.complaints)


def test_the_list_shows_what_happens_as_it_happens(service, person):
    tab = person()
    tab.wait_text("live", "#link")
    tab.run("globalThis.stays = true")
    run_id = service.submit("sh", "-c", "echo up; until test -e go; do sleep 0.05; done", name="a live one", quest="news")
    wait_row(tab, run_id, "a live one", "news")
    wait_row(tab, run_id, "running")
    log = service.caller.run_dir(run_id) / "stdout.log"
    assert lib.wait_until(lambda: log.exists() and log.read_text() == "up\n")
    (service.caller.work_dir(run_id) / "go").touch()  # not before it was seen to run
    wait_row(tab, run_id, "ok")
    tab.wait(f"document.querySelector('#said').textContent.includes({json.dumps(run_id)})")
    assert tab.run("globalThis.stays"), "without loading the page again"


def test_one_that_waits_says_for_what(service, person):
    ids = [service.submit("sleep", "600", name=f"sleeper {i}") for i in range(3)]
    try:
        for run_id in ids[:2]:  # from then on the third waits for one thing only
            service.wait(run_id, "running")
        tab = person("/?state=queued")
        wait_row(tab, ids[2], "sleeper 2", "waits")
        why = service.show(ids[2])["pending"]
        assert why["text"] in tab.run(f"{row(ids[2])}.innerText")
        assert tab.run(f"{row(ids[2])}.querySelector('.c-runtime').innerText") == "at start"
        tab.click(f".runs tr[data-id='{ids[2]}'] a")
        tab.wait_text(why["text"].split(";")[0], ".verdict")
        tab.wait_text("it is chosen when the run starts", ".facts")
        tab.click("nav a", "Runs")
    finally:
        service.finish()


def test_filters_stand_in_the_address(service, person, left):
    failed = service.submit("sh", "-c", "exit 3", name="fails", quest="harvest")
    service.wait(failed)
    tab = person()
    wait_row(tab, failed, "exit")
    tab.click(".filters .tabs label", "Ended")
    tab.wait("location.search === '?state=ended'")
    tab.press("/")
    tab.type("leaves")
    tab.wait("new URLSearchParams(location.search).get('q') === 'leaves'")
    tab.wait(f"{ROWS}.map((one) => one.dataset.id).join() === {json.dumps(left)}")
    tab.open(f"{service.url}/?cause=exit&quest=harvest")
    tab.wait(f"{ROWS}.map((one) => one.dataset.id).join() === {json.dumps(failed)}")
    assert tab.run("document.querySelector('[name=cause]').value") == "exit"
    tab.open(f"{service.url}/?q=nothing-is-called-so")
    tab.wait_text("No run is like that")
    tab.click(".list button", "Clear the filters")
    wait_row(tab, left, "leaves three")
    assert tab.run("location.search") == ""


def test_the_order_is_said_and_turned(person, left):
    tab = person()
    wait_row(tab, left, "leaves three")
    assert tab.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
    first = tab.run(f"{ROWS}[0].dataset.id")
    tab.click(".sort")
    tab.wait("document.querySelector('[aria-sort]')?.getAttribute('aria-sort') === 'ascending'")
    tab.wait(f"{ROWS}.length > 1 && {ROWS}[{ROWS}.length - 1].dataset.id === {json.dumps(first)}")


def test_a_log_is_followed_and_searched_and_the_run_cancelled(service, person):
    run_id = service.submit("python3", "-c", LINES, name="talks")
    tab = person(f"/runs/{run_id}")
    tab.wait_text("line 60", ".log")
    at_end = "(() => { const l = document.querySelector('.log'); return l.scrollHeight - l.scrollTop - l.clientHeight < 40; })()"
    tab.wait(at_end)
    height = tab.run("document.querySelector('.log').scrollHeight")
    tab.wait(f"document.querySelector('.log').scrollHeight > {height} + 200")
    tab.wait(at_end)
    tab.press("/")
    tab.type("needle")
    tab.wait_text("found", ".found")
    tab.press("Enter")
    tab.wait("/^1 of \\d+ found/.test(document.querySelector('.found').innerText)")
    tab.press("Enter")
    tab.wait("/^2 of \\d+ found/.test(document.querySelector('.found').innerText)")
    assert tab.run("CSS.highlights.get('found-here').size") == 1
    assert not tab.run("document.querySelector('.check input').checked"), "who searches reads"
    tab.click("button.danger", "Cancel")
    tab.wait("document.querySelector('dialog')?.open")
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    assert service.show(run_id)["state"] == "running", "nothing without a yes"
    tab.click("button.danger", "Cancel")
    tab.click("dialog button.danger")
    tab.wait_text("cancelled", "h1")
    assert service.wait(run_id)["cause"] == "cancelled"


def test_a_page_of_a_run_has_all_of_it(service, person, left):
    tab = person(f"/runs/{left}")
    widths = "[...document.querySelectorAll('.preview img')].map((one) => one.naturalWidth).join()"
    tab.wait(f"{widths} === '32'")  # picture.png
    wait_loaded(tab)
    tab.click(".output summary", "out/drawing.svg")  # few bytes may take a browser long: not before somebody wants it
    tab.wait(f"{widths} === '40,32'")
    tab.wait_text("BRCA1", ".preview table")
    assert tab.run("[...document.querySelectorAll('.preview th[scope=col]')].map((one) => one.innerText)") == ["gene", "score"]
    tab.wait_text("five clusters", ".outputs")
    run = service.show(left)
    text = tab.text()
    assert run["verdict"]["completion_notes"] in text
    for phase in ("prepared", "ran", "collected"):
        assert phase in tab.text(".timeline")
    for event in run["events"]:
        assert event["event"] in text
    for words in ("Namespaces of its own", "System calls filtered", "Limits and use", run["selection"]["why"]):
        assert words in text
    tab.wait_text("to stdout", ".log")
    tab.click(".tools .tabs label", "stderr")
    tab.wait_text("to stderr", ".log")
    assert "to stdout" not in tab.text(".log")


def test_where_it_came_from(service, person):
    """What was run, with which words, for which pipeline: each is named and led to. A pipeline can be had as a report and a crate, as a run can."""
    script = service.caller.dir / "whence.py"
    script.write_text("import sys; print(sys.argv); sys.exit(len(sys.argv) > 2)", encoding="utf-8")
    script.chmod(0o644)
    step = {"code": str(script), "args": ["--level", "deep blue"]}
    run_id = service.call("POST", "/v1/runs", {"analysis": {"steps": {"look": step}, "name": "of one step"}})["id"]
    tab = person("/?q=look")
    assert lib.wait_until(lambda: service.ask("GET", f"/v1/pipelines/{run_id}").json.get("state") == "failed")
    tab.open(f"{service.url}/runs/{run_id}")
    tab.click("p.verdict a", "Its log")
    tab.wait_text(str(script), "main")
    sha256 = hashlib.sha256(script.read_bytes()).hexdigest()
    tab.wait_text(sha256, "main")
    assert "--level deep blue" in tab.text("pre.command")
    tab.click("dd a", run_id)
    tab.wait(f"location.pathname === '/runs/{run_id}'")
    tab.wait_text("of one step", "h1")
    assert [tab.run(f"[...document.querySelectorAll('.buttons button')].some((one) => one.innerText === '{word}')")
            for word in ("Resume", "Report", "RO-Crate", "Cancel")] == [True, True, True, False]


def test_who_carried_it_out(service, person, left):
    if not pathlib.Path(RUNC).exists():
        pytest.skip("runc: not installed")
    run_id = service.submit("sh", "-c", "echo from there > out/words.txt", name="elsewhere", executor="boxes", outputs=[{"path": "out/words.txt"}])
    assert service.wait(run_id)["cause"] == "ok"
    tab = person(f"/runs/{run_id}")
    wait_loaded(tab)
    tab.wait_text("from there", ".output[open]")
    said = [tab.run("[...document.querySelectorAll('dt')].find((one) => one.innerText === 'Carried out by')?.nextElementSibling.innerText")]
    tab.open(f"{service.url}/runs/{left}")
    wait_loaded(tab)
    said.append(tab.run("[...document.querySelectorAll('dt')].find((one) => one.innerText === 'Carried out by')?.nextElementSibling.innerText"))
    assert said[0].startswith("boxes, oci, runc version 1.") and said[1] == "local", said


def test_what_can_be_taken_home(service, person, left, tmp_path):
    """A report, a crate, an output and a log, through a page whose links can't carry its token."""
    tab = person(f"/runs/{left}")
    tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    wait_loaded(tab)
    tab.click(".output summary", "out/drawing.svg")
    tab.wait("document.querySelectorAll('.output[open]').length > 3")  # three were open before
    for selector, words, made, begins in ((".buttons button", "Report", f"{left}.html", b"<!DOCTYPE html>"), (".buttons button", "RO-Crate", f"{left}.zip", b"PK"),
                                          (".output[open] button", "Download", "drawing.svg", b"<svg"), (".tools button", "Download", f"{left}.stdout.log", b"to stdout\n")):
        tab.click(selector, words)
        file = tmp_path / made  # may be there before its content is
        assert lib.wait_until(lambda at=file, first=begins: at.exists() and at.read_bytes().startswith(first)), [one.name for one in tmp_path.iterdir()]


def test_a_runtime_is_checked(service, person):
    def checked():
        return service.call("GET", "/v1/runtimes/base")["verified"]

    before = checked()
    tab = person("/senate")
    tab.click("section button", "Check")
    tab.click("dialog button.primary", "Check")
    assert lib.wait_until(lambda: checked() not in (None, before), 120 * lib.SLOW)


def test_a_pipeline_is_resumed(service, person):
    place = service.caller.dir / "go-on"
    place.mkdir()
    file = service.caller.dir / "resumed.yaml"
    file.write_text(f"steps: {{only: {{command: [test, -e, data/go-on/now], inputs: [{place}]}}}}\n", encoding="utf-8")
    run_id = service.call("POST", "/v1/runs", {"analysis": {"file": str(file)}})["id"]

    def state():
        return service.ask("GET", f"/v1/pipelines/{run_id}").json.get("state")

    assert lib.wait_until(lambda: state() == "failed")
    (place / "now").touch()
    tab = person(f"/runs/{run_id}")
    tab.click(".buttons button", "Resume")
    tab.click("dialog button.primary", "Resume")
    assert lib.wait_until(lambda: state() == "ok")
    tab.wait_text("ok", "h1")


def test_the_peak_is_one_number(service, person):
    """What was used between two samples is in the record, and the chart says that too."""
    script = "import time; time.sleep(0.7); b = bytearray(60 << 20); del b; time.sleep(1.5)"
    run_id = service.submit("python3", "-c", script, name="peaks", limits={"memory": "256M"})
    service.wait(run_id)
    tab = person(f"/runs/{run_id}")
    tab.wait("document.querySelectorAll('figcaption').length === 2 && !!document.querySelector('.limits .n')")
    used = tab.run("document.querySelector('.limits .n').firstChild.textContent")
    assert f"peak {used} of 256 MiB" in tab.run("document.querySelector('figcaption').innerText")


def test_run_again(service, person, left):
    tab = person(f"/runs/{left}")
    tab.click(".buttons button", "Run again")
    tab.click("dialog button.primary")
    tab.wait(f"location.pathname.startsWith('/runs/') && !location.pathname.endsWith({json.dumps(left)})")
    again = tab.run("location.pathname.split('/')[2]")
    assert service.wait(again)["cause"] == "ok"
    tab.wait_text("leaves three", "h1")
    tab.wait_text("ok", "h1")


def test_with_keys_only(service, person, left):
    tab = person()
    wait_row(tab, left, "leaves three")
    tab.press("j", "j")
    second = tab.run("document.activeElement.closest('tr').dataset.id")
    assert second == tab.run(f"{ROWS}[1].dataset.id")
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "it is seen where one is"
    tab.press("k")
    assert tab.run("document.activeElement.closest('tr').dataset.id") == tab.run(f"{ROWS}[0].dataset.id")
    tab.press("j", "Enter")
    tab.wait(f"location.pathname === '/runs/{second}'")
    tab.wait("!!document.querySelector('.log-text, .verdict')")
    tab.press("Escape")
    tab.wait("location.pathname === '/'")
    tab.wait(f"{ROWS}.length > 1")
    tab.press("?")
    tab.wait("document.querySelector('dialog')?.open")
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    for key, page in (("q", "/quests"), ("s", "/senate"), ("r", "/")):
        tab.press("g", key)
        tab.wait(f"location.pathname === '{page}'")
    seen = set()
    tab.wait(f"{ROWS}.length > 1")
    for _ in range(20):
        tab.press("Tab")
        seen.add(tab.run("document.activeElement.name || document.activeElement.className || document.activeElement.tagName"))
    assert {"q", "cause", "runtime", "quest", "submitter", "run-name"} <= seen


def test_an_answer_that_comes_late_is_not_drawn_over_another_page(person, left):
    tab = person()
    wait_row(tab, left, "leaves three")
    tab.run("""(() => {
        const real = fetch;
        globalThis.fetch = (path, ...rest) => path !== "/v1/senate" ? real(path, ...rest)
            : new Promise((go) => { globalThis.release = () => { go(real(path, ...rest)); }; });
    })()""")
    tab.press("g", "s")
    tab.wait("!!globalThis.release")
    tab.press("g", "r")
    wait_row(tab, left, "leaves three")
    tab.run("release()")
    tab.wait("performance.getEntriesByName(`${location.origin}/v1/senate`).length === 1")
    tab.drawn()
    assert tab.run("document.querySelector('h1').textContent") == "Runs"


@pytest.mark.parametrize("page", ["/", "run", "/quests", "/senate"])
def test_it_is_told_to_those_who_do_not_see(person, left, page):
    tab = person(f"/runs/{left}" if page == "run" else page)
    tab.wait("!document.querySelector('#main').innerText.includes('Loading') && document.querySelector('#main').innerText.length > 100")
    nodes = tab.accessible()
    roles = {role for role, _, _ in nodes}
    assert {"banner", "navigation", "main", "heading"} <= roles
    for role, name, _ in nodes:
        if role in ("button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "image", "table", "dialog", "region"):
            assert name.strip(), f"a {role} without a name"
    if page == "/":
        assert "search" in roles
        headers = [name for role, name, _ in nodes if role == "columnheader"]
        assert [re.sub(r"\W+$", "", name) for name in headers] == ["State", "Run", "Runtime", "Quest", "By", "Memory", "Time", "Since"]
    assert tab.run("document.querySelector('#said').getAttribute('aria-live')") == "polite"
    assert tab.run("document.querySelectorAll('h1').length") == 1


@pytest.fixture(scope="module", name="axe")
def _axe(tmp_path_factory):
    """The script of axe-core, the checker of accessibility that most others are made of; from npm."""
    if not shutil.which("npm"):
        pytest.skip("network: npm is not installed")
    place = tmp_path_factory.mktemp("axe")
    tried = subprocess.run(["npm", "pack", "--silent", AXE], cwd=place, capture_output=True, text=True, check=False, timeout=300)
    if tried.returncode != 0:
        pytest.skip(f"network: npm can't fetch {AXE}: {tried.stderr.strip()[-200:]}")
    with tarfile.open(next(place.glob("*.tgz"))) as packed:
        return packed.extractfile("package/axe.min.js").read().decode()


def violations(tab, axe):
    """[rule, what it was found in] of all that axe finds, its best practices too."""
    tab.call("Page.setBypassCSP", enabled=True)  # the policy of the pages would refuse a foreign script
    tab.run(f"{axe}; 1")
    return tab.run("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))]))")


@pytest.fixture(scope="module", name="places")
def _places(service, left):
    """The address of each kind of page, with something of everything on it."""
    service.call("POST", "/v1/quests", {"quest": "harvest", "title": "All that was sown", "layer": "Field", "priority": 70, "status": "active", "link": "https://example.org/q"})
    killed = service.submit("python3", "-c", "bytearray(1 << 30)", name="too much", quest="harvest", limits={"memory": "64M"})
    waits = service.call("POST", "/v1/runs", {"analysis": {"command": ["true"], "quest": "harvest", "name": "waits"}, "not_before": "2099-01-01T00:00:00Z"})["id"]
    steps = {"good": {"command": ["sh", "-c", "echo 1 > out/a"]}, "bad": {"command": ["false"], "inputs": [{"step": "good", "path": "out/a"}]}}
    pipeline = service.call("POST", "/v1/runs", {"analysis": {"steps": steps, "name": "two steps", "quest": "harvest"}})["id"]
    service.wait(killed)
    assert lib.wait_until(lambda: service.ask("GET", f"/v1/pipelines/{pipeline}").json.get("state") == "failed")
    yield {"runs": "/", "nothing": "/?q=nothing-is-called-so", "run": f"/runs/{left}", "waits": f"/runs/{waits}", "pipeline": f"/runs/{pipeline}",
           "quests": "/quests", "quest": "/quests?quest=harvest", "senate": "/senate"}
    service.post(f"/v1/runs/{waits}/cancel", {})


def wait_whole(tab):
    tab.wait("!document.querySelector('#main').innerText.includes('Loading') && document.querySelector('#main').innerText.length > 100")
    tab.drawn()


@pytest.mark.parametrize("how", [{}, {"dark": True}, {"size": (390, 844), "phone": True}], ids=["light", "dark", "phone"])
@pytest.mark.parametrize("page", ["runs", "nothing", "run", "waits", "pipeline", "quests", "quest", "senate"])
def test_axe_finds_nothing(person, places, axe, page, how):
    tab = person(places[page], **how)
    wait_whole(tab)
    if page == "run":
        wait_loaded(tab)
    assert violations(tab, axe) == []
    assert tab.run("document.documentElement.scrollWidth") <= how.get("size", (1280,))[0]


def test_axe_finds_nothing_where_nothing_is_found(service, browser, axe):
    tab = browser.tab()  # not person: the browser logs the 404 of the run
    service.enter(tab, "/runs/never-was")
    headings = "[...document.querySelectorAll('h1')].map((one) => one.innerText)"
    tab.wait_text("There is no run", "#main")
    assert tab.run(headings) == ["Run never-was"] and violations(tab, axe) == []
    tab.run("history.pushState(null, '', '/never-was'); dispatchEvent(new PopStateEvent('popstate'))")
    tab.wait_text("There is no such page", "#main")
    assert tab.run(headings) == ["Page not found"] and violations(tab, axe) == []


def test_axe_would_find_something(person, axe):
    tab = person()
    wait_whole(tab)
    tab.run("document.querySelector('main').append(document.createElement('button'), Object.assign(document.createElement('h4'), { textContent: 'deep' }))")
    assert {"button-name", "heading-order"} <= {rule for rule, _ in violations(tab, axe)}


def contrast(tab, selector):
    """The least contrast of any element's text with what is behind it."""
    return tab.run(f"""(() => {{
        const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
        const colour = (text) => text.match(/[\\d.]+/g).map(Number);
        const behind = (node) => {{
            for (; node; node = node.parentElement) {{
                const c = colour(getComputedStyle(node).backgroundColor);
                if (c.length === 3 || c[3] === 1) return c;
            }}
            return [255, 255, 255];
        }};
        return Math.min(...[...document.querySelectorAll({json.dumps(selector)})].filter((one) => one.innerText?.trim() && one.checkVisibility()).map((one) => {{
            const [a, b] = [light(colour(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
        }}));
    }})()""")


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(person, left, dark):
    tab = person(dark=dark)
    wait_row(tab, left, "leaves three")
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(17, 21, 28)" if dark else "rgb(246, 247, 249)")
    assert contrast(tab, ".badge, .soft, .run-name, th, td, button, label, nav a") >= 4.5
    tab.open(tab.run("location.origin") + f"/runs/{left}")
    tab.wait_text("Receipt")
    assert contrast(tab, ".badge, .soft, dd, dt, p, button, label, summary, li span") >= 4.5


@pytest.mark.parametrize("page", ["/", "run", "/quests", "/senate"])
def test_on_a_phone_nothing_is_beside_the_screen(person, left, page):
    tab = person(f"/runs/{left}" if page == "run" else page, size=(360, 740), phone=True)
    tab.wait("!document.querySelector('#main').innerText.includes('Loading') && document.querySelector('#main').innerText.length > 100")
    if page == "/":
        wait_row(tab, left, "leaves three")
        assert not tab.run("document.querySelector('[name=cause]').checkVisibility()")
        tab.click(".fold")
        tab.wait("document.querySelector('[name=cause]').checkVisibility()")
    assert tab.run("document.documentElement.scrollWidth") <= 360


def test_names_have_the_width_of_a_phone(service, person):
    """Also where there are more runs than the screen shows: what stands for those below it needs no columns."""
    name = "principal axes of all cells"
    ids = [service.submit("true", name=name) for _ in range(60)]
    for run_id in ids:
        service.wait(run_id)
    tab = person(size=(390, 844), phone=True)
    wait_row(tab, ids[-1], name)
    tab.wait("[...document.querySelectorAll('.runs tbody[aria-hidden]')].some((one) => one.checkVisibility())")
    assert tab.run("document.querySelectorAll('.runs thead th').length") == 8
    shown = tab.run("(() => { const wide = (one) => one.getBoundingClientRect().width; return [...document.querySelectorAll('.runs thead th')].filter((one) => one.checkVisibility())"
                    ".map(wide).concat(wide(document.querySelector('.runs'))); })()")
    assert sum(shown[:-1]) == pytest.approx(shown[-1], abs=2), "the columns that are seen have all of the table"
    link = f"{row(ids[-1])}.querySelector('.run-name')"
    assert tab.run(f"{link}.scrollWidth <= {link}.clientWidth"), "the name is not cut"
    assert "ok" in tab.run(f"{row(ids[-1])}.querySelector('.c-run').innerText"), "the state is seen"


def test_who_wants_no_motion_gets_none(person, left):
    moves = f"getComputedStyle({ROWS}[0]).transitionDuration"
    tab = person()
    wait_row(tab, left, "leaves three")
    assert tab.run(moves) != "0s"
    tab.look(reduced=True)
    assert tab.run(moves) == "0s"


def test_hostile_words_stay_words(service, person):
    run_id = service.submit("python3", "-c", HOSTILE, MARK, name=MARK, quest=MARK, labels={"k": MARK}, outputs=[{"path": "**"}])
    assert service.wait(run_id)["cause"] == "ok"
    tab = person()
    wait_row(tab, run_id, "<script>")
    check_inert(tab)
    tab.click(f".runs tr[data-id='{run_id}'] a")
    tab.wait_text("last", ".log")
    tab.wait_text("it is none", ".outputs")
    wait_loaded(tab)
    tab.click(".output summary", "out/drawing.svg")
    tab.wait("[...document.querySelectorAll('.preview img')].some((one) => one.naturalWidth === 41)")
    text = tab.text()
    assert "\u202e" not in text and "\x1b" not in text and "overwritten" not in tab.text(".log")
    assert "\\u202eevil" in text
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    check_inert(tab)
    tab.open(f"{service.url}/quests")
    tab.wait_text("<script>", ".cards")
    check_inert(tab)
    tab.click(".cards h2 a", "<script>")
    tab.wait_text("<script>", "h1")
    tab.wait_text("Success rate", "main")
    check_inert(tab)
    tab.click("main a", "All runs of this quest")
    wait_row(tab, run_id, "<script>")
    check_inert(tab)
    tab.open(f"{service.url}/senate")
    tab.wait_text("Runtimes")
    check_inert(tab)


def check_inert(tab):
    assert "owned" != tab.run("document.title")
    assert tab.run("document.querySelectorAll('main script, main img[src=x], main iframe, main object, main [onerror]').length") == 0


def test_the_check_of_inertness_can_fail(person):
    tab = person()
    tab.wait("!!document.querySelector('.filters')")
    tab.run("document.querySelector('main').append(document.createElement('iframe'))")
    with pytest.raises(AssertionError):
        check_inert(tab)


def test_what_the_policy_forbids_is_forbidden(service, browser):
    tab = browser.tab()
    tab.open(service.url)
    tab.wait("document.querySelector('dialog')?.open")
    tab.run("""(() => { const one = document.createElement('script'); one.textContent = 'globalThis.owned = 1'; document.body.append(one);
        document.body.setAttribute('style', 'outline: 3px solid'); })()""")
    tab.wait("globalThis.owned === undefined")
    assert lib.wait_until(lambda: sum("Content Security Policy" in c for c in tab.complaints) >= 2)


def test_when_the_service_goes_and_comes_back(service, browser, left):
    tab = browser.tab()
    service.enter(tab)
    wait_row(tab, left, "leaves three")
    tab.wait_text("live", "#link")
    service.kill()
    tab.wait_text("The service does not answer", "#banner")
    assert "live" not in tab.text("#link")
    assert tab.run(f"{ROWS}.length") > 0, "what was there stays to be read"
    service.start()
    tab.wait("document.querySelector('#banner').hidden")
    tab.wait_text("live", "#link")
    run_id = service.submit("true", name="after the break")
    wait_row(tab, run_id, "after the break", "ok")


def test_quests_add_up(service, person):
    for status in (0, 0, 1):
        service.wait(service.submit("sh", "-c", f"exit {status}", quest="sums"))
    tab = person("/quests")
    card = "[...document.querySelectorAll('.card')].find((one) => one.querySelector('h2').innerText === 'sums')"
    tab.wait(f"{card}?.innerText.includes('2 succeeded, 1 failed')")
    assert "67 %" in tab.run(f"{card}.innerText")
    tab.run(f"{card}.querySelector('.cause').click()")
    tab.wait("location.search.includes('quest=sums') && location.search.includes('cause=exit')")
    tab.wait(f"{ROWS}.length === 1")


def test_a_quest_has_a_title_and_a_page_of_its_own(service, person):
    for status in (0, 1):
        service.wait(service.submit("sh", "-c", f"exit {status}", quest="titled"))
    service.call("POST", "/v1/quests", {"quest": "titled", "title": "Why cells age", "layer": "Atlas", "priority": 80, "status": "active", "link": "https://example.org/q?a=1"})
    tab = person("/quests")
    card = "[...document.querySelectorAll('.card')].find((one) => one.querySelector('h2').innerText === 'Why cells age')"
    tab.wait(f"{card}?.innerText.includes('1 succeeded, 1 failed')")
    link = "one.querySelector('a[target=_blank]')"
    for words in ("titled", "layer Atlas", "priority 80", "status active", "example.org/q?a=1"):
        assert words in tab.run(f"{card}.innerText"), words
    tab.click(".card h2 a", "Why cells age")
    tab.wait("location.pathname + location.search === '/quests?quest=titled'")
    tab.wait_text("Why cells age", "h1")
    tab.wait("document.querySelectorAll('figure.trend svg rect').length >= 3")
    assert tab.run("document.title") == "Why cells age · cupel"
    assert tab.run(f"[...document.querySelectorAll('header')].map((one) => {link}).find(Boolean).outerHTML").startswith('<a target="_blank" rel="noopener noreferrer" href="https://example.org/q?a=1">')
    told = tab.run("[...document.querySelectorAll('figure.trend svg')].map((one) => one.getAttribute('aria-label'))")
    assert told[0].startswith("Success rate: ") and "%" in told[0], told
    assert told[1].startswith("Processor time: ") and told[2].startswith("Mean time in the queue: "), told
    tab.click("summary", "As a table")
    tab.wait("document.querySelector('details[open] table tbody tr')?.checkVisibility()")
    tab.click("main a", "All runs of this quest")
    tab.wait("location.search === '?quest=titled'")
    tab.wait(f"{ROWS}.length === 2")
    tab.open(f"{service.url}/quests?quest=nothing-of-that-name")
    tab.wait_text("there is no quest 'nothing-of-that-name'")
    assert all("404" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


def test_the_senate_tells_of_what_was_done(service, person):
    killed = service.submit("python3", "-c", "bytearray(1 << 30)", name="hungry", limits={"memory": "64M"})
    assert service.wait(killed)["cause"] == "oom"
    tab = person("/senate")
    for words in ("Runtimes", "base", "Policy and ceilings", "Protected", "Left over", "Spend", "Chain of records"):
        tab.wait_text(words, "main")
    tab.wait("!!document.querySelector('.senate a[href=\"/?cause=oom\"]')")
    shares = tab.run("[...document.querySelectorAll('#s-spend ~ .halves > div')].map((one) => [...one.querySelectorAll('td.meter')].map((cell) => parseInt(cell.innerText)))")
    for list_of in shares:
        assert list_of and 98 <= sum(list_of) <= 102, f"parts of the whole: {shares}"
    left_over = "document.querySelector('#s-left-over').parentNode.innerText"
    assert "No dead run is left over now" in tab.run(left_over) and "has had nothing to remove so far" in tab.run(left_over)
    dead = service.caller.home / ".new-0123"  # what a writer that died leaves
    dead.write_text("?")
    os.utime(dead, (0, 0))
    status, _, err = service.caller.call(service.caller.binary, "gc")
    assert status == 0, err
    tab.open(f"{service.url}/senate")
    tab.wait_text("Last cleanup", "main")
    assert "other leftovers" in tab.run(left_over)


def test_what_all_runs_may_have_is_the_same_on_each_page(person):
    tab = person()
    tab.wait("document.querySelectorAll('.count small').length === 3")
    caps = tab.run("[...document.querySelectorAll('.count small')].map((one) => one.innerText.replace('of ', '').trim())")
    tab.click("nav a", "Senate")
    tab.wait_text("All runs together", "main")
    shown = tab.run("[...[...document.querySelectorAll('h3')].find((one) => one.innerText === 'All runs together').nextElementSibling.querySelectorAll('dd')]"
                    ".map((one) => one.innerText)")
    assert shown == caps


def test_what_is_not_there_says_so(service, browser, person):
    tab = person("/runs/no-such-run")
    tab.wait_text("There is no run no-such-run")
    assert [c for c in tab.complaints if "404" not in c] == []
    tab.complaints.clear()


def test_parts_of_the_pages_by_themselves(person):
    tab = person()
    assert tab.run("""(async () => {
        const { Parser } = await import("/assets/stream.js");
        const parser = new Parser();
        const whole = ": beat\\n\\nid: 7\\nevent: log\\ndata: {\\ndata: }\\n\\r\\nid: 8\\ndata: x\\n\\n";
        const found = [...whole].flatMap((one) => parser.feed(one));
        return found.map((one) => [one.id, one.event, one.data]);
    })()""") == [["7", "log", "{\n}"], ["8", "message", "x"]]
    assert tab.run("""(async () => {
        const { merged } = await import("/assets/runs_model.js");
        const rows = (...ids) => ids.map((id) => ({ id }));
        const ids = (known, head, isAll) => merged(rows(...known), rows(...head), isAll).rows.map((row) => row.id).join("");
        return [ids("cba", "dcb", false), ids("cba", "dc", true), ids("cba", "zyx", false), ids("cba", "dca", false)];
    })()""") == ["dcba", "dc", "zyx", "dca"]
    assert tab.run("""(async () => {
        const { LogText, line } = await import("/assets/log_text.js");
        const log = new LogText(1000);
        for (const part of ["a", "b\\nc", "\\nd\\re"]) log.append(part);
        log.finish();
        const small = new LogText(50);
        for (let i = 0; i < 1000; i++) small.append(`${i}\\n`);
        return [log.node.textContent, line("\\u001b[1mx\\u001b[0m\\u0007\\u202e"), log.find("C", 9).length, small.trim(), small.node.textContent.includes("999\\n")];
    })()""") == ["ab\nc\ne\n", "x\u2407\\u202e", 1, True, True]
    assert tab.run("""(async () => {
        const { bytes, duration, clean, memoryTime } = await import("/assets/format.js");
        return [memoryTime(0), memoryTime(1e-9), memoryTime(1e-5), memoryTime(0.01), memoryTime(2), bytes(1536), bytes(0), duration(90e6), duration(1500), duration(3600e6), clean("a\\u202eb"), clean("x".repeat(10000)).length];
    })()""") == ["0 MiB h", "under 0.1 KiB h", "10.5 KiB h", "10.2 MiB h", "2.00 GiB h", "1.5 KiB", "0 B", "1 min 30 s", "2 ms", "1 h", "a\\u202eb", 201]


def test_nothing_in_the_pages_makes_elements_of_words_or_knows_another_host():
    folder = lib.TESTS.parent / "src/serve/pages"
    listed = set(re.findall(r"'([^']+)'", (folder / "meson.build").read_text()))
    assert listed == {file.name for file in folder.iterdir()} - {"meson.build"}, "what is there is served"
    for file in folder.iterdir():
        text = file.read_text()
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc", text)
        assert found == [], file
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)\S+", text) == [], file


MANY = 10000


@pytest.fixture
def crowded(callers):
    """A service with ten thousand runs: one that was, and as many with its record under other ids."""
    callers("root")
    caller = lib.Cupel("root", place=faults.memory())  # 60,000 files
    try:
        one = caller.run("--quest", "many", "--name", "one of many", "--", "true", id="r00000").run_dir
        texts = {name: (one / name).read_text() for name in ("analysis.json", "verdict.json", "events.jsonl", "outputs.json", "stdout.log", "stderr.log")}
        for number in range(1, MANY):
            run_id = f"r{number:05}"
            caller.run_dir(run_id).mkdir()
            for name, text in texts.items():
                (caller.run_dir(run_id) / name).write_text(text.replace("r00000", run_id))
        status, _, err = caller.call(caller.binary, "ledger", "rebuild")
        assert status == 0, err
        with Serving(caller) as made:
            yield made
    finally:
        caller.close()


@pytest.mark.limit_s(900)  # seven hundred screens, each drawn
def test_ten_thousand_runs_are_a_pleasure(crowded, browser):
    tab = browser.tab()
    crowded.enter(tab)
    tab.wait(f"{ROWS}.length > 10")
    seen, in_document = set(), 0
    while len(seen) < MANY:
        before = len(seen)
        tab.run("window.scrollBy(0, innerHeight)")
        tab.drawn()
        ids = tab.run(f"{ROWS}.map((one) => one.dataset.id)")
        seen.update(ids)
        in_document = max(in_document, len(ids))
        if len(seen) == before:  # the next page is on its way
            tab.wait("scrollY + innerHeight < document.documentElement.scrollHeight - 10")
    assert in_document < 100, "only what is seen is there"
    assert tab.run(f"{ROWS}[{ROWS}.length - 1].getAttribute('aria-rowindex')") == str(MANY + 1)
    tab.run("window.scrollTo(0, document.documentElement.scrollHeight / 2)")
    tab.drawn()
    top = f"{ROWS}.find((one) => one.getBoundingClientRect().top > 120).dataset.id"
    middle = tab.run(top)
    run_id = crowded.submit("true", name="a new one")
    crowded.wait(run_id)
    tab.wait_text("1 new run", ".fresh")
    assert tab.run(top) == middle, "what is read stays where it is"
    tab.click(f".runs tr[data-id='{middle}'] a")
    tab.wait_text("one of many", "h1")
    tab.press("Escape")
    tab.wait(f"{ROWS}.some((one) => one.dataset.id === '{middle}')")
    assert tab.run("document.activeElement.closest('tr').dataset.id") == middle
    tab.press("Home")
    wait_row(tab, run_id, "a new one", "ok")
    assert "\n".join(tab.complaints) == ""
