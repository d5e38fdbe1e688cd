// A model with several inputs, a mask, and two outputs: the batch is a struct, the loss is made by a
// training step, and what is measured besides it are metrics with a state.
//
//   build/bin/multi_input                                          alone
//   build/bin/cohort run -n 2 -- build/bin/multi_input             two workers, the same bits
#include <cohort/cohort.h>

#include "../common/train_flags.h"
#include "offers.h"

namespace {

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  examples::TrainFlags flags{
      .batch_size = 64, .train_epochs = 4, .learning_rate = 0.005, .virtual_shards = 4};
  std::int64_t samples = 8000;
  CLI::App app("Learns from made-up offers which are sold, and at what price.", "multi_input");
  flags.declare(app);
  app.remove_option(app.get_option("--data_dir"));
  app.add_option("--samples", samples, "offers to train on")->capture_default_str();
  if (!flags.parse(app, context)) return 0;

  torch::manual_seed(flags.seed);
  examples::OfferNet net;
  auto optimizer = std::make_shared<torch::optim::Adam>(
      net->parameters(), torch::optim::AdamOptions(flags.learning_rate));

  auto options = flags.trainer_options(context);
  options.metrics = {cohort::accuracy(), cohort::f1_score(), cohort::roc_auc(),
                     cohort::mean_of("price_error")};
  cohort::Trainer trainer(context.strategy(), net, optimizer, examples::offer_loss, options);
  auto fit = flags.fit_options(context);
  fit.validation = std::make_shared<examples::MadeUpOffers>(1000, flags.seed + 1);
  trainer.fit(std::make_shared<examples::MadeUpOffers>(samples, flags.seed), fit);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("multi_input", [&] { return train(argc, argv); });
}
