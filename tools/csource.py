"""What the checks of the C sources share: finding them, and reading them without being fooled by
comments and strings."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

_TOKEN = re.compile(
    r"""//(?:[^\n\\]|\\.)*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL)


def files(suffixes=(".c", ".h"), root=SRC):
    return sorted(path for path in root.rglob("*") if path.suffix in suffixes)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    """The text with comments blanked; offsets and lines stay."""
    return _TOKEN.sub(lambda m: _blank(m) if m.group()[0] == "/" else m.group(), text)


def code(text):
    """The text with comments and the insides of literals blanked; offsets and lines stay."""
    return _TOKEN.sub(_blank, text)


def without_directives(text):
    """The same with preprocessor lines, continued ones too, blanked."""
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", _blank, text, flags=re.MULTILINE)
