#pragma once

#include <filesystem>

#include "gpt_model.h"

// GPT-2's weights as they are published: a folder with config.json and model.safetensors.
namespace examples {

// The sizes that config.json tells, with `dropout` as given. Throws InvalidInput that names what is
// missing or what this model cannot do.
GptOptions read_gpt_config(const std::filesystem::path& folder, double dropout);

// Gives the model the weights of the folder.
void load_published(Gpt& model, const std::filesystem::path& folder);

// Writes both files, for programs in Python.
void save_published(const Gpt& model, const std::filesystem::path& folder);

}  // namespace examples
