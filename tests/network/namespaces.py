"""Hosts that are network namespaces of this machine: real addresses, links that can be cut."""

import json
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import unittest

PATIENCE = 120  # seconds after which anything that a test waits for counts as hanging


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True, timeout=PATIENCE)


class Network:
    """Namespaces for `count` hosts, joined by a bridge in one of its own; the machine's own network is not touched."""

    def __init__(self, count):
        self.prefix = f"cohort-{os.getpid()}-"
        self.names = [self.prefix + "switch"] + [self.prefix + str(host) for host in range(count)]
        self.made = []
        try:
            for name in self.names:
                ip("netns", "add", name)
                self.made.append(name)
                ip("-n", name, "link", "set", "lo", "up")
            switch = self.names[0]
            ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", switch, "link", "set", "bridge", "up")
            for host in range(count):
                ip("-n", switch, "link", "add", f"port{host}", "type", "veth", "peer", "name", "eth0", "netns",
                   self.names[1 + host])
                ip("-n", switch, "link", "set", f"port{host}", "master", "bridge", "up")
                ip("-n", self.names[1 + host], "address", "add", f"{self.address(host)}/24", "dev", "eth0")
                ip("-n", self.names[1 + host], "link", "set", "eth0", "up")
        except subprocess.CalledProcessError:
            self.close()
            raise

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def enter(self, host):
        return ["nsenter", f"--net=/run/netns/{self.names[1 + host]}"]

    def cut(self, host):
        ip("-n", self.names[0], "link", "set", f"port{host}", "down")

    def mend(self, host):
        ip("-n", self.names[0], "link", "set", f"port{host}", "up")

    def close(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=PATIENCE)


class ThreeHosts:
    """Three hosts for all tests of a class that is derived from this one first."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.network = Network(3)

    @classmethod
    def tearDownClass(cls):
        cls.network.close()
        super().tearDownClass()


class HostsTest(ThreeHosts, unittest.TestCase):
    """A folder and a secret for each test. A host is a number; None stands for this machine itself."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.ports = iter(range(20000 + int.from_bytes(os.urandom(2), "little") % 20000, 65000))

    def secret(self, name="secret"):
        path = self.folder / name
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32))
        return str(path)

    def new_address(self, host):
        return f"{'127.0.0.1' if host is None else self.network.address(host)}:{next(self.ports)}"

    def environment(self, tf_config, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COHORT_")}
        environment.update(TF_CONFIG=json.dumps(tf_config), COHORT_SECRET_FILE=self.secret())
        environment.update(variables)
        return environment

    def on_host(self, host, command):
        return command if host is None else self.network.enter(host) + command


def skip_where_impossible():
    """Ends the program with 77 and the reason where this user may not make network namespaces."""
    try:
        Network(1).close()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"skipped: no network namespaces can be made here: {getattr(error, 'stderr', None) or error}")
        sys.exit(77)
