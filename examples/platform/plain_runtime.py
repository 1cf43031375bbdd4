"""What a platform may have had: an analysis is a child of it, with all that it has itself."""

import collections
import pathlib
import shutil
import subprocess
import time

RuntimeResult = collections.namedtuple("RuntimeResult", "returncode stdout stderr duration completion_notes")


def create_analysis_temp_dir(analysis_id):
    place = pathlib.Path(f"/tmp/scidex-analysis-{analysis_id}")
    for name in ("data", "out"):
        (place / name).mkdir(parents=True, exist_ok=True)
    return place


def cleanup_analysis_temp_dir(analysis_id):
    shutil.rmtree(f"/tmp/scidex-analysis-{analysis_id}", ignore_errors=True)


def isolated_run(cmd, cwd=None, env=None, timeout_seconds=None):
    began = time.monotonic()
    try:
        done = subprocess.run(cmd, cwd=cwd, env=env, timeout=timeout_seconds, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return RuntimeResult(-1, "", "", time.monotonic() - began, "timed out")
    return RuntimeResult(done.returncode, done.stdout, done.stderr, time.monotonic() - began, "")
