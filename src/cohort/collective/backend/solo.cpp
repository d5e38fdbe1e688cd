#include "cohort/collective/backend/solo.h"

#include <cstring>
#include <new>

#include "cohort/collective/reduction/reduce_tree.h"

namespace cohort::collective {

namespace {

class SoloBackend : public Backend {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "solo"; }

  void execute(const Call& call, Deadline) override {
    const auto* in = static_cast<const std::byte*>(call.in);
    auto* out = static_cast<std::byte*>(call.out);
    const bool reduces = call.kind == CallKind::all_reduce || call.kind == CallKind::reduce ||
                         call.kind == CallKind::reduce_scatter;
    if (reduces && (call.pre_scale != 1 || call.post_scale != 1)) {
      TreeReducer({call.dtype, call.op, 1, call.pre_scale, call.post_scale})
          .run({&in, 1}, {&out, 1}, call.count);
    } else if (in != out && call.count > 0 && call.kind != CallKind::barrier) {
      std::memcpy(out, in, call.count * size_of(call.dtype));
    }
  }

  // Group refuses messages to oneself, so there is no peer.
  std::unique_ptr<transport::Transfer> send(int peer, std::span<const std::byte>) override {
    throw InvalidInput(fmt::format("a group of one has no rank {}", peer));
  }
  std::unique_ptr<transport::Transfer> receive(int peer, std::span<std::byte>) override {
    throw InvalidInput(fmt::format("a group of one has no rank {}", peer));
  }

  std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
  }
  void free(std::byte* memory) override { ::operator delete (memory, std::align_val_t{4096}); }
  std::unique_ptr<Backend> subgroup(std::span<const int>, const std::string&, Deadline) override {
    return make_solo_backend();
  }
  std::optional<Failure> failure() override { return std::nullopt; }
  void abort(const std::string&) noexcept override {}
  void leave() noexcept override {}
};

}  // namespace

std::unique_ptr<Backend> make_solo_backend() { return std::make_unique<SoloBackend>(); }

}  // namespace cohort::collective
