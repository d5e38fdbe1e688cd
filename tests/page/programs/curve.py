"""Prints values as a training does: curve.py STEPS PAUSE [LR]. Ends when STEPS are done; 0: never."""

import math
import sys
import time

steps, pause, rate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.1
step = 0
while steps == 0 or step < steps:
    step += 1
    loss = 2.3 * math.exp(-step * rate / 60) + 0.05 * math.sin(step / 3) + 0.2
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{stamp} step={step} loss={loss:.5f} accuracy={1 - loss / 3:.4f} val/loss={loss * 1.1:.5f} samples/s={1500 + step % 70}", flush=True)
    time.sleep(pause)
