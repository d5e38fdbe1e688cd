#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "cohort/base/net/http_message.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/store/background.h"

namespace cohort::service {

// The answer of `finish(work())`: `work` runs in the background, `finish` then on the server's
// thread. What either throws is the answer that it is elsewhere (api_error.h). When the client goes
// away before, `work` may not run, and `finish` does not. `wake`: the request's.
template <typename Work, typename Finish>
HttpResponse answer_later(Background& background, std::function<void()> wake, Work work,
                          Finish finish) {
  using Result = std::invoke_result_t<Work>;
  struct Shared {
    Work work;
    std::mutex mutex;  // guards:
    std::optional<Result> result = {};
    std::exception_ptr error = {};
    explicit Shared(Work given) : work(std::move(given)) {}
  };
  class Answer : public LaterAnswer {
   public:
    Answer(std::shared_ptr<Shared> shared, Finish finish)
        : shared_(std::move(shared)), finish_(std::move(finish)) {}
    std::optional<HttpResponse> take() override {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->error) return response_of(shared_->error);
      if (!shared_->result) return std::nullopt;
      try {
        return finish_(*std::move(shared_->result));
      } catch (const std::exception&) {
        return response_of(std::current_exception());
      }
    }

   private:
    std::shared_ptr<Shared> shared_;
    Finish finish_;
  };
  auto shared = std::make_shared<Shared>(std::move(work));
  background.post([weak = std::weak_ptr<Shared>(shared), wake = std::move(wake)] {
    const auto alive = weak.lock();
    if (!alive) return;
    std::optional<Result> result;
    std::exception_ptr error;
    try {
      result.emplace(alive->work());
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(alive->mutex);
      alive->result = std::move(result);
      alive->error = error;
    }
    wake();
  });
  HttpResponse response;
  response.later = std::make_unique<Answer>(std::move(shared), std::move(finish));
  return response;
}

}  // namespace cohort::service
