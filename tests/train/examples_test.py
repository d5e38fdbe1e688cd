"""The programs gpt, gan and multi_input as a person starts them: the same bits with one to four workers and when
workers are killed; what they print and write; GPT-2's published weights in and out."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "launcher"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "elastic"))
from elastic_job import ElasticTest  # noqa: E402
from launcher import BIN, PATIENCE  # noqa: E402

GPT, GAN, MULTI = (str(BIN / name) for name in ("gpt", "gan", "multi_input"))
TINY = ["--num_layers", "2", "--num_heads", "2", "--width", "32", "--sequence", "32"]
# 10 samples in 4 shards, each in 2 micro-batches.
SOME_GPT = [GPT, *TINY, "--dropout", "0.1", "--batch_size", "10", "--accumulate", "2", "--sample", "20", "--max_steps"]
SHORT_GPT = [*SOME_GPT, "5"]
SHORT_GAN = [GAN, "--samples", "300", "--batch_size", "50", "--max_steps", "8"]
SHORT_MULTI = [MULTI, "--samples", "300", "--batch_size", "30", "--train_epochs", "1"]


class ExamplesTest(ElasticTest):
    def alone(self, *words, code=0):
        done = subprocess.run(list(map(str, words)), capture_output=True, timeout=PATIENCE * 3, cwd=self.folder,
                              env=self.environment())
        self.assertEqual(done.returncode, code, done.stdout[-2000:] + done.stderr[-2000:])
        return (done.stderr if code else done.stdout).decode()  # also proves that it is UTF-8

    def workers(self, count, *words):
        result = self.run_job("-n", count, "--", *words)
        self.assertEqual(result.code, 0, result.stderr[-2000:])
        shutil.rmtree(self.output)
        return result.stdout.decode()


class TheSameBits(ExamplesTest):
    def check(self, program, counts=(2, 3, 4)):
        text = self.alone(*program)
        weights = self.find_weights(text)
        for count in counts:
            self.assertEqual(self.find_weights(self.workers(count, *program)), weights, f"{count} workers")
        two = ["--distribution_strategy", "mirrored", "--num_replicas", "2"]
        self.assertEqual(self.find_weights(self.alone(*program, *two)), weights, "two replicas")
        return text

    def test_of_the_gpt(self):
        self.assertIn("samples of 32 tokens to train on", self.check(SHORT_GPT))

    def test_of_the_gan(self):
        self.assertRegex(self.check(SHORT_GAN), r"\d of 8 clusters found")

    def test_of_multi_input(self):
        self.check(SHORT_MULTI, counts=[3])

    def test_of_the_written_text(self):
        def text(run):
            run = re.sub(r"^\S+:worker/\d+ ", "", run, flags=re.MULTILINE)
            return re.search(r"--- text.*?^---$", run, re.DOTALL | re.MULTILINE).group()
        alone = text(self.alone(*SHORT_GPT))
        self.assertEqual(text(self.workers(2, *SHORT_GPT)), alone)
        self.assertNotEqual(text(self.alone(*SHORT_GPT, "--sample_seed", "2")), alone)

    def test_of_the_gpt_resumed_with_other_workers(self):
        model = ["--model_dir", self.folder / "model"]
        straight = self.find_weights(self.alone(*SHORT_GPT))
        self.workers(3, *SOME_GPT, "3", *model)  # in the warm-up, which does not ask when training ends
        self.assertEqual(self.find_weights(self.workers(2, *SHORT_GPT, *model, "--resume")), straight)


class Killed(ExamplesTest):
    def test_a_gpt_whose_workers_are_killed(self):
        program = [GPT, *TINY, "--dropout", 0.1, "--batch_size", 8, "--max_steps", 1500, "--sample", 0]
        job = self.start_job(*program, workers="2:3")
        for rank in (2, 0):  # one, then the chief
            self.wait_for_size(job, 3)
            view = job.view()[0]
            job.kill_pid(list(job.living_members().values())[rank])
            self.wait(job, lambda view=view: job.view()[0] > view, f"a view after {view}")
        self.check_result(job, *program)
        self.assertEqual(job.killed, 2)


class PublishedWeights(ExamplesTest):
    def logits(self, folder):
        from safetensors.torch import load_file
        out = self.folder / "logits.safetensors"
        self.alone(GPT, "--init", folder, "--train_epochs", "0", "--sample", "0", "--prompt", "We hold these truths",
                   "--logits", out)
        tensors = load_file(out)
        return tensors["ids"], tensors["logits"]

    def setUp(self):
        super().setUp()
        try:
            import gpt2_reference
            import torch
        except ImportError as missing:
            self.skipTest(f"{missing.name} is not installed: weights from Python were not tried")
        self.reference, self.torch = gpt2_reference, torch

    def check(self, model, ids, logits):
        with self.torch.no_grad():
            expected = model(ids)
        self.assertGreater(float(expected.std()), 1)
        self.assertLess(float((logits - expected).abs().max()), 1e-4)

    def test_give_the_same_logits(self):
        for prefix in (True, False):
            folder = self.folder / f"gpt2-{prefix}"
            model = self.reference.write(folder, prefix=prefix)
            self.check(model, *self.logits(folder))

    def test_are_written_as_they_are_read(self):
        from safetensors.torch import load_file
        model = self.reference.write(self.folder / "gpt2")
        self.alone(GPT, "--init", "gpt2", "--train_epochs", "0", "--sample", "0", "--save", "again")
        again = load_file(self.folder / "again" / "model.safetensors")
        wanted = {name: tensor for name, tensor in model.state_dict().items() if not name.endswith(".attn.bias")}
        self.assertEqual(set(again), set(wanted))
        for name, tensor in wanted.items():
            self.assertTrue(self.torch.equal(again[name], tensor), name)

    def test_of_transformers_itself(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed: gpt2_reference.py stands for it")
        self.torch.manual_seed(1)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**self.reference.SIZES)).eval()
        model.save_pretrained(self.folder / "hub")
        ids, logits = self.logits(self.folder / "hub")
        with self.torch.no_grad():
            self.assertLess(float((model(ids).logits - logits).abs().max()), 1e-4)
        self.alone(GPT, "--init", "hub", "--train_epochs", "0", "--sample", "0", "--save", "again")
        again = transformers.GPT2LMHeadModel.from_pretrained(self.folder / "again").eval()
        with self.torch.no_grad():
            self.assertTrue(self.torch.equal(again(ids).logits, model(ids).logits))


class Refusals(ExamplesTest):
    def test_what_cannot_be_is_named(self):
        (self.folder / "short.txt").write_text("a few words")
        (self.folder / "wrong").mkdir()
        (self.folder / "wrong" / "config.json").write_text(json.dumps({"n_layer": 2}))
        for words, complaint in [
                (["--model_size", "7M"], "'7M' is not a size of the model"),
                (["--width", "30", "--num_heads", "4"], "--width 30 cannot be divided among --num_heads 4"),
                (["--num_layers", "0"], "--num_layers must be at least 1, got 0"),
                (["--dropout", "1"], "--dropout must be at least 0 and below 1, got 1"),
                (["--data", "nowhere.txt"], "--data 'nowhere.txt' does not exist"),
                (["--data", "wrong"], "--data 'wrong' has no *.md or *.txt"),
                (["--data", "short.txt"], "has 11 tokens"),
                (["--vocabulary", "100"], "the tokenizer has 256 tokens, the model's vocabulary has 100"),
                (["--init", "nowhere"], "nowhere/config.json"),
                (["--init", "wrong"], "n_head"),
                (["--tokenizer", "nowhere"], "nowhere"),
                (["--temperature", "-1"], "--temperature must be 0 or more, got -1"),
                (["--train_epochs", "0", "--prompt", ""], "--prompt")]:
            self.assertIn(complaint, self.alone(GPT, *words, code=2), words)


if __name__ == "__main__":
    unittest.main()
