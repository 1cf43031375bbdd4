"""Of all that were trained, the one with the least loss on the part to choose by."""

import csv
import json
import pathlib
import shutil

tried = []
for place in pathlib.Path("data/train").glob("*/out"):
    history = json.loads((place / "history.json").read_text(encoding="utf-8"))
    tried.append({"hidden": history["hidden"], **history["epochs"][-1], "place": place})
tried.sort(key=lambda one: one["hidden"])
best = min(tried, key=lambda one: one["validation_loss"])
shutil.copyfile(best["place"] / "model.pkl", "out/model.pkl")
with open("out/candidates.csv", "w", encoding="utf-8", newline="") as file:
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["hidden", "validation_loss", "validation_accuracy", "chosen"])
    for one in tried:
        rows.writerow([one["hidden"], f"{one['validation_loss']:.6f}", f"{one['validation_accuracy']:.6f}", int(one is best)])
print(f"{best['hidden']} hidden units, of {', '.join(str(one['hidden']) for one in tried)}")
