"""The names by which a platform runs its analyses: change the import, and they run in a box.

    from cupel.platform import isolated_run
    result = isolated_run(["python3", "analysis.py"], cwd=place, timeout_seconds=600, memory_limit_mb=2048)

Each function takes the keywords of `Options` and has a twin for asyncio, NAME_async; cancelling its task cancels the
run. How the analysis ended, whatever it was, is a RuntimeResult; so is a cupel that is missing or refuses (125). Only
arguments that are wrong in themselves raise ValueError or TypeError.
"""

from .calls import (isolated_run, isolated_run_async, run_notebook_isolated, run_notebook_isolated_async,
                    run_post_process_isolated, run_post_process_isolated_async, run_python_script,
                    run_python_script_async, run_tool_isolated, run_tool_isolated_async)
from .directory import cleanup_analysis_temp_dir, create_analysis_temp_dir
from .groups import CgroupManager
from .job import Options
from .limits import RESOURCE_LIMITS
from .result import Note, RuntimeResult

__all__ = ["CgroupManager", "Note", "Options", "RESOURCE_LIMITS", "RuntimeResult", "cleanup_analysis_temp_dir",
           "create_analysis_temp_dir", "isolated_run", "isolated_run_async", "run_notebook_isolated",
           "run_notebook_isolated_async", "run_post_process_isolated", "run_post_process_isolated_async",
           "run_python_script", "run_python_script_async", "run_tool_isolated", "run_tool_isolated_async"]
