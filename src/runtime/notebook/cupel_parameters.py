"""Parameters become a cell: by papermill's rules, as literals of the notebook's language."""

from __future__ import annotations

import ast
import contextlib
import json
import keyword
import re
from typing import Any

from cupel_book import Failure, log, tags


def literal(value: Any, language: str) -> str:
    if language == "python":
        return repr(value)
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"list({', '.join(literal(one, language) for one in value)})"
    if isinstance(value, dict):
        return f"list({', '.join(f'{json.dumps(name, ensure_ascii=False)} = {literal(one, language)}' for name, one in value.items())})"
    return repr(value)


def assigned(source: str, language: str) -> set[str]:
    if language != "python":
        return set(re.findall(r"^\s*([A-Za-z_.][\w.]*)\s*(?:<-|=)", source, re.MULTILINE))
    with contextlib.suppress(SyntaxError, ValueError):
        return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return set()


def inject(book: Any, parameters: dict[str, Any], language: str) -> None:
    """By papermill's rules: in place of the cell that was injected before, or behind the one with the defaults, or first."""
    from nbformat.v4 import new_code_cell
    if not parameters:
        return
    if language not in ("python", "r"):
        raise Failure(f"parameters can be given to notebooks in Python and R, not in {language}")
    wrong = [name for name in parameters if language == "python" and keyword.iskeyword(name)]
    if wrong:
        raise Failure(f"'{wrong[0]}' is a word of Python and can't be a parameter's name")
    lines = [f"{name} {'=' if language == 'python' else '<-'} {literal(value, language)}" for name, value in parameters.items()]
    cell = new_code_cell("# Parameters\n" + "\n".join(lines), metadata={"tags": ["injected-parameters"]})
    if book.nbformat_minor < 5:
        cell.pop("id", None)
    places = {tag: at for at, one in reversed(list(enumerate(book.cells))) if one.cell_type == "code" for tag in tags(one)}
    defaults, before = places.get("parameters"), places.get("injected-parameters")
    if defaults is None:
        log("notebook: no cell is tagged 'parameters', so nothing says which parameters it has")
    else:
        known = assigned(book.cells[defaults].source, language)
        for name in sorted(set(parameters) - known):
            log(f"notebook: the cell tagged 'parameters' has no '{name}'; it is set all the same")
    if before is not None:
        book.cells[before] = cell
    else:
        book.cells.insert(0 if defaults is None else defaults + 1, cell)
