"""What is asked of Jupyter: a client that shows output as it comes and keeps it within bounds, and the choice of the kernel."""

from __future__ import annotations

import os
import sys
from typing import Any

from cupel_book import Failure, log

KEPT_MAX = 64 << 20  # characters of output in the notebook; the log has all, up to its own limit
OUTPUTS_MAX = 5000  # of one cell


def make_client(book: Any, directory: str, kernel: str) -> Any:
    from nbclient import NotebookClient
    from nbformat.v4 import new_output
    from traitlets.config import Config

    class Client(NotebookClient):
        """Shows output as it comes, and keeps it within bounds."""

        kept = 0  # characters, of all cells
        left_out = 0  # outputs, of this cell

        def output(self, outs: list[Any], msg: dict[str, Any], display_id: str, cell_index: int) -> Any:
            kind, content = msg["msg_type"], msg["content"]
            if kind == "stream":
                text = content.get("text", "")
                print(text, end="", flush=True, file=sys.stderr if content.get("name") == "stderr" else sys.stdout)
                return self.add_text(outs, content.get("name", "stdout"), text)
            if kind == "execute_result":
                print(content.get("data", {}).get("text/plain", ""), flush=True)
            if kind == "error":
                for key, most in (("ename", 200), ("evalue", 100_000)):
                    content[key] = str(content.get(key, ""))[:most]
                content["traceback"] = [str(line)[:100_000] for line in content.get("traceback", [])[:1000]]
            elif not self.has_room(outs, sum(len(str(part)) for part in content.get("data", {}).values())):
                return None
            return super().output(outs, msg, display_id, cell_index)

        def has_room(self, outs: list[Any], length: int) -> bool:
            fits = len(outs) < OUTPUTS_MAX and self.kept + length <= KEPT_MAX
            self.kept += length if fits else 0
            self.left_out += not fits
            return fits

        def add_text(self, outs: list[Any], name: str, text: str) -> Any:
            if self.clear_before_next_output:
                outs[:], self.clear_before_next_output = [], False
            joins = outs and outs[-1].output_type == "stream" and outs[-1].name == name
            if not self.has_room(outs[:-1] if joins else outs, len(text)):
                return None
            if joins:
                outs[-1].text += text
            else:
                outs.append(new_output("stream", name=name, text=text))
            return outs[-1]

    # Sockets with names instead of ports: neither a network nor luck is needed. Their paths must be short.
    manager = {"transport": "ipc", "ip": f"{directory}/s", "connection_file": f"{directory}/kernel.json"}
    return Client(book, kernel_name=kernel, iopub_timeout=120, timeout=None, config=Config({"KernelManager": manager}))


def choose_kernel(book: Any) -> tuple[str, str]:
    """Name and language. Kernels of Python have any name where they were made, and here the runtime's own."""
    from jupyter_client.kernelspec import KernelSpecManager
    asked = book.metadata.get("kernelspec", {})
    name, said = str(asked.get("name") or "python3"), book.metadata.get("language_info", {})
    language = str(asked.get("language") or (said.get("name") if isinstance(said, dict) else "") or "").lower()
    known = KernelSpecManager().get_all_specs()
    if name in known:
        return name, str(known[name]["spec"].get("language") or language or "python").lower()
    if (language == "python" or (not language and name.startswith("python"))) and "python3" in known:
        log(f"notebook: there is no kernel '{name}' here; the runtime's own Python runs it")
        return "python3", "python"
    raise Failure(f"the notebook wants the kernel '{name}', which the runtime '{os.environ.get('CUPEL_RUNTIME', '')}' does not have (it has "
                  f"{', '.join(sorted(known)) or 'none'}); install it there, or choose another runtime with -r")


def check_packages() -> None:
    from importlib.util import find_spec
    missing = [name for name in ("nbformat", "nbclient", "jupyter_client", "ipykernel") if not find_spec(name)]
    if missing:
        raise Failure(f"the runtime '{os.environ.get('CUPEL_RUNTIME', '')}' can't run notebooks: its Python ({sys.executable}) has no "
                      f"{', '.join(missing)}; install nbclient, ipykernel and nbconvert there (Debian: apt-get install python3-nbclient "
                      "python3-ipykernel python3-nbconvert), or choose the runtime with -r notebook")
