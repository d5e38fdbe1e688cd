"""Meets its peers the way Horovod's gloo controller does, with the standard library only.

Horovod itself does not build against current frameworks. Its controller puts each rank's address
into an HTTP store under the scopes `global`, `local_<host>` and `cross_<local rank>`, asks again while
a peer's key is missing (404), connects to every peer, and sends DELETE once its own connections stand.
DELETE only says "I am done": a slower peer may still ask for that key. When all have said so, the
scope is empty again, ready for the next init.
"""

import fcntl
import http.client
import os
import socket
import struct
import sys
import time

GIVE_UP_AFTER_S = 30
SIOCGIFADDR = 0x8915


def setting(name):
    return os.environ["HOROVOD_" + name]


def interface_address(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
    return socket.inet_ntoa(answer[20:24])


class Store:
    """One scope of the rendezvous server; a connection per request, as Horovod's client makes them."""

    def __init__(self, scope):
        self.scope = scope

    def request(self, method, key, body=None):
        server = http.client.HTTPConnection(setting("GLOO_RENDEZVOUS_ADDR"),
                                            int(setting("GLOO_RENDEZVOUS_PORT")), timeout=10)  # fmt: skip
        try:
            server.request(method, f"/{self.scope}/{key}", body)
            response = server.getresponse()
            return response.status, response.read()
        finally:
            server.close()

    def must(self, method, key, body=None):
        status, _ = self.request(method, key, body)
        if status != 200:
            sys.exit(f"{method} /{self.scope}/{key} was answered {status}")

    def wait(self, key):
        deadline = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            status, body = self.request("GET", key)
            if status == 200:
                return body
            if status != 404 or time.monotonic() > deadline:
                sys.exit(f"GET /{self.scope}/{key} was answered {status}")
            time.sleep(0.01)


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            sys.exit("a peer hung up")
        data += part
    return data


def connect_full_mesh(scope, rank, size):
    """Connections to all peers. Of each pair the higher rank connects, but both read the address."""
    store = Store(scope)
    host = interface_address(setting("GLOO_IFACE"))
    connections = []
    with socket.create_server((host, 0), backlog=size) as server:
        server.settimeout(GIVE_UP_AFTER_S)
        # Gloo's addresses are bytes that no text encoding would survive.
        port = server.getsockname()[1]
        store.must("PUT", rank, struct.pack("!2s4sH", b"\x00\xff", socket.inet_aton(host), port))
        for peer in range(size):
            if peer == rank:
                continue
            address, port = struct.unpack("!2x4sH", store.wait(peer))
            if peer < rank:
                connections.append(socket.create_connection((socket.inet_ntoa(address), port), timeout=10))
        connections += [server.accept()[0] for _ in range(rank + 1, size)]
    store.must("DELETE", rank)
    return connections


def exchange(scope, rank, size, value):
    """Every rank's value, in rank order."""
    connections = connect_full_mesh(scope, rank, size)
    message = struct.pack("!Ii", rank, value)
    values = {rank: value}
    for connection in connections:
        connection.sendall(message)
    for connection in connections:
        peer, answer = struct.unpack("!Ii", read_exactly(connection, len(message)))
        values[peer] = answer
        connection.close()
    return [values[peer] for peer in range(size)]


def main():
    for name in ("CONTROLLER", "CPU_OPERATIONS"):
        if setting(name) != "gloo":
            sys.exit(f"HOROVOD_{name} is {setting(name)}; this program speaks gloo")
    rank, size = int(setting("RANK")), int(setting("SIZE"))
    local_rank, local_size = int(setting("LOCAL_RANK")), int(setting("LOCAL_SIZE"))
    cross_rank, cross_size = int(setting("CROSS_RANK")), int(setting("CROSS_SIZE"))

    value = (rank + 1) ** 2
    all_ranks = exchange("global", rank, size, value)
    here = exchange("local_" + setting("HOSTNAME"), local_rank, local_size, value)
    across = exchange(f"cross_{local_rank}", cross_rank, cross_size, value)
    # Shut down and init again: the first round's addresses must be gone.
    again = exchange("global", rank, size, -value)
    print(f"exchanged rank={rank} global={all_ranks} local={here} cross={across} again={again}", flush=True)


if __name__ == "__main__":
    main()
