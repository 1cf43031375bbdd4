"""How each model learned, and what the chosen one takes for what."""

import json
import pathlib

import matplotlib.pyplot as plt
import numpy

result = json.loads(pathlib.Path("data/result.json").read_text(encoding="utf-8"))
histories = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path("data/train").glob("*/out/history.json")]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for history in sorted(histories, key=lambda one: one["hidden"]):
    epochs = [row["epoch"] for row in history["epochs"]]
    line, = left.plot(epochs, [row["validation_loss"] for row in history["epochs"]], label=f"{history['hidden']} hidden units")
    left.plot(epochs, [row["train_loss"] for row in history["epochs"]], ":", color=line.get_color())
left.set(xlabel="epoch", ylabel="loss", yscale="log", title="validation, and training (dotted)")
left.legend()
confusion = numpy.array(result["confusion"])
right.imshow(confusion, cmap="Blues")
for (row, column), count in numpy.ndenumerate(confusion):
    if count:
        right.text(column, row, count, ha="center", va="center", fontsize="small",
                   color="white" if count > confusion.max() / 2 else "black")
right.set(xticks=range(10), yticks=range(10), xlabel="said", ylabel="is",
          title=f"test: accuracy {result['accuracy']:.4f}, {result['hidden']} hidden units")
figure.savefig("out/figure.png", dpi=120)
