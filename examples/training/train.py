"""Learns to read digits, and goes on where it was, however it was interrupted.

A network with one hidden layer on the 1797 digits of Alpaydin and Kaynak (UCI, 1998), plain numpy. After each epoch it
saves into $CUPEL_CHECKPOINT_DIR: the state under a temporary name, synced, renamed, and last of all the marker that
names it. A run that is killed at any moment loses the epoch it was in. At SIGUSR1, the warning before the deadline, it
finishes its epoch and ends with 85: saved, run me again. What it has learnt in the end is the same to the last bit.
"""

import signal

# First of all: until then the signal would end it.
WARNED = []
signal.signal(signal.SIGUSR1, lambda *_: WARNED.append(True))

import hashlib
import io
import json
import os
import pathlib
import sys
import time

import numpy

CHECKPOINTED = 85
PARAMETERS = {"epochs": 60, "hidden": 48, "rate": 0.05, "seed": 1, "pace": 0.0,
              **json.loads(os.environ.get("CUPEL_PARAMETERS", "{}"))}
PLACE = pathlib.Path(os.environ["CUPEL_CHECKPOINT_DIR"])
BATCH = 32


def write(name, content):
    """Whole, on the disk, and only then under its name."""
    with open(PLACE / ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(PLACE / ".new", PLACE / name)
    folder = os.open(PLACE, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def save(epoch, model):
    state = io.BytesIO()
    numpy.savez(state, **model)
    name = f"epoch-{epoch}.npz"
    write(name, state.getvalue())
    digest = hashlib.sha256(state.getvalue()).hexdigest()
    marker = {"epoch": epoch, "name": name, "sha256": digest}
    write("latest.json", json.dumps(marker).encode())
    for old in PLACE.glob("epoch-*.npz"):
        if old.name != name:
            old.unlink()


def load():
    """The state that the marker vouches for, or nothing."""
    try:
        marker = json.loads((PLACE / "latest.json").read_text(encoding="utf-8"))
        content = (PLACE / marker["name"]).read_bytes()
    except FileNotFoundError:
        return 0, None
    if hashlib.sha256(content).hexdigest() != marker["sha256"]:
        return 0, None
    with numpy.load(io.BytesIO(content)) as state:
        return marker["epoch"], dict(state)


def begin(rng, inputs, hidden, classes):
    return {"w1": rng.normal(0, inputs**-0.5, (inputs, hidden)), "b1": numpy.zeros(hidden),
            "w2": rng.normal(0, hidden**-0.5, (hidden, classes)), "b2": numpy.zeros(classes)}


def forward(model, x):
    hidden = numpy.maximum(x @ model["w1"] + model["b1"], 0)
    score = hidden @ model["w2"] + model["b2"]
    chance = numpy.exp(score - score.max(axis=1, keepdims=True))
    return hidden, chance / chance.sum(axis=1, keepdims=True)


def learn(model, x, y, order):
    loss = 0.0
    for start in range(0, len(order), BATCH):
        rows = order[start:start + BATCH]
        hidden, chance = forward(model, x[rows])
        loss -= float(numpy.log(chance[numpy.arange(len(rows)), y[rows]]).sum())
        error = chance
        error[numpy.arange(len(rows)), y[rows]] -= 1
        error /= len(rows)
        below = (error @ model["w2"].T) * (hidden > 0)
        for name, step in (("w2", hidden.T @ error), ("b2", error.sum(axis=0)),
                           ("w1", x[rows].T @ below), ("b1", below.sum(axis=0))):
            model[name] -= PARAMETERS["rate"] * step
    return loss / len(order)


def main():
    table = numpy.loadtxt("data/digits.csv.gz", delimiter=",")
    x, y = table[:, :-1] / 16, table[:, -1].astype(int)
    test = numpy.arange(len(x)) % 5 == 0
    epoch, model = load()
    print(f"begins after epoch {epoch}", flush=True)
    if model is None:
        model = begin(numpy.random.default_rng(PARAMETERS["seed"]), x.shape[1],
                      PARAMETERS["hidden"], 10)
    train_x, train_y = x[~test], y[~test]
    while epoch < PARAMETERS["epochs"]:
        if WARNED:
            print("warned: saved, and to be run again", flush=True)
            sys.exit(CHECKPOINTED)
        until = time.monotonic() + PARAMETERS["pace"]
        # Drawn from the number of the epoch, so that nothing of chance has to be saved.
        order = numpy.random.default_rng([PARAMETERS["seed"], epoch]).permutation(len(train_x))
        loss = learn(model, train_x, train_y, order)
        epoch += 1
        time.sleep(max(0.0, until - time.monotonic()))
        print(f"epoch {epoch} loss {loss:.6f}", flush=True)
        save(epoch, model)
    right = float(numpy.mean(forward(model, x[test])[1].argmax(axis=1) == y[test]))
    weights = numpy.concatenate([model[name].ravel() for name in sorted(model)])
    numpy.save("out/weights.npy", weights)
    with open("out/summary.json", "w", encoding="utf-8") as out:
        json.dump({"epochs": epoch, "accuracy": round(right, 6),
                   "weights_sha256": hashlib.sha256(weights.tobytes()).hexdigest()}, out, indent=2)
    print(f"accuracy {right:.4f}")


main()
