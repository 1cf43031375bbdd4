"""Makes processes until it is refused one: ends as `pids`. Try: cupel run --pids 32 examples/forkbomb.py"""

import os
import time

made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)  # idle: they end with the box
            os._exit(0)
    except BlockingIOError as refused:
        raise SystemExit(f"refused after {made} processes: {refused.strerror}")
    made += 1
