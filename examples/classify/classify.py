"""Is a breast tumour malignant? Two models on the 569 biopsies of Wolberg, Street and Mangasarian (Wisconsin, 1995)."""

import json

import matplotlib.pyplot as plt
import numpy
import pandas
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

x, y = load_breast_cancer(return_X_y=True, as_frame=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
models = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": RandomForestClassifier(200, random_state=0),
}
figure, axes = plt.subplots(figsize=(5, 5))
rows = []
for name, model in models.items():
    model.fit(x_train, y_train)
    chance = model.predict_proba(x_test)[:, 1]
    rows.append({"model": name, "auc": roc_auc_score(y_test, chance),
                 "accuracy": float(numpy.mean((chance > 0.5) == y_test))})
    RocCurveDisplay.from_predictions(y_test, chance, name=name, ax=axes)
results = pandas.DataFrame(rows)
results.to_csv("out/results.csv", index=False, float_format="%.6f")
figure.savefig("out/roc.png", dpi=120)
with open("out/summary.json", "w", encoding="utf-8") as out:
    json.dump({"samples": len(x), "features": x.shape[1], "models": rows}, out, indent=2)
print(results.to_string(index=False))
