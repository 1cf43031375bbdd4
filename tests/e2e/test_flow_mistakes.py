"""Mistakes in a pipeline, and pipelines that are too large, are refused before any step runs."""

import pytest

from flows import rooted  # noqa: F401  (fixtures)


@pytest.mark.parametrize("text, place, words", [
    ("steps:\n  a: {command: 'true', inputs: [{step: b}]}\n  b: {command: 'true', needs: [a]}\n",
     "2:3", ["a needs b, b needs a"]),
    ("steps:\n  a:\n    command: cat data/x > out/y\n", "3:14", ["data/x", "inputs"]),
    ("steps:\n  a: {command: 'true', outputs: [out/y]}\n  b:\n    command: 'true'\n"
     "    inputs: [{step: a, path: out/z}]\n", "5:14", ["makes no 'out/z'", "out/y"]),
    ("steps:\n  a:\n    runtime: nix\n    command: 'true'\n", "3:14", ["no runtime 'nix'"]),
    ("runtime: nix\nsteps:\n  a: {command: 'true'}\n", "1:10", ["step a: ", "no runtime 'nix'"]),
    ("steps:\n  aaa: {command: 'true'}\n  b: {command: 'true', needs: [aab]}\n", "3:32",
     ["no step 'aab'", "'aaa'"]),
    ("steps:\n  a:\n    command: echo {{x}}\n", "3:14", ["{{x}}"]),
    ("steps:\n  a:\n    command: 'true'\n    retry: 3\n", "4:5", ["retry", "retries"]),
    ("steps:\n  a: {command: 'true', retries: {oomm: 3}}\n", "2:34", ["oomm", "deadline"]),
    ("steps:\n  a: {command: 'true', inputs: [nofile]}\n", "2:33", ["nofile"]),
    ("steps:\n  a: {command: 'true', scatter: {x: []}}\n", "2:37", ["empty"]),
    ("steps:\n  a: {command: 'true', scatter: {x: [p, p]}}\n", "2:33", ["two shards"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {glob: '*.none'}}}\n", "2:44", ["no file matches"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {range: [1, 999999]}}}\n", "2:45", ["more than"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {of: b}}}\n  b: {command: 'true'}\n", "2:42",
     ["no shards"]),
    ("steps:\n  a/b: {command: 'true'}\n", "2:3", ["name of a step"]),
    ("steps: [a]\n", "1:8", ["map of steps"]),
    ("command: x\nsteps:\n  a: {command: 'true'}\n", "1:1", ["command"]),
    ("steps:\n  a: {command: 'true', limits: {memory: 3Q}}\n", "2:41", ["3Q"]),
    ("steps:\n  a: {command: 'true', cache: maybe}\n", "2:31", ["off, on"]),
    ("steps:\n  a: {command: 'true', parameters: [none]}\n", "2:37", ["no parameter 'none'"]),
    ("steps:\n  a: {command: 'true', scatter: {s: [p, q]}}\n"
     "  b:\n    inputs: [{step: a, path: out/x}]\n    command: cat data/x\n", "5:14",
     ["data/x", "data/a/SHARD/out/x"]),
    ("steps:\n  a: {command: 'true', parameters: none}\n", "2:36", ["map", "[NAME, ...]"]),
    ("steps:\n  a: {command: 'true', inputs: file}\n", "2:32", ["list", "[ENTRY, ...]"]),
    ("steps:\n\ta: {command: 'true'}\n", "2:1", ["spaces, not with tabs"]),
    ("steps:\n  a:\n    command: {{x}}\n", "3:15", ["begins with {{", "quotes"]),
    ("steps:\n  a:\n    command: 'true'\n    outputs: [out/{{x}}]\n", "4:19", ["{{", "quotes"]),
    ("steps:\n  a:\n  command: 'true'\n", "2:5", ["indented below its name"]),
])
def test_mistakes_are_found_before_anything_runs(rooted, text, place, words):
    err = rooted.refused(text)
    assert err.startswith(f"p.yaml:{place}: "), err
    assert all(word in err for word in words), err


def test_a_script_that_nothing_can_run_is_found_before_anything_runs(rooted):
    script = rooted.write("#!/bin/sh\necho hi > out/x\n", "script")
    text = "steps:\n  first: {command: 'true'}\n  a: {code: script}\n"
    err = rooted.refused(text)
    assert err.startswith("p.yaml:3:13: step a: ") and "chmod +x" in err, err
    script.chmod(0o755)
    rooted.write(text)
    assert set(rooted.states().values()) == {"ok"}


def test_options_that_are_a_steps_own(rooted):
    for option in (["-m", "1G"], ["-d", "/etc/hostname"], ["-e", "A=b"], ["--timings"]):
        assert "pipeline" in rooted.refused("steps:\n  a: {command: 'true'}\n", *option)


def test_names_of_inputs_of_every_shard(rooted):
    rooted.write("1\n", "in/s1")
    rooted.write("2\n", "in/s2")
    err = rooted.refused("""
steps:
  a: {command: "echo made > out/s2"}
  b: {scatter: {x: {glob: "in/*"}}, inputs: ["{{x}}", {step: a, path: out/s2}], command: "true"}
""")
    assert err.startswith("p.yaml:4:55: ") and "'s2' is taken" in err


@pytest.mark.parametrize("scatter", ["range: [1, 50000]", "of: s{before}"])
def test_too_many_shards_take_no_memory(rooted, scatter):
    rooted.write("steps:\n  s0: {command: 'true', scatter: {x: {range: [1, 50000]}}}\n" + "".join(
        f"  s{i}: {{command: 'true', scatter: {{x: {{{scatter.format(before=i - 1)}}}}}}}\n"
        for i in range(1, 50)), tag=False)
    # By a process between: what a child has used counts that of its parent before the exec.
    between = "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); print(r.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    status, out, err = rooted.call("plan", "p.yaml")
    assert status == 2 and "more than 50000 runs" in err
    _, out, _ = rooted.caller.call("/usr/bin/python3", "-c", between, rooted.caller.binary, "plan", "p.yaml", cwd=rooted.dir)
    status, kib = map(int, out.split())
    assert status == 2 and kib < 400 << 10, f"{kib} KiB"


def test_texts_of_many_shards_are_bounded(rooted):
    err = rooted.refused("steps:\n  a: {scatter: {x: {range: [1, 9999]}}, command: 'echo {{x}} "
                         + "y" * 100000 + "'}\n")
    assert err.startswith("p.yaml:2:3: ") and "256 MiB" in err
    assert rooted.call("plan", rooted.write("steps:\n  a: {scatter: {x: {range: [1, 99]}}, "
                                            "command: 'echo {{x}} " + "y" * 100000 + "'}\n",
                                            "few.yaml"))[0] == 0
