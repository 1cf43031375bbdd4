"""The pages of the service for everybody: by keys alone, by a screen reader, on a phone, in light and dark, without motion; axe-core finds nothing wrong."""

import json
import re
import shutil
import subprocess
import tarfile

import pytest

import cache
import cupel as lib
from page_service import ROWS, browser, left, person, row, service, wait_loaded, wait_row  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all

AXE = "axe-core@4.11.0"


def test_with_keys_only(service, person, left):
    other = service.submit("true", name="another")
    service.wait(other)
    tab = person()
    wait_row(tab, left, "leaves three")
    wait_row(tab, other, "another")
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
def _axe():
    """The script of axe-core, the checker of accessibility that most others are made of; from npm."""
    if not shutil.which("npm"):
        pytest.skip("network: npm is not installed")

    def fetch(place):
        tried = subprocess.run(["npm", "pack", "--silent", AXE], cwd=place, capture_output=True, text=True, check=False, timeout=300)
        if tried.returncode != 0:
            pytest.skip(f"network: npm can't fetch {AXE}: {tried.stderr.strip()[-200:]}")

    with tarfile.open(next(cache.made("axe", AXE, fetch).glob("*.tgz"))) as packed:
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
    tab.wait(f"{ROWS}.length > 0")  # any will do: `left` may be below the screen
    assert tab.run(moves) != "0s"
    tab.look(reduced=True)
    assert tab.run(moves) == "0s"
