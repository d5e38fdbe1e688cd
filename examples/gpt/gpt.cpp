// A language model of GPT-2's shape on a text: by default the documentation of this tree, byte by
// byte. docs/gpt.md walks through it.
//
//   build/bin/gpt                                                  alone, a model of 1 M parameters
//   build/bin/cohort run -n 2 -- build/bin/gpt                     two workers, the same bits
//   build/bin/gpt --data FILE --model_size 6M --train_epochs 5
//   build/bin/gpt --init FOLDER --train_epochs 0 --prompt "Once "  goes on a text with GPT-2's weights
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <cstdio>
#include <optional>

#include "../common/train_flags.h"
#include "attention.h"
#include "published_weights.h"
#include "sampling.h"
#include "text_data.h"

namespace {

struct GptFlags {
  std::string model_size = "1M";
  std::optional<std::int64_t> layers, heads, width, sequence, vocabulary;
  double dropout = 0;
  double weight_decay = 0.1;
  std::int64_t warmup_steps = 50;
  std::string data, tokenizer, init, save, logits;
  std::string prompt = "# ";
  examples::SamplingOptions sampling;

  void declare(CLI::App& app);
  examples::GptOptions model(const cohort::Tokenizer& tokens) const;
};

void GptFlags::declare(CLI::App& app) {
  app.remove_option(app.get_option("--data_dir"));
  app.add_option("--data", data,
                 "text file, folder of *.md and *.txt, or *.bin of tokens; default: docs");
  app.add_option("--tokenizer", tokenizer, "folder with GPT-2's tokenizer; default: bytes");
  app.add_option("--init", init, "folder with config.json and model.safetensors of a GPT-2");
  app.add_option("--save", save, "folder to write the same two files to at the end");
  app.add_option("--model_size", model_size, "1M, 6M, 25M or 124M parameters")
      ->capture_default_str();
  app.add_option("--num_layers", layers, "instead of the size's");
  app.add_option("--num_heads", heads, "instead of the size's");
  app.add_option("--width", width, "instead of the size's");
  app.add_option("--sequence", sequence, "tokens that it sees at once, instead of the size's");
  app.add_option("--vocabulary", vocabulary, "instead of the size's and the tokenizer's");
  app.add_option("--dropout", dropout, "share that is dropped; GPT-2 had 0.1")
      ->capture_default_str();
  app.add_option("--weight_decay", weight_decay, "of matrices")->capture_default_str();
  app.add_option("--warmup_steps", warmup_steps, "until the full learning rate; then half a cosine")
      ->capture_default_str();
  app.add_option("--sample", sampling.tokens, "tokens to write at the end")->capture_default_str();
  app.add_option("--prompt", prompt, "what they go on from")->capture_default_str();
  app.add_option("--temperature", sampling.temperature, "of sampling; 0: the likeliest token")
      ->capture_default_str();
  app.add_option("--top_k", sampling.top_k, "sample among so many tokens; 0: all")
      ->capture_default_str();
  app.add_option("--sample_seed", sampling.seed, "of sampling")->capture_default_str();
  app.add_option("--logits", logits, "file to write the logits of the prompt to (safetensors)");
}

examples::GptOptions GptFlags::model(const cohort::Tokenizer& tokens) const {
  examples::GptOptions options =
      init.empty() ? examples::gpt_preset(model_size) : examples::read_gpt_config(init, dropout);
  options.dropout = dropout;
  if (!init.empty()) {
    for (const auto& [flag, value] : {std::pair{"--num_layers", layers},
                                      {"--num_heads", heads},
                                      {"--width", width},
                                      {"--vocabulary", vocabulary}})
      if (value)
        throw cohort::InvalidInput(fmt::format("{} is {}, but --init says it too", flag, *value),
                                   {.advice = "Leave one of them out."});
  } else {
    options.layers = layers.value_or(options.layers);
    options.heads = heads.value_or(options.heads);
    options.width = width.value_or(options.width);
    options.sequence = sequence.value_or(options.sequence);
    options.vocabulary = vocabulary.value_or(std::max(options.vocabulary, tokens.vocabulary()));
  }
  examples::check(options);
  if (tokens.vocabulary() > options.vocabulary)
    throw cohort::InvalidInput(
        fmt::format("the tokenizer has {} tokens, the model's vocabulary has {}",
                    tokens.vocabulary(), options.vocabulary),
        {.advice = "Give the tokenizer that the model was made for, or a larger --vocabulary."});
  return options;
}

// The mean over the tokens: a step's loss counts each once, however they fall on workers.
cohort::Loss next_token(examples::Gpt& net, const cohort::Batch& batch) {
  return cohort::token_cross_entropy(net->forward(batch.data).to(torch::kFloat32), batch.target);
}

void write_logits(examples::Gpt& net, const std::vector<std::int64_t>& prompt,
                  const std::string& path) {
  const torch::NoGradGuard no_gradients;
  net->eval();
  const auto ids = torch::tensor(prompt).unsqueeze(0);
  const auto logits = net->forward(ids.to(net->wte->weight.device()));
  cohort::train::save_safetensors(path, {{"ids", ids}, {"logits", logits}});
}

// What the training has made of the model: its perplexity, a text, files. On the chief alone.
void show(const GptFlags& flags, examples::Gpt& net, const cohort::Tokenizer& tokens) {
  at::set_num_threads(1);  // the same text on every machine and for any number of workers
  const auto prompt = tokens.encode(flags.prompt);
  if (!flags.logits.empty()) write_logits(net, prompt, flags.logits);
  if (!flags.save.empty()) examples::save_published(net, flags.save);
  if (flags.sampling.tokens == 0) return;
  auto text = prompt;
  for (const auto id : examples::sample(net, prompt, flags.sampling)) text.push_back(id);
  fmt::print("--- text, of {} tokens\n{}\n---\n", flags.sampling.tokens,
             examples::printable(tokens.decode(text)));
  std::fflush(stdout);
}

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  // Four parts of a batch: the same bits with one to four workers.
  examples::TrainFlags flags{.batch_size = 8,
                             .train_epochs = 3,
                             .learning_rate = 2e-3,
                             .virtual_shards = 4,
                             .clip_norm = 1};
  GptFlags gpt;
  CLI::App app("Trains a language model of GPT-2's shape, then writes a text with it.", "gpt");
  flags.declare(app);
  gpt.declare(app);
  if (!flags.parse(app, context)) return 0;
  check(gpt.sampling);
  if (flags.deterministic && context.flags().wants_cuda()) examples::use_repeatable_kernels();

  const auto tokens = examples::open_tokenizer(gpt.tokenizer);
  const examples::GptOptions sizes = gpt.model(*tokens);
  torch::manual_seed(flags.seed);
  examples::Gpt net(sizes);
  if (!gpt.init.empty()) examples::load_published(net, gpt.init);

  auto strategy = context.strategy();
  if (flags.train_epochs > 0) {
    const std::int64_t sequence = gpt.sequence.value_or(sizes.sequence);
    const auto data = examples::load_text(
        {.data = gpt.data, .sequence = sequence, .vocabulary = sizes.vocabulary}, *tokens);
    auto options = flags.trainer_options(context);
    options.metrics = {cohort::perplexity()};
    auto fit = flags.fit_options(context);
    fit.validation = data.validation;
    fit.callbacks.push_back(std::make_shared<cohort::WarmupCosine>(
        cohort::WarmupCosineOptions{.warmup_steps = gpt.warmup_steps, .least = 0.1}));
    if (strategy->is_chief())
      fmt::print("{:.2f} M parameters; {} samples of {} tokens to train on, {} to validate with\n",
                 static_cast<double>(net->parameter_count()) / 1e6, data.train->size(), sequence,
                 data.validation->size());
    cohort::Trainer trainer(strategy, net,
                            examples::make_adamw(*net, flags.learning_rate, gpt.weight_decay),
                            next_token, options);
    const auto result = trainer.fit(data.train, fit);
    if (strategy->is_chief())
      fmt::print("{:.0f} tokens per second\n",
                 result.samples_per_second * static_cast<double>(sequence));
  }
  if (strategy->is_chief()) show(gpt, net, *tokens);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("gpt", [&] { return train(argc, argv); });
}
