#include "cohort/parallel/tensors/no_group.h"

#include <new>

#include "cohort/base/error.h"
#include "cohort/collective/backend/backend.h"

namespace cohort::parallel {

namespace {

constexpr std::align_val_t kLine{64};

class NoGroup final : public collective::Backend {
 public:
  NoGroup(int rank, int size, std::string reason, std::string advice)
      : rank_(rank), size_(size), reason_(std::move(reason)), advice_(std::move(advice)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "none"; }

  void execute(const collective::Call&, Deadline) override { refuse(); }
  std::unique_ptr<transport::Transfer> send(int, std::span<const std::byte>) override { refuse(); }
  std::unique_ptr<transport::Transfer> receive(int, std::span<std::byte>) override { refuse(); }
  std::unique_ptr<collective::Backend> subgroup(std::span<const int>, const std::string&,
                                                Deadline) override {
    refuse();
  }

  std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new(bytes, kLine));
  }
  void free(std::byte* memory) override { ::operator delete(memory, kLine); }
  std::optional<collective::Failure> failure() override { return std::nullopt; }
  void abort(const std::string&) noexcept override {}
  void leave() noexcept override {}

 private:
  [[noreturn]] void refuse() const { throw InvalidInput(reason_, {.advice = advice_}); }

  int rank_, size_;
  std::string reason_, advice_;
};

}  // namespace

std::unique_ptr<collective::Group> make_no_group(int rank, int size, std::string reason,
                                                 std::string advice) {
  return std::make_unique<collective::Group>(
      std::make_shared<NoGroup>(rank, size, std::move(reason), std::move(advice)),
      std::chrono::minutes(5));
}

}  // namespace cohort::parallel
