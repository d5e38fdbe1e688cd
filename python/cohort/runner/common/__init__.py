"""Helpers of `horovod.runner` that programs import."""
