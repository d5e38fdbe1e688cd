#pragma once

#include <torch/torch.h>

namespace cohort::train {

// optimizer.step() with the same bits, for parameters on the CPU in one pass over memory: the update
// rules that parameter servers have (ps/rules). LibTorch's own step reads and writes a parameter and
// its state once for each operation of the rule, and makes temporary tensors between them.
//
// One pass: SGD, Adam, AdamW, RMSprop and Adagrad of torch::optim, with parameters, gradients and
// state of f32 or f64 that lie in memory alike and without gaps. Everything else (a derived class,
// a GPU, a sparse gradient, bf16) is left to optimizer.step(). State, its names and the count of
// steps are those of the optimizer itself, so the two may take turns.
//
// Bits do not depend on the number of LibTorch's threads, which share the work.
//
// Threads: call from the thread that trains. Failure: what optimizer.step() throws.
void step_in_one_pass(torch::optim::Optimizer& optimizer);

}  // namespace cohort::train
