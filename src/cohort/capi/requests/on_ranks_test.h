#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/capi/execution/request.h"
#include "cohort/collective/form.h"

// Threads as ranks, and requests of one vector of floats.
namespace cohort::capi {

// Runs `body` on a thread for each rank of a group in this process; throws what the first of them
// threw.
inline void on_ranks(int size,
                     const std::function<void(std::shared_ptr<collective::Group>)>& body) {
  auto groups = collective::make_inproc_groups(size);
  std::vector<std::exception_ptr> errors(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(std::move(groups[rank]));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

// In place.
inline RequestRef request_of(Kind kind, const std::string& name, std::vector<float>& values) {
  auto signature = std::make_shared<Signature>();
  signature->kind = kind;
  signature->name = name;
  auto request = std::make_shared<Request>();
  if (kind != Kind::join && kind != Kind::barrier) {
    signature->tensors = {{COHORT_F32, {static_cast<std::int64_t>(values.size())}}};
    auto* memory = reinterpret_cast<std::byte*>(values.data());
    request->memory = {{memory, memory}};
  }
  request->signature = std::move(signature);
  return request;
}

inline RequestRef sum_of(const std::string& name, std::vector<float>& values) {
  return request_of(Kind::all_reduce, name, values);
}

}  // namespace cohort::capi
