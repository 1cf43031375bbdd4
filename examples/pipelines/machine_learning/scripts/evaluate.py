"""The chosen model on the part that nothing was learned from or chosen by."""

import json
import pickle

import numpy
from sklearn.metrics import confusion_matrix, roc_auc_score

with open("data/model.pkl", "rb") as file:
    model = pickle.load(file)
test = numpy.load("data/test.npz")
chances = model.predict_proba(test["x"])
said = model.classes_[chances.argmax(axis=1)]
result = {"images": len(said), "hidden": model.hidden_layer_sizes[0], "accuracy": round(float((said == test["y"]).mean()), 6),
          "auc": round(roc_auc_score(test["y"], chances, multi_class="ovr"), 6),
          "confusion": confusion_matrix(test["y"], said).tolist()}
with open("out/result.json", "w", encoding="utf-8") as out:
    json.dump(result, out, indent=1)
print(f"accuracy {result['accuracy']:.4f}, area under the curve {result['auc']:.4f}")
