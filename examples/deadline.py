"""Never comes to an end: ends as `deadline`. Try: cupel run --time 2s examples/deadline.py"""

import time

while True:
    print("still at it", flush=True)
    time.sleep(0.5)
