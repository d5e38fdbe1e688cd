"""A script that averages with cohort.torch until one rank fails. See failures_test.py.

failing_script.py HOW RANK
  exception  raises
  mismatch   gives a tensor of another shape
  early      ends with success while the others go on
  kill       dies of SIGKILL
  stop       is stopped
  order      waits for 'b' before 'a', the others for 'a' before 'b'
"""

import os
import signal
import sys

import torch

import cohort.torch as hvd


def main() -> None:
    how, failing = sys.argv[1], int(sys.argv[2])
    hvd.init()
    mine = hvd.rank() == failing
    for step in range(3):
        hvd.allreduce(torch.ones(10), name=f"step.{step}")
    print(f"step {step} is the last", flush=True)
    if mine and how == "exception":
        raise RuntimeError("sample 30 is broken")
    if mine and how == "early":
        return
    if mine and how in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    if how == "order":
        for name in ("b", "a") if mine else ("a", "b"):
            hvd.allreduce(torch.ones(10), name=name)
    hvd.allreduce(torch.ones(7 if mine and how == "mismatch" else 10), name="step.3")
    print("nothing went wrong", flush=True)


if __name__ == "__main__":
    main()
