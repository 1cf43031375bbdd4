"""What is made or fetched only for tests and takes long: kept outside the tree, by a key of all that it is made of, and made on a miss.

    folder = cache.made("axe", "axe-core@4.10", lambda place: fetch_into(place))

The place is $XDG_CACHE_HOME/cupel-tests (~/.cache/cupel-tests), and can be deleted at any time.
"""

import hashlib
import os
import pathlib
import shutil
import tempfile


def place():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cupel-tests"


def made(name, key, make):
    """The folder that make(FOLDER) has filled, now or at another time. What it raises is raised, and leaves nothing."""
    folder = place() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            make(fresh)
            fresh.chmod(0o755)
            fresh.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another was quicker
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder
