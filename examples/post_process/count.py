"""Counts the codons of the A chain of human insulin (INS, NM_000207), and writes them as a CSV."""

import collections
import csv

A_CHAIN = "GGCATTGTGGAACAATGCTGTACCAGCATCTGCTCCCTCTACCAGCTGGAGAACTACTGCAAC"

codons = [A_CHAIN[at:at + 3] for at in range(0, len(A_CHAIN), 3)]
with open("out/results.csv", "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["codon", "count"])
    writer.writerows(sorted(collections.Counter(codons).items()))
