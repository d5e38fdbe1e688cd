"""Two instances, each with a parameter server and a worker.

    pip install ../../python -r requirements.txt
    python3 ps.py
"""

from cohort.estimator import TensorFlow

role = "anyone"
inputs = {"training": "data"}

TensorFlow(role=role, train_instance_count=2, train_instance_type='TI.SMALL2.1core2g', py_version='py3', framework_version='1.14.0',
           entry_point='train.py', source_dir='path/code', distributions={'parameter_server': {'enabled': True}}).fit(inputs)
