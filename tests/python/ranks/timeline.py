"""Every rank runs this: `timeline.py FILE` starts and stops a timeline; without, HOROVOD_TIMELINE does."""

import sys

import numpy as np

import cohort as hvd

hvd.init()
if len(sys.argv) > 1:
    hvd.allreduce(np.ones(3), name="before")
    hvd.start_timeline(sys.argv[1], mark_cycles=True)
for index in range(5):
    hvd.allreduce(np.ones(3), name=f"step.{index}")
if len(sys.argv) > 1:
    hvd.stop_timeline()
    hvd.allreduce(np.ones(3), name="after")
hvd.shutdown()
