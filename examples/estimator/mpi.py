"""Two instances under mpirun, one process each; gradients are averaged between them.

    pip install ../../python -r requirements.txt
    python3 mpi.py
"""

from cohort.estimator import TensorFlow

role = "anyone"
hyperparameters = {"steps": 600, "learning-rate": 0.02}
inputs = {"training": "data"}

TensorFlow(role=role, train_instance_count=2, train_instance_type='TI.GN10X.2XLARGE40.1xV100', py_version='py3', framework_version='1.14.0',
           hyperparameters=hyperparameters, entry_point='train.py', source_dir='path/code',
           distributions={'mpi': {'enabled': True, 'processes_per_host': 1, 'custom_mpi_options': '--NCCL_DEBUG INFO'}}).fit(inputs)
