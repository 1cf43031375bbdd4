"""The pages of the service among hostile words, late answers, a service that goes away, and ten thousand runs."""

import re

import pytest

import cupel as lib
import faults
from page_service import ROWS, browser, left, person, service, wait_loaded, wait_row  # noqa: F401  (fixtures)
from serving import Serving

pytestmark = pytest.mark.test_all

MARK = '<script>document.title="owned"</script><img src=x onerror=document.title="owned">\u202eevil\'"&'
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
    stem = caller.new_id()
    try:
        result = caller.run("--quest", "many", "--name", "one of many", "--", "true", id=f"{stem}-00000")
        assert result.cause == "ok", result.stderr
        one = result.run_dir
        texts = {name: (one / name).read_text() for name in ("analysis.json", "verdict.json", "events.jsonl", "outputs.json", "stdout.log", "stderr.log")}
        for number in range(1, MANY):
            run_id = f"{stem}-{number:05}"
            caller.run_dir(run_id).mkdir()
            for name, text in texts.items():
                (caller.run_dir(run_id) / name).write_text(text.replace(f"{stem}-00000", run_id))
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
