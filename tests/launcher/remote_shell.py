"""A remote shell over plain TCP for tests: what ssh is to a real cluster, with links that can be cut.

usage: remote_shell.py serve            (on each host)
       remote_shell.py HOST COMMAND...  (where the launcher runs; ends with the command's exit code, or 255)
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

PORT = 7022
LOST = 255  # as ssh: no connection, or none any more
PATIENCE_MS = 3000  # with a peer that acknowledges nothing


def pump(read, write):
    while data := read(65536):
        write(data)


def serve_one(connection):
    def send(kind, data):
        connection.sendall(kind + struct.pack("<I", len(data)) + data)

    stream = connection.makefile("rb", buffering=0)
    command = json.loads(stream.readline())
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               bufsize=0)

    def forward_input():
        try:
            pump(stream.read, process.stdin.write)
        except OSError:
            pass
        process.stdin.close()

    threading.Thread(target=forward_input, daemon=True).start()
    try:
        pump(lambda size: os.read(process.stdout.fileno(), size), lambda data: send(b"o", data))
        send(b"x", struct.pack("<i", process.wait()))
    except OSError:
        process.wait()


def serve():
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        while True:
            threading.Thread(target=serve_one, args=(server.accept()[0],), daemon=True).start()


def run(host, command):
    connection = socket.create_connection((host, PORT), timeout=PATIENCE_MS / 1000)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE_MS)
    connection.sendall(json.dumps(command).encode() + b"\n")

    def forward_input():
        pump(lambda size: os.read(0, size), connection.sendall)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=forward_input, daemon=True).start()
    stream = connection.makefile("rb")
    while header := stream.read(5):
        data = stream.read(struct.unpack("<I", header[1:])[0])
        if header[:1] == b"x":
            return struct.unpack("<i", data)[0]
        os.write(1, data)
    return LOST


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    try:
        code = run(sys.argv[1], sys.argv[2:])
    except OSError as error:
        print(f"remote shell: {sys.argv[1]}: {error}", file=sys.stderr)
        code = LOST
    os._exit(code)
