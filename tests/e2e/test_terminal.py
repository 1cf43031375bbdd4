"""Text that an analysis or another user chose reaches a terminal as text: control sequences are shown, never obeyed."""

import json
import subprocess

import pytest

import cupel as lib
import terminals

# A title, a link and a copy to the clipboard (OSC); a cleared screen and a request for an answer (CSI); the same introducers in
# their 8-bit form, as UTF-8 and as a single byte; a terminal reset; the alternate character set; a bell; DEL.
ATTACK = (
    b"\033]0;pwned\007\033]8;;http://evil\033\\x\033]52;c;cm0=\007\033[2J\033[6n"
    b"\xc2\x9b2J\xc2\x9d0;t\xc2\x9c\x9b6n\033c\016\017\a\x7f\xff"
)
SHOWN = (
    b"\\x1b]0;pwned\\x07\\x1b]8;;http://evil\\x1b\\x\\x1b]52;c;cm0=\\x07\\x1b[2J\\x1b[6n"
    b"\\u009b2J\\u009d0;t\\u009c\\x9b6n\\x1bc\\x0e\\x0f\\x07\\x7f\\xff"
)
PLAIN = "tab\tand return\rback\b, snowman ☃, e with acute é\n".encode()
# Names have no control characters: those are refused. Marks that show words in another order are allowed in them.
NAME = "a\u202ename\u202c"
WORD = "\033]0;word\007\033[2J\u009b2J"
CODE = f"""
import sys
for stream in (sys.stdout.buffer, sys.stderr.buffer):
    stream.write({ATTACK!r} + b" " + {PLAIN!r})
    stream.flush()
"""


def dangerous(seen):
    """What is left of the attack in what a terminal received; cupel's own sequences have none of it."""
    return [part for part in (b"\033]", b"\033[2J", b"\033[6n", b"\xc2\x9b", b"\x9b6n", b"\033c", b"\016", b"\a", b"\x7f", b"\xe2\x80\xae")
            if part in seen]


@pytest.fixture
def spoken(cupel):
    result = cupel.run("--name", NAME, "--quest", NAME, "--", "python3", "-c", CODE)
    assert result.status == 0, result.stderr
    return cupel, result


@pytest.mark.parametrize("words", [["run", "-q"], ["run"]], ids=" ".join)
def test_what_a_run_writes_is_shown_on_a_terminal(cupel, words):
    status, seen = terminals.seen_on(cupel, *words, "--", "python3", "-c", CODE)
    assert status == 0, seen
    assert seen.count(SHOWN + b" " + PLAIN) == 2, seen
    assert dangerous(seen) == []


def test_raw_passes_every_byte_to_the_terminal(cupel):
    status, seen = terminals.seen_on(cupel, "run", "-q", "--raw", "--", "python3", "-c", CODE)
    assert status == 0 and seen == (ATTACK + b" " + PLAIN) * 2


def test_a_pipe_gets_every_byte(spoken):
    cupel, result = spoken
    assert result.log() == result.log("stderr.log") == ATTACK + b" " + PLAIN
    for words in (["logs", result.run_dir.name], ["logs", "--raw", result.run_dir.name]):
        with cupel.popen(cupel.binary, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.communicate(timeout=60) == (ATTACK + b" " + PLAIN,) * 2


@pytest.mark.parametrize("words", [["logs"], ["logs", "-f"]], ids=" ".join)
def test_logs_are_shown_on_a_terminal(spoken, words):
    cupel, result = spoken
    status, seen = terminals.seen_on(cupel, *words, result.run_dir.name)
    assert status == 0 and seen == (SHOWN + b" " + PLAIN) * 2
    status, seen = terminals.seen_on(cupel, *words, "--raw", result.run_dir.name)
    assert status == 0 and seen == (ATTACK + b" " + PLAIN) * 2


def test_a_sequence_in_pieces_is_shown(cupel):
    """Each piece is a write of its own, and cupel is told of each: a character must not slip through between two reads."""
    code = "import sys, time\nfor byte in " + repr(ATTACK) + ":\n sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.02)"
    status, seen = terminals.seen_on(cupel, "run", "-q", "--", "python3", "-c", code)
    assert status == 0 and seen == SHOWN


def test_a_half_character_at_the_end_is_shown(cupel):
    status, seen = terminals.seen_on(cupel, "run", "-q", "--", "printf", r"a\342\230")
    assert status == 0 and seen == b"a\\xe2\\x98"


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["show"], ["show", "--json"], ["outputs"], ["plan"]], ids=" ".join)
def test_names_are_shown_on_a_terminal(spoken, words):
    cupel, result = spoken
    operands = {"list": [], "plan": ["--name", NAME, "--", WORD]}.get(words[0], [result.run_dir.name])
    status, seen = terminals.seen_on(cupel, *words, *operands)
    assert status == 0 and seen and dangerous(seen) == [], seen


def test_messages_are_shown_on_a_terminal(cupel):
    for words in (["run", WORD], ["show", WORD], [WORD], ["run", f"--{WORD}"], ["run", "-r", WORD, "--", "true"], ["run", "--", WORD]):
        status, seen = terminals.seen_on(cupel, *words)
        assert status in (2, 125, 127) and b"0;word" in seen and dangerous(seen) == [], seen


@pytest.mark.parametrize("words", [["ps"], ["top"]], ids=" ".join)
def test_active_runs_are_shown_on_a_terminal(cupel, words):
    process, run_id = cupel.start("--name", NAME, "--quest", NAME, "--", "sh", "-c", "echo here; sleep 1000", stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"here\n"
        status, seen = terminals.seen_on(cupel, *words, keys={b"quit": b"q"})
        process.terminate()
        process.wait(60)
    assert status == 0 and run_id.encode() in seen and b"name" in seen and dangerous(seen) == [], seen


def test_an_output_is_shown_on_a_terminal(cupel):
    code = f"open('out/x', 'wb').write({ATTACK!r} + b' ' + {PLAIN!r})"
    result = cupel.run("--", "python3", "-c", code)
    run_id = result.run_dir.name
    assert terminals.seen_on(cupel, "outputs", run_id, "out/x") == (0, SHOWN + b" " + PLAIN)
    assert terminals.seen_on(cupel, "outputs", "--raw", run_id, "out/x") == (0, ATTACK + b" " + PLAIN)
    with cupel.popen(cupel.binary, "outputs", run_id, "out/x", stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=60)[0] == ATTACK + b" " + PLAIN


def test_a_rerun_is_shown_on_a_terminal(spoken):
    cupel, result = spoken
    status, seen = terminals.seen_on(cupel, "rerun", result.run_dir.name)
    assert status == 0 and seen.count(SHOWN + b" " + PLAIN) == 2 and dangerous(seen) == [], seen
    status, seen = terminals.seen_on(cupel, "rerun", "--raw", result.run_dir.name)
    assert status == 0 and seen.count(ATTACK + b" " + PLAIN) == 2, seen
