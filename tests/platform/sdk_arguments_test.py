"""The arguments of the Python SDK's estimators: names, values and places as people of other platforms write them."""

import ast
import copy
import inspect
import os
import pathlib
import pickle
import sys
import unittest
import unittest.mock

from sdk_fake import SOURCE, SdkTest, quietly

from cohort.arguments import OTHER_NAMES
from cohort.estimator import Cohort, Generic, PyTorch, TensorFlow


class Arguments(SdkTest):
    def setUp(self):
        super().setUp()
        outside = unittest.mock.patch.object(sys, "prefix", sys.base_prefix)  # of any virtual environment
        outside.start()
        self.addCleanup(outside.stop)

    def fields(self, **arguments):
        return TensorFlow("train.py", **arguments).job_description()

    def test_every_spelling_of_an_argument_is_the_same_field(self):
        values = {"instance_count": 2, "instance_type": "local", "distributions": {"mpi": {"enabled": True}},
                  "image": "tf:1", "env": {"A": "b"}, "max_run": "2h", "restarts": 3, "name": "mine",
                  "output": "/tmp/out"}  # fmt: skip
        self.assertEqual(set(OTHER_NAMES.values()), set(values))
        for other, field in OTHER_NAMES.items():
            self.assertEqual(self.fields(**{other: values[field]}), self.fields(**{field: values[field]}), other)
            self.assertEqual(self.fields(**{other: values[field], field: values[field]})[field], values[field])

    def test_two_spellings_with_different_values_are_refused_by_both_names(self):
        with self.assertRaisesRegex(ValueError, r"train_instance_count=2 and instance_count=3 .* different values"):
            TensorFlow("train.py", train_instance_count=2, instance_count=3)

    def test_an_unknown_argument_is_refused_with_the_nearest(self):
        nearest = "TensorFlow has no argument 'instance_cout'; did you mean 'instance_count'"
        with self.assertRaisesRegex(TypeError, nearest):
            TensorFlow("train.py", instance_cout=2)
        with self.assertRaisesRegex(TypeError, "PyTorch has no argument 'epochs'; what the program .* hyperparameters"):
            PyTorch("train.py", epochs=2)
        with self.assertRaisesRegex(TypeError, r"TensorFlow has no argument 'inputs'; fit\(\) has: fit\(inputs=...\)"):
            TensorFlow("train.py", inputs="data")
        with self.assertRaisesRegex(TypeError, r"no argument 'wait'; fit\(\) has: fit\(wait=...\)"):
            TensorFlow("train.py", wait=False)
        with self.assertRaisesRegex(TypeError, "no argument 'dependencies'; copy what it names into source_dir"):
            PyTorch("train.py", dependencies=["../library"])

    def test_arguments_of_other_platforms_without_meaning_are_taken_and_named(self):
        _, _, said = quietly(TensorFlow, "train.py", train_volume_size=30, use_spot_instances=True)
        self.assertIn("cohort: train_volume_size has no meaning here", said)
        self.assertIn("cohort: use_spot_instances has no meaning here", said)

    def test_none_counts_as_left_out(self):
        with_none, _, said = quietly(self.fields, role=None, image=None, subnets=None, dependencies=None)
        self.assertEqual((with_none, said), (self.fields(), ""))
        self.assertEqual(self.fields(env={"A": None}), self.fields())

    def test_what_must_be_a_dictionary_is_one(self):
        with self.assertRaisesRegex(TypeError, "TensorFlow: hyperparameters is 'epochs=3', but must be a dictionary"):
            TensorFlow("train.py", hyperparameters="epochs=3")
        with self.assertRaisesRegex(TypeError, r"environment is \['A=1'\], but must be a dictionary"):
            TensorFlow("train.py", environment=["A=1"])

    def test_whole_numbers_are_whole_however_they_are_written(self):
        sent = self.fields(instance_count=2.0, max_run=3600.0, cores=0.5, hyperparameters={"rate": 1.0})
        self.assertEqual([repr(sent[name]) for name in ("instance_count", "max_run", "cores", "hyperparameters")],
                         ["2", "3600", "0.5", "{'rate': 1.0}"])  # fmt: skip

    def test_a_program_is_needed_and_only_one(self):
        with self.assertRaisesRegex(ValueError, "TensorFlow needs entry_point"):
            TensorFlow(role="x")
        with self.assertRaisesRegex(ValueError, "not both"):
            Generic("train.sh", program="ls")

    def test_values_travel_as_json(self):
        class Number:
            def item(self):
                return 0.5

        hyperparameters = {"layers": (64, 32), "rate": Number(), "data": self.folder, "nested": {"deep": [True, None]}}
        sent = self.fields(hyperparameters=hyperparameters, elastic=(2, 8), env={"N": 1, "ON": True, "T": "text"})
        self.assertEqual(sent["hyperparameters"], {"layers": [64, 32], "rate": 0.5, "data": str(self.folder),
                                                   "nested": {"deep": [True, None]}})  # fmt: skip
        self.assertEqual(sent["elastic"], {"min": 2, "max": 8})
        self.assertEqual(sent["env"], {"N": "1", "ON": "true", "T": "text"})
        with self.assertRaisesRegex(TypeError, r"hyperparameters\.model\[1\]: a object cannot be sent"):
            self.fields(hyperparameters={"model": [1, object()]})

    def test_arrays_are_lists_and_paths_in_the_environment_are_plain_text(self):
        class Array:
            def item(self):
                raise ValueError("can only convert an array of size 1 to a Python scalar")

            def tolist(self):
                return [[1, 2], [3, 4]]

        sent = self.fields(hyperparameters={"layers": Array()}, env={"PLACE": pathlib.Path("/a b")})
        self.assertEqual(sent["hyperparameters"], {"layers": [[1, 2], [3, 4]]})
        self.assertEqual(sent["env"], {"PLACE": "/a b"})

    def test_values_that_json_does_not_have_are_refused_by_name(self):
        for value in ("nan", "inf"):
            with self.assertRaisesRegex(ValueError, rf"hyperparameters\.a\.b is {value}, .* as text: '{value}'"):
                self.fields(hyperparameters={"a": {"b": float(value)}})
        with self.assertRaisesRegex(ValueError, r"hyperparameters\.a is '.*', which is not UTF-8 text"):
            self.fields(hyperparameters={"a": "\udcff"})
        with self.assertRaisesRegex(ValueError, r"elastic is \(2, 3, 4\), but must be the least and the most"):
            self.fields(elastic=(2, 3, 4))

    def test_a_copy_of_an_estimator_has_its_own_hyperparameters(self):
        first = TensorFlow("train.py", hyperparameters={"epochs": 3})
        for other in (copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
            other.set_hyperparameters(epochs=5, rate=0.1)
            self.assertEqual(first.hyperparameters(), {"epochs": 3})
            self.assertEqual(other.hyperparameters(), {"epochs": 5, "rate": 0.1})

    def test_an_estimator_says_what_it_is(self):
        self.assertEqual(repr(TensorFlow("train.py")), "<cohort.TensorFlow of train.py, no job yet>")
        self.assertEqual(repr(Generic(program=["ls", "-l"])), "<cohort.Generic of ['ls', '-l'], no job yet>")

    def test_a_job_gets_the_virtual_environment_of_this_process(self):
        with unittest.mock.patch.object(sys, "prefix", "/venv"):
            self.assertEqual(self.fields(env={"A": "b"})["env"], {"A": "b", "VIRTUAL_ENV": "/venv"})
            self.assertEqual(self.fields(env={"VIRTUAL_ENV": "/other"})["env"], {"VIRTUAL_ENV": "/other"})
            os.environ["COHORT_SERVICE"] = "https://trainer:8443"
            self.assertNotIn("env", self.fields())

    def test_a_job_gets_the_conda_environment_of_this_process(self):
        conda = str(self.folder)
        with unittest.mock.patch.object(sys, "prefix", conda), unittest.mock.patch.object(sys, "base_prefix", conda):
            self.assertNotIn("env", self.fields())
            (self.folder / "conda-meta").mkdir()
            self.assertEqual(self.fields()["env"], {"VIRTUAL_ENV": conda})

    def test_inputs_are_a_path_a_uri_or_channels(self):
        os.chdir(self.folder)
        estimator = TensorFlow("train.py")
        self.assertEqual(estimator.job_description("data")["inputs"], {"training": str(self.folder / "data")})
        self.assertEqual(estimator.job_description("hdfs://name/x")["inputs"], {"training": "hdfs://name/x"})
        named = {"train": self.folder / "a", "test": "file://b c", "home": "~/d", "none": None}
        self.assertEqual(estimator.job_description(named)["inputs"],
                         {"train": str(self.folder / "a"), "test": str(self.folder / "b c"),
                          "home": os.path.expanduser("~/d")})  # fmt: skip
        os.environ["COHORT_SERVICE"] = "https://trainer:8443"  # another machine: its paths are its own
        for place in ("/data", "file:///data"):
            self.assertEqual(TensorFlow("train.py").job_description(place)["inputs"], {"training": "/data"})

    def test_inputs_of_other_platforms_are_the_places_that_they_hold(self):
        class Held:
            uri = "/data/a"

        class TrainingInput:
            config = {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "file:///data/b"}}}

        channels = TensorFlow("train.py").job_description({"a": Held(), "b": TrainingInput()})["inputs"]
        self.assertEqual(channels, {"a": "/data/a", "b": "/data/b"})

    def test_what_is_in_an_object_store_is_refused_with_what_to_do(self):
        for place in ("s3://bucket/x", "cos://bucket/x", "S3://bucket/x"):
            scheme = place.partition(":")[0].lower()
            wrong = rf"inputs\.train is {place}, and nothing is copied from or to {scheme}:// here\. Give a folder"
            with self.assertRaisesRegex(ValueError, wrong):
                TensorFlow("train.py").job_description({"train": place})
            with self.assertRaisesRegex(ValueError, "output is .*Give a folder"):
                self.fields(output_path=place)
        self.assertEqual(self.fields(output_path="file:///tmp/out")["output"], "/tmp/out")

    def test_what_is_no_place_is_refused_by_channel(self):
        for wrong in (["a", "b"], 3, b"data", object()):
            with self.assertRaisesRegex(TypeError, r"inputs\.training: .* is no place of data; give a path"):
                TensorFlow("train.py").job_description(wrong)
        with self.assertRaisesRegex(ValueError, r"inputs\.test is empty"):
            TensorFlow("train.py").job_description({"test": ""})

    def test_help_names_every_argument(self):
        names = list(inspect.signature(TensorFlow).parameters)
        self.assertEqual(names[0], "entry_point")
        self.assertLessEqual({"train_instance_count", "distributions", "image_uri", "workers", "client"}, set(names))

    def test_the_two_calls_give_the_fields_that_they_name(self):
        parameter_server = TensorFlow(
            role="role", train_instance_count=2, train_instance_type="TI.SMALL2.1core2g", py_version="py3",
            framework_version="1.14.0", entry_point="train.py", source_dir="path/code",
            distributions={"parameter_server": {"enabled": True}}).job_description("/data")  # fmt: skip
        self.assertEqual(parameter_server, {
            "entry_point": "train.py", "role": "role", "instance_count": 2, "instance_type": "TI.SMALL2.1core2g",
            "py_version": "py3", "framework": "tensorflow", "framework_version": "1.14.0",
            "distributions": {"parameter_server": {"enabled": True}}, "inputs": {"training": "/data"}})  # fmt: skip

    def test_a_built_program_is_sent_by_its_whole_path(self):
        os.chdir(self.folder)
        (self.folder / "train").write_text("")
        self.assertEqual(Cohort(program=["./train", "--epochs", "3"]).job_description()["program"],
                         [str(self.folder / "train"), "--epochs", "3"])  # fmt: skip
        self.assertEqual(Generic(program="ls").job_description()["program"], ["ls"])

    def test_the_package_is_written_in_python_3_9(self):
        for file in (SOURCE / "python/cohort").glob("*.py"):
            ast.parse(file.read_text(), str(file), feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
