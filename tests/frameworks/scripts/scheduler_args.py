"""The scheduler's form: role and addresses come as arguments that the platform appends.

Every ps listens at its address, averages one gradient from each worker, answers all of them, and
leaves when each has said that it is done. Workers talk to every ps at the address they were given.
"""

import argparse
import socket
import time

GIVE_UP_AFTER_S = 30


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--ps_hosts", type=lambda text: text.split(","), required=True)
    parser.add_argument("--worker_hosts", type=lambda text: text.split(","), required=True)
    parser.add_argument("--num_gpus", type=int, default=0)
    return parser.parse_args()


def listen(address):
    host, port = address.rsplit(":", 1)
    server = socket.create_server((host, int(port)))
    server.settimeout(GIVE_UP_AFTER_S)
    return server


def connect(address):
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=GIVE_UP_AFTER_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def serve(address, workers):
    with listen(address) as server:
        streams = [server.accept()[0].makefile("rw") for _ in range(workers)]
        gradients = [float(stream.readline()) for stream in streams]
        for stream in streams:
            stream.write(f"{sum(gradients) / workers}\n")
            stream.flush()
        done = [stream.readline().strip() for stream in streams]
    if done != ["done"] * workers:
        raise RuntimeError(f"workers left without a word: {done}")
    print(f"ps at {address} saw {workers} workers leave", flush=True)


def work(options):
    index = options.task_index
    means = []
    # A worker's own address must be free for it too: TensorFlow's workers listen there.
    with listen(options.worker_hosts[index]):
        for address in options.ps_hosts:
            with connect(address) as connection, connection.makefile("rw") as stream:
                stream.write(f"{index + 1}\n")
                stream.flush()
                means.append(float(stream.readline()))
                stream.write("done\n")
    print(f"worker {index} num_gpus={options.num_gpus} means={means}", flush=True)


def main():
    options = parse()
    if options.job_name == "ps":
        serve(options.ps_hosts[options.task_index], len(options.worker_hosts))
    else:
        work(options)


if __name__ == "__main__":
    main()
