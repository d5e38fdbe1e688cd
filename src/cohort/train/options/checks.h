#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cohort/parallel/strategies/strategy.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/options/options.h"

// What a Trainer refuses before it begins. Each function throws InvalidInput that names the option
// or the object, its value and what would do.
namespace cohort::train {

void expect(bool good, const std::string& what, const std::string& advice);
void check(const TrainerOptions& options, const parallel::Strategy& strategy);
void check(const FitOptions& options, const SampleSource& data, std::int64_t batch_size);
// `what`: "the data set of evaluate()".
void expect_samples(const SampleSource* data, const char* what);

// The optimizer's parameters are the module's. Parameters of the module that no group has are named
// in a warning: they are not trained.
void check_optimizer(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

// A loss is one number.
void check_loss(const torch::Tensor& loss);

// What workers must have in common of `data`: its size and, with `contents`, a checksum of a few
// samples without regard to who reads them. No checksum for a data set that gives other values each
// time; a warning says so.
nlohmann::json identity_of(const SampleSource& data, std::uint64_t seed, bool contents);

}  // namespace cohort::train
