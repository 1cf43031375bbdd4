"""A platform runs an analysis and takes its result. before.py and after.py differ by one import."""

import pathlib
import shutil
import sys

from plain_runtime import cleanup_analysis_temp_dir, create_analysis_temp_dir, isolated_run

HERE = pathlib.Path(__file__).resolve().parent


def main():
    place = create_analysis_temp_dir("insulin")
    try:
        shutil.copy(HERE / "gc.py", place)
        shutil.copy(HERE / "data/sequences.fa", place / "data")
        result = isolated_run([sys.executable, str(place / "gc.py")], cwd=place, timeout_seconds=60)
        print(result.stdout, end="")
        if result.returncode != 0:
            sys.exit(f"{result.stderr}{result.completion_notes}")
        print((place / "out/gc.csv").read_text(encoding="utf-8"), end="")
    finally:
        cleanup_analysis_temp_dir("insulin")


if __name__ == "__main__":
    main()
