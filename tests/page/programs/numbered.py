"""Writes numbered lines: numbered.py LINES [PAUSE [BYTES [FILE]]]. A line has BYTES bytes; one of each 1,000 is an ERROR.
LINES 0: until FILE is there."""

import itertools
import os
import sys
import time

lines, pause, size = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0, int(sys.argv[3]) if len(sys.argv) > 3 else 60
for number in range(lines) if lines else itertools.count():
    word = "ERROR" if number % 1000 == 500 else "fine"
    sys.stdout.write(f"line {number} {word} ".ljust(size - 1, ".") + "\n")
    if pause:
        sys.stdout.flush()
        time.sleep(pause)
    if not lines and os.path.exists(sys.argv[4]):
        break
