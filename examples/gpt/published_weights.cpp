#include "published_weights.h"

#include <cohort/cohort.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace examples {
namespace {

namespace fs = std::filesystem;

// The names are the model's own but for a prefix; its matrices are stored as (in, out). What is
// left out are constants (the mask of attention) and the output layer, which is the table of tokens.
cohort::WeightMapping mapping() {
  return {.prefix = "transformer.",
          .rename = {{"h.*.attn.bias", ""}, {"h.*.attn.masked_bias", ""}, {"lm_head.weight", ""}},
          .transposed = {"h.*.attn.c_attn.weight", "h.*.attn.c_proj.weight", "h.*.mlp.c_fc.weight",
                         "h.*.mlp.c_proj.weight"}};
}

nlohmann::json read_config(const fs::path& path) {
  std::ifstream file(path);
  auto config = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    throw cohort::InvalidInput(
        fmt::format("'{}' is not there, or no JSON object", path.string()),
        {.advice = "Give --init a folder with config.json and model.safetensors."});
  return config;
}

std::int64_t size_of(const nlohmann::json& config, const fs::path& path, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || !found->is_number_integer())
    throw cohort::InvalidInput(fmt::format("'{}' has no number \"{}\"", path.string(), name),
                               {.advice = "Give the weights of a GPT-2."});
  return found->get<std::int64_t>();
}

void expect_same(const nlohmann::json& config, const fs::path& path, const char* name,
                 const nlohmann::json& wanted) {
  const auto found = config.find(name);
  if (found != config.end() && !found->is_null() && *found != wanted)
    throw cohort::InvalidInput(fmt::format("'{}' has {} {}, this model has {}", path.string(), name,
                                           found->dump(), wanted.dump()),
                               {.advice = "Give the weights of a GPT-2."});
}

}  // namespace

GptOptions read_gpt_config(const fs::path& folder, double dropout) {
  const fs::path path = folder / "config.json";
  const nlohmann::json config = read_config(path);
  GptOptions options{.layers = size_of(config, path, "n_layer"),
                     .heads = size_of(config, path, "n_head"),
                     .width = size_of(config, path, "n_embd"),
                     .sequence = size_of(config, path, "n_positions"),
                     .vocabulary = size_of(config, path, "vocab_size"),
                     .dropout = dropout,
                     .norm_epsilon = config.value("layer_norm_epsilon", 1e-5)};
  expect_same(config, path, "n_inner", 4 * options.width);
  expect_same(config, path, "activation_function", "gelu_new");
  expect_same(config, path, "tie_word_embeddings", true);
  expect_same(config, path, "scale_attn_by_inverse_layer_idx", false);
  return options;
}

void load_published(Gpt& model, const fs::path& folder) {
  cohort::load_weights(*model, folder / "model.safetensors",
                       {.mapping = mapping(), .convert = true});
}

void save_published(const Gpt& model, const fs::path& folder) {
  fs::create_directories(folder);
  cohort::save_weights(*model, folder / "model.safetensors", {.mapping = mapping()});
  const GptOptions& options = model->options();
  const nlohmann::json config{{"model_type", "gpt2"},
                              {"architectures", {"GPT2LMHeadModel"}},
                              {"activation_function", "gelu_new"},
                              {"n_layer", options.layers},
                              {"n_head", options.heads},
                              {"n_embd", options.width},
                              {"n_positions", options.sequence},
                              {"n_ctx", options.sequence},
                              {"vocab_size", options.vocabulary},
                              {"layer_norm_epsilon", options.norm_epsilon}};
  std::ofstream file(folder / "config.json");
  file << config.dump(2) << '\n';
  file.close();
  if (!file)
    throw cohort::InvalidInput(
        fmt::format("'{}' cannot be written", (folder / "config.json").string()));
}

}  // namespace examples
