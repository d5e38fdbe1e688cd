"""Helpers that programs import from `horovod.runner.util`."""
