"""Where things are, and how a program is run for the driver: C programs, pytest, and what sanitizers report of either."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from outcomes import Case, junit_cases, tail, tap_cases, with_source_lines

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IN_GUEST = os.environ.get("CUPEL_TEST_VM") == "1"
# An emulated CPU is ten times slower, more when it forks.
PROGRAM_LIMIT_S = 1800 if IN_GUEST else 300
LAYER_LIMIT_S = 3600


class Ended(Exception):
    """The driver was told to end."""


class Running:
    """The programs that run now. When the driver is told to end, they are too."""

    def __init__(self):
        self._lock = threading.Lock()
        self._processes = set()
        self._over = False

    def start(self, command, **options):
        with self._lock:
            if self._over:
                raise Ended
            process = subprocess.Popen(command, start_new_session=True, **options)
            self._processes.add(process)
        return process

    def ended(self, process):
        with self._lock:
            self._processes.discard(process)

    def end_all(self):
        """First politely, so that pytest ends the servers that its tests have started."""
        with self._lock:
            self._over = True
            processes = [process for process in self._processes if process.poll() is None]
        for number, limit_s in ((signal.SIGTERM, 30), (signal.SIGKILL, 5)):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            end = time.monotonic() + limit_s
            while any(process.poll() is None for process in processes) and time.monotonic() < end:
                time.sleep(0.1)


class Reports:
    """What sanitizers say in any process below this one: see tests/lib/sanitizer.c."""

    SIZE = 65536

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="cupel-reports-")
        os.chmod(self.folder.name, 0o755)
        self.path = pathlib.Path(self.folder.name, "reports")
        self.path.touch()
        self.path.chmod(0o666)  # runs of ordinary users report too
        self.clear()
        self.env = {"CUPEL_SANITIZER_REPORTS": str(self.path),
                    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
                    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}

    def clear(self):
        # Processes may share the page: it is never shortened.
        with open(self.path, "r+b") as file:
            file.write(bytes(self.SIZE))

    def take(self):
        data = self.path.read_bytes()
        self.clear()
        used = int.from_bytes(data[:4], sys.byteorder)
        return data[4:4 + used].rstrip(b"\0").decode(errors="replace")

    def case(self, context, name):
        """A report fails the job, whatever became of the test in which it was made. That silence
        means something is proven each time by a program that errs on purpose."""
        text = self.take()
        if text:
            return Case(f"{name}: sanitizer", "failed", with_source_lines(text, context.build / "cupel"))
        status, _ = context.run(f"{name}-sanitizer", [context.build / "cupel", "--version"], 60,
                                env={**self.env, "CUPEL_SANITIZER_SELF_TEST": "1"})
        text = self.take()
        if status and "heap-buffer-overflow" in text and "ended by a sanitizer" in text:
            return Case(f"{name}: sanitizer", "passed")
        return Case(f"{name}: sanitizer", "failed", "a report was not seen: exit status "
                    f"{status}, said {text or 'nothing'}")


class Context:
    """A build, where its results go, and what is run of it."""

    def __init__(self, build, results, running):
        self.build = build
        self.results = results
        self.running = running
        results.mkdir(parents=True, exist_ok=True)
        self.env = dict(
            os.environ, CUPEL=str(build / "cupel"), CUPEL_BUILD=str(build),
            CMOCKA_MESSAGE_OUTPUT="TAP", PYTHONDONTWRITEBYTECODE="1")

    def is_sanitized(self):
        path = self.build / "meson-info/intro-buildoptions.json"
        options = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return any(o["name"] == "b_sanitize" and o["value"] != "none" for o in options)

    def run(self, name, command, limit_s=LAYER_LIMIT_S, suffix="log", env=None):
        """Returns exit status (None: the time limit passed) and output. That goes to a file: a
        process left behind could hold a pipe open for ever."""
        path = self.results / f"{name}.{suffix}"
        with open(path, "wb") as log:
            process = self.running.start(command, cwd=ROOT, env={**self.env, **(env or {})},
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                self.running.ended(process)
        return status, path.read_text(encoding="utf-8", errors="replace")

    def tap(self, layer, name, command, limit_s=PROGRAM_LIMIT_S, env=None):
        """The cases of a program that speaks TAP. They are not timed one by one."""
        start = time.monotonic()
        status, output = self.run(f"{layer}-{name}", command, limit_s, "tap", env)
        cases, planned = tap_cases(name, output)
        if status == 77 and not cases:
            return [Case(name, "skipped", tail(output, 1) or "no reason given")]
        if status is None:
            cases.append(Case(name, "failed", f"still running after {limit_s} s\n{tail(output)}"))
        elif status < 0:
            cases.append(Case(name, "failed", f"killed by signal {-status}\n{tail(output)}"))
        elif len(cases) != planned or not cases:
            cases.append(Case(name, "failed", f"announced {planned} tests, ran {len(cases)}; "
                              f"exit status {status}\n{tail(output)}"))
        elif status != 0 and not any(case.outcome == "failed" for case in cases):
            cases.append(Case(name, "failed", f"exit status {status}\n{tail(output)}"))
        cases[0].seconds, cases[0].timed = time.monotonic() - start, f"{name}, all of it"
        return cases

    def programs(self, suite):
        """The C programs that meson knows of a suite: (name, command)."""
        tests = json.loads((self.build / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
        return [(test["name"], test["cmd"]) for test in tests
                if suite in [name.split(":")[-1] for name in test["suite"]]]

    def collect(self, name, files, marks):
        """The tests of these files that have these marks: [{name, file, marks}]. With them come cases for files that skip themselves, or the
        one case that says why there is no list."""
        listed = self.results / f"{name}-list.json"
        listed.unlink(missing_ok=True)
        status, output = self.run(f"{name}-list", self._pytest("-q", "-m", marks, f"--list={listed}", *files))
        if status not in (0, 5) or not listed.exists():
            return [], [Case(f"{name}: list", "failed", f"pytest: exit status {status}\n{tail(output)}")]
        answer = json.loads(listed.read_text(encoding="utf-8"))
        return answer["tests"], [Case(f"{name}: {one['name']}", "skipped", one["reason"]) for one in answer["skipped"]]

    def pytest(self, name, tests, env=None):
        """Runs these tests, as `collect` named them; each must come back."""
        report, only = self.results / f"{name}.xml", self.results / f"{name}.only"
        report.unlink(missing_ok=True)
        only.write_text("".join(f"{test['name']}\n" for test in tests), encoding="utf-8")
        files = sorted({test["file"] for test in tests})
        status, output = self.run(name, self._pytest("-v", f"--only={only}", f"--junitxml={report}", *files), env=env)
        cases = list(junit_cases(report)) if report.exists() else []
        if status is None:
            cases.append(Case(name, "failed", f"still running after {LAYER_LIMIT_S} s\n{tail(output)}"))
        # 1: some failed, which the report says too.
        elif status not in (0, 1) or (status == 1 and not any(c.outcome == "failed" for c in cases)):
            cases.append(Case(name, "failed", f"pytest: exit status {status}\n{tail(output)}"))
        elif len(cases) < len(tests):
            cases.append(Case(name, "failed", f"{len(tests)} tests were to run, {len(cases)} did\n{tail(output)}"))
        return cases

    @staticmethod
    def _pytest(*words):
        return ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", *words]
