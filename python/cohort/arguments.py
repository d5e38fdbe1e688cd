"""The arguments of estimators: the fields of a job description, under the names that people have for them."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from cohort.places import Path
from cohort.values import as_json, short


class EstimatorArguments(TypedDict, total=False):
    """All arguments but entry_point, which may come first without its name. Several mean the same (OTHER_NAMES)."""

    # What runs.
    source_dir: Path
    program: Union[Path, Sequence[str]]
    framework_version: str
    py_version: str
    image: str
    image_uri: str
    image_name: str
    hyperparameters: Mapping[str, Any]
    env: Mapping[str, object]
    environment: Mapping[str, object]
    # With how much, and how its processes are related.
    engine: str
    engine_options: Sequence[str]
    instance_count: int
    train_instance_count: int
    instance_type: str
    train_instance_type: str
    cores: float
    memory: Union[int, str]
    gpus: int
    strict_resources: bool
    distributions: Mapping[str, Mapping[str, Any]]
    distribution: Mapping[str, Mapping[str, Any]]
    elastic: Union[bool, Mapping[str, int], Tuple[int, int]]
    # When, how long, how often.
    queue: str
    priority: int
    max_run: Union[int, str]
    train_max_run: Union[int, str]
    restarts: int
    restart_limit: int
    # What it is called, and what it leaves.
    name: str
    base_job_name: str
    role: str
    tags: Union[Mapping[str, str], Sequence[Mapping[str, str]]]
    metric_definitions: Sequence[Mapping[str, str]]
    output_path: Path
    output: Path
    # Options of `cohort run`, by their long names.
    workers: Union[int, str]
    ps: int
    evaluator: bool
    chief_name: str
    coordinator: bool
    layout: str
    strategy: str
    lease: float
    elastic_timeout: float
    host_discovery_script: str
    max_restarts: int
    success: str
    grace: float
    task_restarts: int
    hosts: str
    hostfile: str
    slots_per_host: int
    remote_shell: str
    remote_cohort: str
    address: str
    scheduler_args: bool
    gpus_per_worker: int
    threads_per_task: int
    horovod: bool
    proxy: str


OTHER_NAMES = {
    "train_instance_count": "instance_count",
    "train_instance_type": "instance_type",
    "distribution": "distributions",
    "image_uri": "image",
    "image_name": "image",
    "environment": "env",
    "train_max_run": "max_run",
    "restart_limit": "restarts",
    "base_job_name": "name",
    "output_path": "output",
}

# Arguments of other platforms' estimators that Cohort has no use for: taken, and said so.
WITHOUT_MEANING = frozenset(
    "checkpoint_local_path checkpoint_s3_uri code_location container_log_level debugger_hook_config "
    "disable_output_compression disable_profiler enable_cloudwatch_metrics enable_infra_check "
    "enable_network_isolation enable_remote_debug enable_sagemaker_metrics encrypt_inter_container_traffic "
    "input_mode keep_alive_period_in_seconds max_wait model_dir model_uri output_kms_key profiler_config rules "
    "sagemaker_session script_mode security_group_ids session subnets tensorboard_output_config ti_session "
    "train_max_wait train_use_spot_instances train_volume_kms_key train_volume_size use_spot_instances "
    "volume_kms_key volume_size".split()
)

# Names that mean something elsewhere, and what to do here.
INSTEAD = {
    **{name: f"fit() has: fit({name}=...)" for name in ("inputs", "wait", "logs", "job_name")},
    "dependencies": "copy what it names into source_dir",
    "git_config": "clone the repository, and name the folder as source_dir",
}

DICTIONARIES = frozenset({"hyperparameters", "env"})

_KNOWN = ("entry_point", *EstimatorArguments.__annotations__)


def fields_of(class_name: str, arguments: Mapping[str, Any]) -> Tuple[Dict[str, Any], List[str]]:
    """The arguments as fields of a job description, each under its own name, and the names of those that have
    no meaning here. Arguments that are None count as left out. Throws TypeError for an unknown argument, and
    for what is no dictionary but must be one; ValueError for two spellings of one with different values."""
    fields: Dict[str, Any] = {}
    spelled: Dict[str, str] = {}
    ignored = []
    for name, value in arguments.items():
        if name in WITHOUT_MEANING and value is not None:
            ignored.append(name)
        if name in WITHOUT_MEANING or (name in INSTEAD and value is None):
            continue
        if name not in _KNOWN:
            raise TypeError(f"{class_name} has no argument '{name}'; {_advice(name)}")
        if value is None:
            continue
        field = OTHER_NAMES.get(name, name)
        if field in DICTIONARIES and not isinstance(value, Mapping):
            raise TypeError(f"{class_name}: {name} is {short(value)}, but must be a dictionary, as in {{'name': 1}}")
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 2.0 instances are 2
        if field in fields and fields[field] != value:
            raise ValueError(f"{class_name}: {spelled[field]}={fields[field]!r} and {name}={value!r} are two names of "
                             "one argument, with different values; give one of them")  # fmt: skip
        fields[field], spelled[field] = value, name
    return fields, ignored


def _advice(name: str) -> str:
    """What a person who wrote an unknown argument may have meant."""
    if name in INSTEAD:
        return INSTEAD[name]
    near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else "what the program itself takes goes into hyperparameters"


def signature() -> inspect.Signature:
    """What help() and an editor show: an argument a name, instead of one word for all."""
    first = inspect.Parameter("entry_point", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    others = (inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in (*_KNOWN[1:], "client"))
    return inspect.Signature([first, *others])


def environment_of(env: Optional[Mapping[str, object]], local: bool) -> Dict[str, str]:
    """Variables as text: True is "true", as in JSON; None counts as left out. Where the service is on this
    machine, the job gets the virtual or conda environment of this process, unless a catalogue names one for
    its framework_version."""
    variables = {name: _as_text(as_json(value, f"env.{name}")) for name, value in (env or {}).items()
                 if value is not None}  # fmt: skip
    if local and (sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))):
        variables.setdefault("VIRTUAL_ENV", sys.prefix)
    return variables


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def elastic_of(elastic: Any) -> Any:
    """(2, 8) as {"min": 2, "max": 8}. Throws ValueError for other than two numbers."""
    if not isinstance(elastic, (tuple, list)):
        return as_json(elastic, "elastic")
    if len(elastic) != 2:
        raise ValueError(f"elastic is {short(elastic)}, but must be the least and the most workers, as in (2, 8)")
    return dict(zip(("min", "max"), as_json(elastic, "elastic")))
