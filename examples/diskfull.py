"""Writes until there is no room: ends as `disk`. Try: cupel run --disk 32M examples/diskfull.py"""

with open("out/ballast", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
        file.flush()
