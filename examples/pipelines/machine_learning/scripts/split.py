"""Three parts of the digits, each with as many of every digit as the whole has: to learn, to choose by, to be judged by."""

import json
import os

import numpy
from sklearn.model_selection import train_test_split

asked = json.loads(os.environ["CUPEL_PARAMETERS"])
table = numpy.loadtxt("data/digits.csv.gz", delimiter=",")
x, y = table[:, :-1] / 16, table[:, -1].astype(int)
rest_x, test_x, rest_y, test_y = train_test_split(x, y, test_size=asked["test"], stratify=y, random_state=asked["seed"])
train_x, valid_x, train_y, valid_y = train_test_split(rest_x, rest_y, test_size=asked["validation"], stratify=rest_y,
                                                      random_state=asked["seed"])
for name, images, digits in (("train", train_x, train_y), ("validation", valid_x, valid_y), ("test", test_x, test_y)):
    numpy.savez(f"out/{name}.npz", x=images, y=digits)
    print(f"{name} {len(digits)}")
