"""horovodrun --config-file: options in a YAML file, in sections."""

from __future__ import annotations

import argparse
from typing import Any, Dict

# section, key: option
_NAMES = {
    ("params", "fusion_threshold_mb"): "fusion_threshold_mb",
    ("params", "cycle_time_ms"): "cycle_time_ms",
    ("params", "cache_capacity"): "cache_capacity",
    ("params", "hierarchical_allreduce"): "hierarchical_allreduce",
    ("params", "hierarchical_allgather"): "hierarchical_allgather",
    ("autotune", "enabled"): "autotune",
    ("autotune", "log_file"): "autotune_log_file",
    ("autotune", "warmup_samples"): "autotune_warmup_samples",
    ("autotune", "steps_per_sample"): "autotune_steps_per_sample",
    ("autotune", "bayes_opt_max_samples"): "autotune_bayes_opt_max_samples",
    ("autotune", "gaussian_process_noise"): "autotune_gaussian_process_noise",
    ("timeline", "filename"): "timeline_filename",
    ("timeline", "mark_cycles"): "timeline_mark_cycles",
    ("stall_check", "enabled"): "no_stall_check",
    ("stall_check", "warning_time_seconds"): "stall_check_warning_time_seconds",
    ("stall_check", "shutdown_time_seconds"): "stall_check_shutdown_time_seconds",
    ("library_options", "mpi_threads_disable"): "mpi_threads_disable",
    ("library_options", "mpi_args"): "mpi_args",
    ("library_options", "num_nccl_streams"): "num_nccl_streams",
    ("library_options", "thread_affinity"): "thread_affinity",
    ("library_options", "gloo_timeout_seconds"): "gloo_timeout_seconds",
    ("logging", "level"): "log_level",
    ("logging", "with_timestamp"): "silent",
}


def fill_in(options: argparse.Namespace, path: str) -> None:
    """Sets the options that the command line left alone. Throws ValueError, OSError."""
    for name, value in _read(path).items():
        if getattr(options, name, None) in (None, False):
            setattr(options, name, value)


def _read(path: str) -> Dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise ValueError(f"--config-file {path} is YAML, and PyYAML is not there: pip install pyyaml, or write the "
                         "options on the command line") from error  # fmt: skip
    with open(path) as file:
        try:
            content = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(f"--config-file {path}: {error}") from error
    result: Dict[str, Any] = {}
    for section, keys in (content or {}).items():
        if not isinstance(keys, dict):
            if section != "verbose":
                raise ValueError(f"--config-file {path}: '{section}' is not a section. There are: "
                                 f"{', '.join(sorted({name for name, _ in _NAMES}))}")  # fmt: skip
            result["verbose"] = keys
            continue
        for key, value in keys.items():
            name = _NAMES.get((section, key))
            if name is None:
                raise ValueError(f"--config-file {path}: '{key}' in section '{section}' is not known")
            result[name] = not value if name == "no_stall_check" else value
    return result
