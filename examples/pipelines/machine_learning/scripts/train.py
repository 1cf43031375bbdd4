"""A network with one hidden layer, trained an epoch at a time.

After each epoch all that is needed to go on is put into $CUPEL_CHECKPOINT_DIR, whole or not at all; whoever is started again goes on
from there, to the same end, since the state of the random numbers is part of it.
"""

import json
import os
import pathlib
import pickle

import numpy
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

DIGITS = numpy.arange(10)


def load(place, asked):
    """The model and its history so far."""
    if place and (place / "epoch.pkl").exists():
        with open(place / "epoch.pkl", "rb") as file:
            return pickle.load(file)
    model = MLPClassifier((asked["hidden"],), learning_rate_init=asked["rate"], batch_size=64, random_state=asked["seed"])
    return model, []


def save(place, state):
    if not place:
        return
    with open(place / "epoch.new", "wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(place / "epoch.new", place / "epoch.pkl")


def main():
    asked = json.loads(os.environ["CUPEL_PARAMETERS"])
    place = os.environ.get("CUPEL_CHECKPOINT_DIR")
    place = pathlib.Path(place) if place else None
    train, valid = numpy.load("data/split/out/train.npz"), numpy.load("data/split/out/validation.npz")
    model, history = load(place, asked)
    print(f"{len(history)} epochs were done before")
    while len(history) < asked["epochs"]:
        model.partial_fit(train["x"], train["y"], classes=DIGITS)
        history.append({"epoch": len(history) + 1, "train_loss": log_loss(train["y"], model.predict_proba(train["x"])),
                        "validation_loss": log_loss(valid["y"], model.predict_proba(valid["x"])),
                        "validation_accuracy": model.score(valid["x"], valid["y"])})
        save(place, (model, history))
        print(f"epoch {len(history)}: loss {history[-1]['validation_loss']:.4f}")
    with open("out/model.pkl", "wb") as file:
        pickle.dump(model, file)
    with open("out/history.json", "w", encoding="utf-8") as file:
        json.dump({"hidden": asked["hidden"], "epochs": history}, file, indent=1)
    print(f"validation: accuracy {history[-1]['validation_accuracy']:.4f}, loss {history[-1]['validation_loss']:.4f}")


if __name__ == "__main__":
    main()
