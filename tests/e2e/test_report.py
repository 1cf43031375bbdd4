"""cupel report: one page that needs nothing else, shows what was recorded, and runs nothing of it."""

import base64
import hashlib
import http.server
import json
import shutil
import subprocess
import threading

import pytest

import cupel as lib
from pages import Page, check_structure

# A name and words as whoever wants to get out of a page would choose them.
MARK = '</title></pre></bdi><script>document.title="owned"</script><img src={url} onerror=void(0)>\'"&'
WRITES = r"""
import sys, zlib, struct
mark = sys.argv[1]
name = mark.replace("/", "\u2215")
print("\x1b[31m" + mark + "\x1b[0m", file=sys.stdout)
print(mark, file=sys.stderr)
open("out/" + name[:80] + ".csv", "w").write('a,"%s"\n1,%s\n' % (mark.replace('"', '""'), "x" * 200))
open("out/n.json", "w").write('{"k": "%s"}' % mark)
open(b"out/\xff\xe2\x80\xae.txt", "w").write(mark)
open("out/lie.png", "w").write(mark)
open("out/s.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    '<script>document.title="owned"</script><image href="%s" width="9" height="9"/>'
    '<rect width="40" height="20" fill="#008080"/></svg>' % mark.split("src=")[1].split(" ")[0])
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("out/p.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)) + chunk(b"IEND", b""))
"""
class Server:
    """Tells who asks it for something."""

    def __enter__(self):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/x"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()


def report(caller, run_id, *args):
    status, out, err = caller.call(caller.binary, "report", run_id, "--to", "-", *args)
    assert status == 0, err
    return out


@pytest.fixture
def hostile(cupel):
    with Server() as server:
        mark = MARK.format(url=server.url)
        result = cupel.run("--name", mark, "--quest", mark, "--label", f"k={mark}", "--",
                           "python3", "-c", WRITES, mark)
        assert result.cause == "ok", result.stderr
        yield result.run_dir.name, mark, server


def test_hostile_words_stay_words(cupel, hostile):
    run_id, mark, _ = hostile
    page = Page(report(cupel, run_id))
    check_structure(page)
    assert page.text.count(mark) >= 6, "name, quest, label, both logs, command, outputs"
    assert sum(name == "src" for _, name, _ in page.attributes) == 2, "the picture that lies is none"
    assert "\u202e" not in page.text and "\x1b" not in page.text


def test_the_check_of_the_structure_can_fail():
    for bad in ("<p onclick='x'>", "<script>x</script>", "<img src='http://a/b'>", "<p style='x'>"):
        with pytest.raises(AssertionError):
            check_structure(Page(bad))


def test_the_policy_allows_the_style_and_nothing_else(cupel, hostile):
    page = Page(report(cupel, hostile[0]))
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy == (f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
                           "base-uri 'none'; form-action 'none'")
    assert "url(" not in page.style and "@import" not in page.style


def test_what_it_shows_is_what_was_recorded(cupel):
    result = cupel.run("--name", "a name", "--memory", "64M", "--", "sh", "-c",
                       "echo x,y > out/t.csv; echo 1,2 >> out/t.csv; sleep 1.2")
    text = report(cupel, result.run_dir.name)
    page = Page(text)
    assert result.verdict["completion_notes"] in page.text and "64.0 MiB" in page.text
    for event in result.events:
        assert event["event"] in page.text
    assert result.outputs["files"][0]["sha256"] in page.text
    assert "<th>x</th><th>y</th>" in text and "<td>1</td><td>2</td>" in text
    assert text.count("<figure>") == 2 and text.count('class="curve"') == 2


def test_of_a_failure_and_of_one_that_never_ran(cupel):
    result = cupel.run("--memory", "32M", "--", "python3", "-c", "x = bytearray(1 << 30)")
    assert result.cause == "oom"
    assert '<span class="badge">oom' in report(cupel, result.run_dir.name)
    result = cupel.run("--", "/no/such/program")
    check_structure(Page(report(cupel, result.run_dir.name)))


def test_the_file_has_the_name_that_was_asked_for(cupel):
    result = cupel.run("--", "true")
    run_id = result.run_dir.name
    for args, name in (((), f"{run_id}.html"), (("--to", "page.html"), "page.html")):
        status, out, _ = cupel.call(cupel.binary, "report", run_id, *args)
        assert (status, out) == (0, f"{cupel.dir}/{name}\n")
        assert (cupel.dir / name).read_text() == report(cupel, run_id)
        (cupel.dir / name).unlink()


def test_the_one_in_a_crate_has_its_metadata(cupel, hostile):
    run_id, mark, _ = hostile
    place = cupel.dir / f"{run_id}-crate"
    assert cupel.call(cupel.binary, "export", run_id, "--to", place)[0] == 0
    text = (place / "ro-crate-preview.html").read_text()
    begin = '<script type="application/ld+json">'
    data = text.split(begin)[1].split("</script>")[0]
    assert text.count("<script") == 1 and "<" not in data
    assert json.loads(data) == json.loads((place / "ro-crate-metadata.json").read_text())
    check_structure(Page(text.replace(f"{begin}{data}</script>", "")))


# In a real browser.

@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium: not installed")
    profile = tmp_path_factory.mktemp("chromium")

    def call(page, *args):
        return subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={profile}", *args, page.as_uri()],
            capture_output=True, text=True, check=True, timeout=120 * lib.SLOW)

    return call


def test_a_browser_runs_nothing_and_asks_nobody(root, browser, tmp_path):
    with Server() as server:
        mark = MARK.format(url=server.url)
        result = root.run("--name", mark, "--quest", mark, "--", "python3", "-c", WRITES, mark)
        page = tmp_path / "page.html"
        page.write_text(report(root, result.run_dir.name))
        shown = browser(page, "--dump-dom").stdout
        assert f"<title>run {result.run_dir.name}: ok</title>" in shown and server.asked == []
        # The same words where nothing guards against them.
        page.write_text(f"<!DOCTYPE html><title>a</title><body>{mark}")
        shown = browser(page, "--dump-dom").stdout
        assert "<title>owned</title>" in shown and server.asked == ["/x"]


def test_a_browser_draws_it_in_light_and_in_dark(root, browser, tmp_path):
    """The style is applied: its digest in the policy is right, for the page has its background."""
    images = pytest.importorskip("PIL.Image", reason="pillow: not installed")
    result = root.run("--", "sh", "-c", "echo hello; sleep 0.3")
    page = tmp_path / "page.html"
    page.write_text(report(root, result.run_dir.name))
    for scheme, colour in ((1, (246, 247, 249)), (0, (17, 21, 28))):
        picture = tmp_path / f"{scheme}.png"
        browser(page, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=900,1200",
                f"--screenshot={picture}")
        with images.open(picture) as image:
            assert image.convert("RGB").getpixel((2, 2)) == colour
