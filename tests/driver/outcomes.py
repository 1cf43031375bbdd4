"""What tests said: cases, read from TAP, from pytest's report or from another run of the driver."""

import dataclasses
import json
import pathlib
import re
import subprocess
import xml.etree.ElementTree

TAP_LINE = re.compile(r"(ok|not ok) \d+ (?:- (.*)|# SKIP (.*))")


@dataclasses.dataclass
class Case:
    """One test: passed, failed or skipped, with what there is to say about it."""
    name: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0  # 0: not measured by itself
    timed: str = ""  # what took that long, where it is not this test alone
    layer: str = ""


def tail(text, lines=40):
    return "\n".join(text.splitlines()[-lines:])


def tap_cases(program, output):
    """The cases of a C program's output (cmocka speaks TAP), and how many its plans promised."""
    cases, said, planned = [], [], 0
    for line in output.splitlines():
        if re.fullmatch(r"1\.\.\d+", line):
            planned += int(line[3:])
            continue
        match = TAP_LINE.fullmatch(line)
        if match is None:
            line = line.removeprefix("# ")
            said.append(line)
            # What follows a `not ok` explains it.
            if cases and cases[-1].outcome == "failed" and not line.startswith("skip "):
                cases[-1].detail += line + "\n"
            continue
        verdict, name, skipped = match.groups()
        if skipped is not None:
            reason = said[-1].removeprefix("skip ") if said else "no reason given"
            cases.append(Case(f"{program}: {skipped}", "skipped", reason))
        else:
            outcome = "passed" if verdict == "ok" else "failed"
            cases.append(Case(f"{program}: {name}", outcome))
        said = []
    return cases, planned


def junit_cases(path):
    for test in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{test.get('classname')}::{test.get('name')}"
        bad = test.find("failure") if test.find("failure") is not None else test.find("error")
        skipped = test.find("skipped")
        seconds = float(test.get("time") or 0)
        if bad is not None:
            yield Case(name, "failed", bad.text or bad.get("message") or "", seconds)
        elif skipped is not None:
            yield Case(name, "skipped", skipped.get("message") or "no reason given", seconds)
        else:
            yield Case(name, "passed", "", seconds)


def summary_cases(path, prefix=""):
    """What another run of the driver left."""
    for case in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["cases"]:
        yield Case(f"{prefix}{case['layer']}: {case['name']}", case["outcome"], case["detail"],
                   case.get("seconds", 0.0), case.get("timed", ""))


def enforce(cases, required):
    """A skip for something that must be there is a failure."""
    for case in cases:
        missing = re.match(r"(?:Skipped: )?([\w-]+):", case.detail)
        if case.outcome == "skipped" and missing and missing[1] in required:
            case.outcome = "failed"
            case.detail = f"skipped, but {missing[1]} is required: {case.detail}"


def count(cases, outcome):
    return sum(case.outcome == outcome for case in cases)


def totals(cases):
    text = f"{count(cases, 'passed')} passed, {count(cases, 'failed')} failed"
    skipped = count(cases, "skipped")
    return text + (f", {skipped} skipped" if skipped else "")


def summary_lines(detail):
    """What pytest says went wrong, without where: a log that is cut off still tells it."""
    said = [line.strip()[:400] for line in detail.splitlines() if re.match(r"E\s", line)]
    return said[:3]


def with_source_lines(text, program):
    """Adds the source line to each address. The program in the box has no tool that could look it up."""
    def line(match):
        told = subprocess.run(["addr2line", "-f", "-i", "-p", "-e", program, match[1]],
                              capture_output=True, text=True, check=False)
        return f"{match[0]} {told.stdout.strip()}"
    return re.sub(r"\(\S*/cupel\+(0x[0-9a-f]+)\)", line, text)
