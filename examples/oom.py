"""Keeps more than it may: ends as `oom`. Try: cupel run --memory 64M examples/oom.py"""

kept = []
while True:
    kept.append(bytearray(8 << 20))
    print(f"{8 * len(kept)} MiB", flush=True)
