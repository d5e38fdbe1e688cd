"""The practitioner's form: TASK_TYPE and TASK_INDEX say who this process is, nothing else does.

usage: task_type.py FOLDER WORKERS

The ps publishes its address in FOLDER, which all tasks share, and serves a running sum for ever.
A worker adds its index + 1 and waits until all workers have added theirs.
"""

import os
import pathlib
import socket
import sys
import time

GIVE_UP_AFTER_S = 30


def serve(address_file):
    total = 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        unfinished = address_file.with_suffix(".new")
        unfinished.write_text(str(server.getsockname()[1]))
        unfinished.rename(address_file)
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as stream:
                total += int(stream.readline())
                stream.write(f"{total}\n")


def ask(port, number):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        with connection.makefile("rw") as stream:
            stream.write(f"{number}\n")
            stream.flush()
            return int(stream.readline())


def poll(what, attempt):
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    while not attempt():
        if time.monotonic() > deadline:
            sys.exit(f"gave up waiting for {what}")
        time.sleep(0.02)


def work(address_file, index, workers):
    poll("the parameter server", address_file.exists)
    port = int(address_file.read_text())
    ask(port, index + 1)
    wanted = workers * (workers + 1) // 2
    poll(f"a sum of {wanted}", lambda: ask(port, 0) == wanted)
    print(f"worker {index} sees the sum {wanted}", flush=True)


def main():
    address_file, workers = pathlib.Path(sys.argv[1], "ps_port"), int(sys.argv[2])
    task_type, task_index = os.environ["TASK_TYPE"], int(os.environ["TASK_INDEX"])
    if task_type == "worker":
        work(address_file, task_index, workers)
    elif task_type == "ps":
        serve(address_file)
    else:
        raise ValueError(f"Invalid task type: {task_type}")


if __name__ == "__main__":
    main()
