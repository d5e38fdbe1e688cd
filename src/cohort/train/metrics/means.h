#pragma once

#include <string>

#include "cohort/train/model/metric.h"

// Metrics that are means. Their states are sums of floating-point numbers, added in the order of the
// shards. Failure: InvalidInput for a batch that does not have what is measured.
namespace cohort::train {

// e to the mean loss, which is to be a cross entropy in nats; the mean is over the weights of the
// losses, so with the number of tokens as the weight it is the perplexity of a token. `value`: of
// Loss::values[value] in the loss's place, as "perplexity_<value>".
Metric perplexity(const std::string& value = "");

// The mean of Loss::values[value] over the weights of the losses, called `value`.
Metric mean_of(const std::string& value);

// Means over all elements of the targets: |output - target| ("mae"), its square ("mse"), and the
// root of that ("rmse").
Metric absolute_error();
Metric squared_error();
Metric root_squared_error();

}  // namespace cohort::train
