"""Event files, read by the real TensorBoard. usage: event_file_test.py PROGRAM"""

import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

from needed_packages import need

need("tensorboard", "numpy")

import numpy
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata as hparams_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

PROGRAM = sys.argv.pop(1)


class EventFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name) / "run"
        subprocess.run([PROGRAM, "events", str(cls.folder)], check=True, timeout=60)
        unlimited = {kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE}
        cls.events = event_accumulator.EventAccumulator(str(cls.folder), size_guidance=unlimited).Reload()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_the_file_is_named_and_versioned_as_tensorboard_expects(self):
        (path,) = self.folder.iterdir()
        self.assertRegex(path.name, r"^events\.out\.tfevents\.\d{10}\..+\.\d+\.\d+$")
        first = next(event_file_loader.EventFileLoader(str(path)).Load())
        self.assertEqual(first.file_version, "brain.Event:2")

    def test_scalars_come_back(self):
        loss = self.events.Scalars("train/loss")
        self.assertEqual([event.step for event in loss], list(range(100)))
        numpy.testing.assert_allclose([event.value for event in loss],
                                      [1 / (1 + step) for step in range(100)], rtol=1e-6)
        (bad,) = self.events.Scalars("not a number")
        self.assertTrue(math.isnan(bad.value))
        self.assertEqual(bad.step, 5_000_000_000)

    def test_histograms_come_back(self):
        (event,) = self.events.Histograms("weights")
        value = event.histogram_value
        self.assertEqual((event.step, value.num), (3, 10_000))
        self.assertEqual(sum(value.bucket), 10_000)
        self.assertAlmostEqual(value.sum / value.num, 1.0, delta=0.1)
        self.assertAlmostEqual(value.sum_squares / value.num, 5.0, delta=0.3)
        below = sum(count for limit, count in zip(value.bucket_limit, value.bucket) if limit <= 0)
        self.assertAlmostEqual(below / 10_000, 0.3085, delta=0.02)  # of the normal distribution
        (event,) = self.events.Histograms("floats")
        self.assertEqual((event.histogram_value.min, event.histogram_value.max), (-1.5, 2.0))
        self.assertEqual(event.histogram_value.num, 4)
        self.assertEqual(self.events.Scalars("floats/non_finite")[0].value, 1)
        self.assertEqual(self.events.Histograms("empty")[0].histogram_value.num, 0)

    def test_text_comes_back(self):
        self.assertEqual(sorted(self.events.PluginTagToContent("text")), ["config", "long"])
        (event,) = self.events.Tensors("config")
        text = tensor_util.make_ndarray(event.tensor_proto).item().decode()
        self.assertEqual(text, "| a | b |\n|---|---|\n| 1 | é |")
        (event,) = self.events.Tensors("long")
        self.assertEqual(len(tensor_util.make_ndarray(event.tensor_proto).item()), 1_000_000)

    def test_hyperparameters_come_back(self):
        content = self.events.PluginTagToContent("hparams")
        experiment = hparams_metadata.parse_experiment_plugin_data(content[hparams_metadata.EXPERIMENT_TAG])
        self.assertEqual({info.name: info.type for info in experiment.hparam_infos},
                         {"learning_rate": api_pb2.DATA_TYPE_FLOAT64, "momentum": api_pb2.DATA_TYPE_BOOL,
                          "optimizer": api_pb2.DATA_TYPE_STRING, "batch_size": api_pb2.DATA_TYPE_FLOAT64})
        self.assertEqual([info.name.tag for info in experiment.metric_infos], ["train/loss"])
        start = hparams_metadata.parse_session_start_info_plugin_data(
            content[hparams_metadata.SESSION_START_INFO_TAG])
        self.assertEqual(start.hparams["learning_rate"].number_value, 0.125)
        self.assertIs(start.hparams["momentum"].bool_value, True)
        self.assertEqual(start.hparams["optimizer"].string_value, "sgd")
        end = hparams_metadata.parse_session_end_info_plugin_data(
            content[hparams_metadata.SESSION_END_INFO_TAG])
        self.assertEqual(end.status, api_pb2.STATUS_SUCCESS)
        self.assertGreaterEqual(end.end_time_secs, start.start_time_secs)

    def test_a_damaged_record_is_noticed(self):
        (path,) = self.folder.iterdir()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1  # proves that the reader checks the sums
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / path.name
            copy.write_bytes(data)
            damaged = event_accumulator.EventAccumulator(folder).Reload()
            self.assertNotIn("_hparams_/session_end_info", damaged.PluginTagToContent("hparams"))


class EventReader(unittest.TestCase):
    """What TensorBoard's own writer wrote, read by Cohort."""

    def test_scalars_of_both_kinds_are_read_and_other_values_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            writer = EventFileWriter(folder)
            value = summary_pb2.Summary.Value
            tensor = tensor_util.make_tensor_proto
            summaries = [
                (1, value(tag="simple", simple_value=0.5)),
                (2, value(tag="float", tensor=tensor(numpy.float32(0.25)))),
                (3, value(tag="double", tensor=tensor(numpy.float64(1e-12)))),
                (5_000_000_000, value(tag="whole", tensor=tensor(numpy.int64(-7)))),
                (4, value(tag="vector", tensor=tensor(numpy.ones(3, numpy.float32)))),
                (4, value(tag="text", tensor=tensor("hello"))),
                (4, value(tag="image", image=summary_pb2.Summary.Image(encoded_image_string=b"x" * 3_000_000))),
                (6, value(tag="nan", simple_value=math.nan)),
            ]
            for step, one in summaries:
                summary = summary_pb2.Summary(value=[one])
                writer.add_event(event_pb2.Event(wall_time=1.5, step=step, summary=summary))
            writer.close()
            (path,) = pathlib.Path(folder).iterdir()
            printed = subprocess.run([PROGRAM, "scalars", str(path)], check=True, timeout=60, capture_output=True).stdout
        lines = [line.split("\t") for line in printed.decode().splitlines()]
        self.assertEqual(
            lines,
            [
                ["simple", "1", "0.5", "1.500"],
                ["float", "2", "0.25", "1.500"],
                ["double", "3", "1e-12", "1.500"],
                ["whole", "5000000000", "-7", "1.500"],
                ["nan", "6", "nan", "1.500"],
            ],
        )


if __name__ == "__main__":
    unittest.main()
