"""Writes numbered lines: numbered.py LINES [PAUSE [BYTES]]. A line has BYTES bytes, each 100th line is an ERROR."""

import sys
import time

lines, pause, size = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0, int(sys.argv[3]) if len(sys.argv) > 3 else 60
for number in range(lines):
    word = "ERROR" if number % 1000 == 500 else "fine"
    sys.stdout.write(f"line {number} {word} ".ljust(size - 1, ".") + "\n")
    if pause:
        sys.stdout.flush()
        time.sleep(pause)
