"""The pages of the service in a real browser, as people use them."""

import hashlib
import json
import os
import pathlib

import pytest

import cupel as lib
from page_service import ROWS, RUNC, browser, left, person, row, service, wait_loaded, wait_row  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all

LINES = r"""
import time
for i in range(100000):
    print("line", i, "needle" if i % 50 == 7 else "", flush=True)
    time.sleep(0.01)
"""


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
