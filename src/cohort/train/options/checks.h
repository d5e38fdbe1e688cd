#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cohort/parallel/strategies/strategy.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/model/training_step.h"
#include "cohort/train/options/options.h"

// What a Trainer refuses before it begins. Each function throws InvalidInput that names the option
// or the object, its value and what would do.
namespace cohort::train {

void expect(bool good, const std::string& what, const std::string& advice);
void check(const TrainerOptions& options, const parallel::Strategy& strategy);
void check(const FitOptions& options, const SampleSource& data, std::int64_t batch_size);
// `what`: "the data set of evaluate()".
void expect_samples(const SampleSource* data, const char* what);

// The optimizers' parameters are the module's. Parameters of the module that no group has are named
// in a warning: they are not trained.
void check_optimizers(const std::vector<Phase>& phases, const torch::nn::Module& module);

// A loss is one number, in training one that depends on what is trained.
void check_loss(const Loss& loss, bool training);

// One row a sample.
void check_prediction(const torch::Tensor& output, std::int64_t samples);

// At least one phase, each with an optimizer of the module's parameters, a step, and, where there
// are several, a name; metrics have names that are free.
void check_phases(const std::vector<Phase>& phases, const torch::nn::Module& module,
                  const std::vector<Metric>& metrics);

// What workers must have in common of `data`: its size and, with `contents`, a checksum of a few
// samples without regard to who reads them. No checksum for a data set that gives other values each
// time; a warning says so.
nlohmann::json identity_of(const SampleSource& data, std::uint64_t seed, bool contents);

}  // namespace cohort::train
