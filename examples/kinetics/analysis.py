"""Michaelis-Menten kinetics: v = Vmax * c / (Km + c), fitted to each state of the cells.

Reads data/velocity.csv; writes out/results.csv, out/summary.json and out/figure.svg."""

import argparse
import csv
import json
import os
import pathlib

import numpy as np

import figure

DATA = pathlib.Path(os.environ["CUPEL_DATA_DIR"])
OUT = pathlib.Path(os.environ["CUPEL_OUT_DIR"])


def read(path):
    """{state: (concentrations, velocities)}"""
    states = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            states.setdefault(row["state"], []).append(
                (float(row["concentration_ppm"]), float(row["velocity"])))
    return {state: np.array(points).T for state, points in states.items()}


def model(c, vmax, km):
    return vmax * c / (km + c)


def jacobian(c, vmax, km):
    return np.column_stack([c / (km + c), -vmax * c / (km + c) ** 2])


def start(c, v):
    """Lineweaver and Burk's straight line 1/v over 1/c: rough, but near enough to begin with."""
    slope, intercept = np.polyfit(1 / c, 1 / v, 1)
    return np.array([1 / intercept, slope / intercept])


def fit(c, v, guess):
    """Gauss-Newton, halving a step that makes the sum of squares worse."""
    p = guess
    rss = np.sum((v - model(c, *p)) ** 2)
    for _ in range(50):
        step = np.linalg.lstsq(jacobian(c, *p), v - model(c, *p), rcond=None)[0]
        for _ in range(30):
            new = p + step
            new_rss = np.sum((v - model(c, *new)) ** 2) if np.all(new > 0) else np.inf
            if new_rss <= rss:
                break
            step = step / 2
        else:
            return p
        done = np.all(np.abs(step) <= 1e-10 * p)
        p, rss = new, new_rss
        if done:
            break
    return p


def analyse(c, v, resamples, rng):
    p = fit(c, v, start(c, v))
    residuals = v - model(c, *p)
    variance = residuals @ residuals / (len(v) - 2)
    j = jacobian(c, *p)
    errors = np.sqrt(np.diag(variance * np.linalg.inv(j.T @ j)))
    # Residuals of a fit with two parameters are a little too small.
    wide = residuals * np.sqrt(len(v) / (len(v) - 2))
    again = np.array([fit(c, model(c, *p) + rng.choice(wide, len(v)), p)
                      for _ in range(resamples)])
    low, high = np.percentile(again, [2.5, 97.5], axis=0)
    return {"n": len(v), "residual_sd": np.sqrt(variance),
            "vmax": (p[0], errors[0], low[0], high[0]),
            "km": (p[1], errors[1], low[1], high[1])}


def write_results(path, results):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["state", "parameter", "estimate", "standard_error", "low_95", "high_95"])
        for state, result in results.items():
            for name in ("vmax", "km"):
                out.writerow([state, name, *(f"{value:.5g}" for value in result[name])])


def write_summary(path, results, seed, resamples):
    summary = {
        "model": "v = vmax * c / (km + c)", "seed": seed, "resamples": resamples,
        "states": {state: {"n": r["n"], "vmax": round(r["vmax"][0], 3),
                           "km": round(r["km"][0], 5), "residual_sd": round(r["residual_sd"], 3)}
                   for state, r in results.items()},
        "vmax_ratio": round(results["treated"]["vmax"][0] / results["untreated"]["vmax"][0], 4)}
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resamples", type=int, default=2000)
    args = parser.parse_args()
    seed = int(os.environ.get("ANALYSIS_SEED", "1"))
    rng = np.random.default_rng(seed)

    states = read(DATA / "velocity.csv")
    results = {}
    for state, (c, v) in states.items():
        results[state] = analyse(c, v, args.resamples, rng)
        for name in ("vmax", "km"):
            value, error, low, high = results[state][name]
            print(f"{state:<10} {name:<5} {value:8.4g} +- {error:6.2g}   95 % {low:.4g} to {high:.4g}",
                  flush=True)

    OUT.mkdir(exist_ok=True)
    write_results(OUT / "results.csv", results)
    write_summary(OUT / "summary.json", results, seed, args.resamples)
    curves = {state: (lambda c, r=r: model(c, r["vmax"][0], r["km"][0]))
              for state, r in results.items()}
    (OUT / "figure.svg").write_text(figure.draw(states, curves), encoding="utf-8")


if __name__ == "__main__":
    main()
