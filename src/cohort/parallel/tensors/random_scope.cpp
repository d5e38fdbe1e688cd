#include "cohort/parallel/tensors/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::parallel {

namespace {

// The one dispatch key that stands before all others, exists in every LibTorch since 1.8, and that
// nothing in LibTorch registers for or switches on: it is kept for the tests of the dispatcher
// itself. A mode: it applies on threads that include it, and to no other.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Of the scope that lives on this thread; null: none.
thread_local const at::Generator* own_generator = nullptr;

bool is_generator(const c10::Argument& argument) {
  return argument.name() == "generator" && argument.type()->kind() == c10::TypeKind::OptionalType;
}

// Stands in for an operation with a `Generator? generator` argument. Those that create tensors end
// in one that fills a tensor, so only operations on CPU tensors need to be given a generator.
void call_with_own_generator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  const auto& arguments = operation.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  bool on_cpu = false;
  c10::IValue* generator = nullptr;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (value.isTensor() && value.toTensor().defined()) on_cpu |= value.toTensor().is_cpu();
    if (is_generator(arguments[i])) generator = &value;
  }
  if (own_generator != nullptr && on_cpu && generator != nullptr && generator->isNone())
    *generator = *own_generator;
  operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey),
                            stack);
}

// Registered by hand when first needed: a static object of a static library might be left out of a
// program. For the whole process and its whole life; without a scope on the thread nothing changes,
// and operations that draw no numbers do not come through here at all.
void register_operations() {
  static std::once_flag once;
  std::call_once(once, [] {
    using torch::Library;
    static Library everything(Library::IMPL, "_", kKey, __FILE__, __LINE__);
    everything.fallback(torch::CppFunction::makeFallthrough());
    static Library drawing(Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      if (name.name.rfind("aten::", 0) != 0) continue;
      const auto operation = dispatcher.findSchema(name);
      if (!operation) continue;
      const auto& arguments = operation->schema().arguments();
      if (std::none_of(arguments.begin(), arguments.end(), is_generator)) continue;
      drawing.impl(c10::toString(name).c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&call_with_own_generator>());
    }
  });
}

// A default generator, seeded for a while.
class Reseeded {
 public:
  Reseeded(torch::Device device, std::uint64_t seed)
      : generator_(at::globalContext().defaultGenerator(device)) {
    std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~Reseeded() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }
  Reseeded(const Reseeded&) = delete;
  Reseeded& operator=(const Reseeded&) = delete;

 private:
  at::Generator generator_;
  torch::Tensor before_;
};

}  // namespace

struct RandomScope::State {
  std::optional<Reseeded> cpu;
  std::optional<Reseeded> device;
  at::Generator own;
  std::optional<c10::impl::IncludeDispatchKeyGuard> included;
};

at::Generator generator_of_this_thread(torch::Device device) {
  if (device.is_cpu() && own_generator != nullptr) return *own_generator;
  return at::globalContext().defaultGenerator(device);
}

RandomScope::RandomScope(std::uint64_t seed, torch::Device device, bool shared_process)
    : state_(std::make_unique<State>()) {
  if (own_generator != nullptr) throw InvalidInput("a RandomScope already lives on this thread");
  if (!device.is_cpu()) state_->device.emplace(device, seed);
  if (!shared_process) {
    state_->cpu.emplace(torch::kCPU, seed);
    return;
  }
  register_operations();
  state_->own = at::detail::createCPUGenerator(seed);
  state_->included.emplace(kKey);
  own_generator = &state_->own;
}

RandomScope::~RandomScope() {
  if (state_->included) own_generator = nullptr;
}

}  // namespace cohort::parallel
