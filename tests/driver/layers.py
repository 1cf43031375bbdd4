"""The layers of tests, as jobs for the schedule: what each runs, what it needs first, and which tier has it."""

import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import threading
import time

from outcomes import Case, summary_cases, tail
from programs import IN_GUEST, LAYER_LIMIT_S, ROOT, Context, Reports
from schedule import Job

LAYERS = ["unit", "kernel", "escape", "crash", "hosts", "load", "e2e", "asan", "fuzz", "vm", "lint"]
TIERS = {"first": ["unit", "kernel", "escape", "crash", "hosts", "e2e", "lint"], "all": LAYERS}
# Not by themselves: `smoke` is part of `asan`, the others are for virtual machines.
PARTS = ["smoke", *(["systemd", "old", "engines"] if IN_GUEST else [])]
# Of `e2e`: what a sanitizer build has of it when there is little time.
SMOKE = ("test_run.py", "test_config.py")
# Half of the processors, since tests run beside it.
LINT_JOBS = str(max(1, (os.cpu_count() or 1) // 2))
LINT_STEPS = ["layout", "size", "format", "cppcheck", "types", "tidy"]
# What takes longest begins first. About how many seconds a test of a folder takes:
TEST_S = {"escape": 0.15, "crash": 1.5, "hosts": 0.7, "e2e": 0.6}
# Jobs and files that take longer than that. Builds stand above all, since others wait for them.
PRIORITY = {"faults-build": 3000, "vm": 2400, "asan-build": 2000, "tidy": 600, "cppcheck": 60,
            "test_create": 300, "test_executor_program": 280, "test_executor_slurm": 250, "test_executor_engine": 250, "test_executor_oci": 200,
            "test_phases": 180, "test_kill": 170, "test_executor_slurm_losses": 150, "test_create_image": 150, "test_faults": 130, "test_bench": 120,
            "test_pages": 120, "test_shipped_pipelines": 120, "test_post_process": 100, "test_outputs": 90}


class Plan:
    """`by_file`: a job is a file of tests, or a share of one; otherwise it is a layer."""

    def __init__(self, context, tier, by_file):
        self.context = context
        self.first_tier = tier == "first"
        self.by_file = by_file
        self.builds = {}
        self.builds_lock = threading.Lock()
        self.collected = {}
        self.folder_locks = collections.defaultdict(threading.Lock)
        self.sanitized = context.is_sanitized()

    def jobs(self, layers):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(self._layer, layers))
        for layer, jobs in zip(layers, found):
            if not jobs:
                jobs.append(Job(layer, layer, lambda layer=layer: [Case(layer, "failed", "the layer has no tests")]))
        return list(self.builds.values()) + [job for jobs in found for job in jobs]

    def _layer(self, layer):
        special = getattr(self, f"_{layer}", None)
        return special(layer) if special else self._plain(layer)

    def _marks(self):
        if IN_GUEST:
            return "not systemd and not old and not not_in_vm"
        return "not systemd and not old and not vm" + (" and not test_all" if self.first_tier else "")

    # C programs and files of pytest.

    def _plain(self, layer, needs=()):
        return self._programs(self.context, layer, layer) + self._tests(self.context, layer, layer, needs=needs)

    def _job(self, context, layer, name, work, sanitized=False, **more):
        """work(env) -> cases. Each job of a sanitizer build has its own report page."""
        def watched():
            if not sanitized:
                return work({})
            reports = Reports()
            return work(reports.env) + [reports.case(context, name)]
        return Job(layer, name, watched, **more)

    def _programs(self, context, layer, suite, needs=(), sanitized=None):
        sanitized = self.sanitized if sanitized is None else sanitized
        programs = self.context.programs(suite)
        # A build that is not made yet has the same ones, elsewhere.
        programs = [(name, [word.replace(str(self.context.build), str(context.build)) for word in command])
                    for name, command in programs]
        if not programs:
            return []

        def work(env):
            return [case for name, command in programs for case in context.tap(layer, name, command, env=env)]

        # One after the other: they are short.
        return [self._job(context, layer, f"{layer}-{suite}-programs", work, sanitized, priority=60, needs=needs)]

    def _tests(self, context, layer, folder, files=None, mark="", needs=(), sanitized=None):
        """The tests of a folder: all, those of some files, or those with a mark."""
        sanitized = self.sanitized if sanitized is None else sanitized
        name = layer if layer == folder else f"{layer}-{folder}"
        tests, said = self._collect(folder, mark)
        said = [dataclasses.replace(case) for case in said]  # each layer has its own
        if files:
            tests = [test for test in tests if pathlib.Path(test["file"]).name in files]
            said = [case for case in said if case.outcome == "failed"]
        made = [self._job(context, layer, part, lambda env, part=part, chosen=chosen: context.pytest(part, chosen, env),
                          sanitized, alone=alone, needs=needs,
                          priority=PRIORITY.get(pathlib.Path(chosen[0]["file"]).stem, len(chosen) * TEST_S.get(folder, 1)))
                for part, chosen, alone in self._parts(name, tests)]
        return made + [Job(layer, f"{name}-list", lambda: said)] if said else made

    def _collect(self, folder, mark):
        """Once, since several layers may have tests of one folder. An emulated machine takes a minute to read all files of one."""
        with self.folder_locks[folder]:
            if (folder, mark) not in self.collected:
                files = [path for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
                         if f"pytest.mark.{mark}" in path.read_text(encoding="utf-8") or not mark]
                self.collected[folder, mark] = (
                    self.context.collect(f"{folder}-{mark}" if mark else folder, files, mark or self._marks()) if files else ([], []))
            return self.collected[folder, mark]

    def _parts(self, name, tests):
        """(name, tests, alone) of each job."""
        if not self.by_file:
            return [(name, tests, False)] if tests else []
        files = {}
        for test in tests:
            files.setdefault((pathlib.Path(test["file"]).stem, "alone" in test["marks"]), []).append(test)
        parts = []
        for (stem, alone), chosen in files.items():
            shares = 1 if alone else max(test["marks"].get("split", [1])[0] for test in chosen)
            for i in range(shares):
                share = chosen[len(chosen) * i // shares:len(chosen) * (i + 1) // shares]
                label = f"{name}-{stem}" + ("-alone" if alone else "") + (f"-{i + 1}" if shares > 1 else "")
                parts.append((label, share, alone))
        return [part for part in parts if part[1]]

    # Other builds, each made once, before what needs it.

    def _build(self, name, command):
        """The job that makes it. It says nothing unless it failed."""
        def work():
            status, output = self.context.run(f"{name}-build", command)
            return [Case(f"{name} build", "failed", tail(output))] if status != 0 else []

        with self.builds_lock:
            if name not in self.builds:
                self.builds[name] = Job("build", f"{name}-build", work, priority=PRIORITY[f"{name}-build"])
            return (self.builds[name],)

    def _faults_build(self):
        """The cupel that fails on request, for the crash tests here and in the virtual machines, which
        have no compiler."""
        return () if IN_GUEST else self._build("faults", ["make", "--no-print-directory", "faults", f"BUILD={self.context.build}"])

    def _asan_build(self):
        return self._build("asan", ["make", "--no-print-directory", "sanitized", f"BUILD={self.context.build}"])

    # The layers that are not plain.

    def _crash(self, layer):
        return self._plain(layer, needs=self._faults_build())

    def _e2e(self, layer):
        """A few have a job die at a named phase."""
        return self._plain(layer, needs=self._faults_build())

    def _load(self, layer):
        """Whether the host is as it was before can only be seen where nothing else happens."""
        jobs = self._plain(layer)
        for job in jobs:
            job.alone = True
        return jobs

    def _systemd(self, layer):
        """What is meant for a machine whose init is systemd, whichever folder it is in."""
        return self._programs(self.context, layer, layer) + [
            job for folder in ("kernel", "escape", "crash", "e2e")
            for job in self._tests(self.context, layer, folder, mark="systemd")]

    def _old(self, layer):
        """What is meant for a kernel that is too old."""
        return self._tests(self.context, layer, "hosts", mark="old")

    def _engines(self, layer):
        """Docker and Podman on control groups of version 2."""
        return self._tests(self.context, layer, "e2e", mark="also_in_vm")

    def _smoke(self, layer):
        return self._tests(self.context, layer, "e2e", SMOKE)

    def _asan(self, layer):
        """With the sanitizer build: what is written in C, what tries to get out, and some of the command line."""
        if not shutil.which("clang"):
            return [Job(layer, layer, lambda: [Case("build", "skipped", "asan: clang is not installed")])]
        needs = self._asan_build()
        build = Context(self.context.build / "asan", self.context.results / "asan", self.context.running)
        jobs = [self._programs(build, layer, suite, needs, True) for suite in ("unit", "kernel")]
        jobs += [self._tests(build, layer, "escape", needs=needs, sanitized=True)]
        jobs += [self._tests(build, layer, "e2e", SMOKE, needs=needs, sanitized=True)]
        return [job for some in jobs for job in some]

    def _fuzz(self, layer):
        """The short run of each target: the corpus, then a fixed number of inputs."""
        if not shutil.which("clang"):
            return [Job(layer, layer, lambda: [Case("build", "skipped", "fuzz: clang is not installed")])]
        needs = self._asan_build()
        program = [ROOT / "tests/fuzz/run", "--build", self.context.build, "--built"]
        names = sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests/fuzz").glob("fuzz_*.c"))
        return [Job(layer, f"fuzz-{name}", lambda name=name: self.context.tap(layer, name, [*program, name], LAYER_LIMIT_S),
                    priority=10, needs=needs) for name in names]

    def _vm(self, layer):
        """The suite boots a guest for each kernel, in which this driver runs again and leaves its summaries."""
        def work():
            results = self.context.results / "vm"
            status, output = self.context.run(layer, [ROOT / "tests/vm/suite", self.context.build, results], 2 * LAYER_LIMIT_S)
            if status == 77:
                return [Case("suite", "skipped", tail(output, 1))]
            cases = [case for summary in sorted(results.glob("*/summary.json"))
                     for case in summary_cases(summary, f"{summary.parent.name}: ")]
            if status != 0:
                cases.append(Case("suite", "failed", f"exit status {status}\n{tail(output)}"))
            return cases
        return [Job(layer, layer, work, priority=PRIORITY["vm"], needs=self._faults_build())]

    def _lint(self, layer):
        def work(step):
            start = time.monotonic()
            words = ["-c"] if self.first_tier and step == "tidy" else []
            status, output = self.context.run(f"{layer}-{step}", [ROOT / "tools/lint", "-b", self.context.build, "-j", LINT_JOBS, *words, step])
            return [Case(step, "passed" if status == 0 else "failed", "" if status == 0 else tail(output), time.monotonic() - start)]
        return [Job(layer, f"lint-{step}", lambda step=step: work(step), priority=PRIORITY.get(step, 10)) for step in LINT_STEPS]
