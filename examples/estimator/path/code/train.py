"""Trains a small network to tell three spiral arms apart; alone, or as part of a job.

One program for every way in which it is started: a TF_CONFIG means parameter servers, mpirun means that
gradients are averaged between processes, neither means that it is alone.
"""

import argparse
import os

import tensorflow  # noqa: F401  here first, so that where it is missing the job's failure says so


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600, help="updates of each worker [600]")
    parser.add_argument("--batch-size", type=int, default=64, help="samples of an update [64]")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="of Adam [0.02]")
    told = os.environ.get  # where the job has put things
    parser.add_argument("--data", default=told("SM_CHANNEL_TRAINING", "../../data"), help="folder of the points")
    parser.add_argument("--model", default=told("SM_MODEL_DIR", "model"), help="folder for the weights")
    parser.add_argument("--output", default=told("COHORT_OUTPUT", "output"), help="folder for TensorBoard's files")
    arguments = parser.parse_args()
    if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ:
        import averaged_gradients

        averaged_gradients.train(arguments)
    else:
        import parameter_servers

        parameter_servers.train(arguments)


if __name__ == "__main__":
    main()
