#include "cohort/train/model/training_step.h"

#include "cohort/base/error.h"

namespace cohort::train {

void step_detail::refuse_module(const torch::nn::Module& module, const std::type_info& wanted) {
  throw InvalidInput(
      fmt::format("the training step takes a {}, and the model is a {}", type_name(wanted),
                  type_name(typeid(module))),
      {.advice = "Let the step take the class that the Trainer was given, or its holder."});
}

TrainingStep::TrainingStep(LossFunction loss, ShortForm)
    : step_([loss = std::move(loss)](const Model& model, const AnyBatch& batch) {
        const Batch& given = batch.as<Batch>();
        torch::Tensor output = model.forward(given.data);
        torch::Tensor mean = loss(output, given.target);
        return Loss{.mean = std::move(mean), .output = std::move(output), .target = given.target};
      }) {}

Prediction::Prediction()
    : predict_([](const Model& model, const AnyBatch& batch) {
        return model.forward(batch.is<torch::Tensor>() ? batch.as<torch::Tensor>()
                                                       : batch.as<Batch>().data);
      }) {}

}  // namespace cohort::train
