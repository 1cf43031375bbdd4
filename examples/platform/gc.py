"""The share of G and C in each sequence of data/sequences.fa, printed and written to out/gc.csv."""

import csv

with open("data/sequences.fa", encoding="ascii") as file:
    records = [record.splitlines() for record in file.read().split(">")[1:]]
rows = []
for heading, *lines in records:
    sequence = "".join(lines)
    rows.append((heading, len(sequence), round((sequence.count("G") + sequence.count("C")) / len(sequence), 4)))
    print(f"{heading}: {rows[-1][1]} bases, GC {rows[-1][2]:.1%}")
with open("out/gc.csv", "w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([("sequence", "bases", "gc"), *rows])
