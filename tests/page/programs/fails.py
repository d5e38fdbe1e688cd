"""Reads a file that is not there, after some lines, as a program with a mistake does."""

import sys
import time

for step in range(1, 6):
    print(f"step={step} loss={1 / step:.3f}", flush=True)
    time.sleep(0.02)
print("\x1b[33mwarning: the cache is empty\x1b[0m", file=sys.stderr, flush=True)
open("/nonexistent/train.csv")
