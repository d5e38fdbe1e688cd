"""Writes data/train.csv and data/test.csv: points of three spiral arms, x, y and the number of the arm."""

import math
import pathlib
import random

random.seed(7)
for name, count in (("train", 1500), ("test", 300)):
    rows = []
    for _ in range(count):
        arm, turn = random.randrange(3), random.random()
        angle = 2 * math.pi * arm / 3 + 4 * turn + random.gauss(0, 0.08)
        rows.append(f"{turn * math.cos(angle):.4f},{turn * math.sin(angle):.4f},{arm}\n")
    pathlib.Path(__file__).with_name("data").joinpath(f"{name}.csv").write_text("".join(rows))
