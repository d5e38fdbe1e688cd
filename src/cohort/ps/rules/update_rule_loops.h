#pragma once

#include "cohort/ps/rules/square_roots.h"
#include "cohort/ps/rules/update_rule_table.h"

// torch::optim's rules for the instruction set that the including unit is built for: one pass over
// memory each (rules with a square root take it in portions that stay in the first cache), loops
// that the compiler turns into vectors. Everything is in an unnamed namespace
// and nothing from the standard library is called: a unit built for AVX-512 must not leave
// functions for the linker to share.
//
// Where an operation is written as fma() LibTorch's loops fuse it too: add with a factor (x + a y),
// and addcmul (x + (a y) z). mul_, addcdiv and everything else round after each operation. Scalars
// are computed in double and rounded once, to the element type, where LibTorch rounds them.
namespace cohort::ps {
namespace {

#define COHORT_INLINE [[gnu::always_inline]] inline

#if defined(__FMA__)
COHORT_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
COHORT_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
COHORT_INLINE float fma(float a, float b, float c) { return a * b + c; }
COHORT_INLINE double fma(double a, double b, double c) { return a * b + c; }
#endif
COHORT_INLINE float root(float x) { return __builtin_sqrtf(x); }
COHORT_INLINE double root(double x) { return __builtin_sqrt(x); }

// torch's max: a NaN stays.
template <typename T>
COHORT_INLINE T larger(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}

// Adding kStep to the exponent carries into the top bit only where it is all ones.
template <typename T>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits kMask = 0x7f800000u, kStep = 0x00800000u, kTop = 0x80000000u;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits kMask = 0x7ff0000000000000u, kStep = 0x0010000000000000u,
                        kTop = 0x8000000000000000u;
};

// One element: what `step` reads and writes.
template <typename T>
struct Cell {
  T gradient, value, slot0, slot1, slot2;
};

template <typename T>
struct Arrays {
  explicit Arrays(const Update& u)
      : gradient(reinterpret_cast<const T*>(u.gradient)),
        values(reinterpret_cast<const T*>(u.values)),
        slot0(reinterpret_cast<const T*>(u.slots[0])),
        slot1(reinterpret_cast<const T*>(u.slots[1])),
        slot2(reinterpret_cast<const T*>(u.slots[2])),
        new_values(reinterpret_cast<T*>(u.new_values)),
        new_slot0(reinterpret_cast<T*>(u.new_slots[0])),
        new_slot1(reinterpret_cast<T*>(u.new_slots[1])),
        new_slot2(reinterpret_cast<T*>(u.new_slots[2])) {}

  const T *gradient, *values, *slot0, *slot1, *slot2;
  T *new_values, *new_slot0, *new_slot1, *new_slot2;
};

template <typename T>
COHORT_INLINE typename Exponent<T>::Bits carry_of(T gradient) {
  const auto bits = __builtin_bit_cast(typename Exponent<T>::Bits, gradient);
  return (bits & Exponent<T>::kMask) + Exponent<T>::kStep;
}

// step(cell) makes the new element, which has one slot or none. True when every gradient was
// finite.
template <typename T, bool kSlot, typename Step>
COHORT_INLINE bool run(const Update& u, const Step& step) {
  const Arrays<T> a(u);
  const std::size_t n = u.elements;
  typename Exponent<T>::Bits carries = 0;
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    Cell<T> cell{};
    cell.gradient = a.gradient[i];
    cell.value = a.values[i];
    if constexpr (kSlot) cell.slot0 = a.slot0[i];
    carries |= carry_of(cell.gradient);
    step(cell);
    a.new_values[i] = cell.value;
    if constexpr (kSlot) a.new_slot0[i] = cell.slot0;
  }
  return (carries & Exponent<T>::kTop) == 0;
}

// The same for rules with a square root: square(cell) makes the new slots and returns what to take
// the root of, step(cell, root) makes the new value from them. kLate: slot 1 is step()'s to change.
template <typename T, int kSlots, bool kLate, typename Square, typename Step>
COHORT_INLINE bool run_with_roots(const Update& u, const Square& square, const Step& step) {
  constexpr std::size_t kPortion = 4096 / sizeof(T);
  alignas(64) T roots[kPortion];
  const Arrays<T> a(u);
  typename Exponent<T>::Bits carries = 0;
  for (std::size_t begin = 0; begin < u.elements; begin += kPortion) {
    const std::size_t n = u.elements - begin < kPortion ? u.elements - begin : kPortion;
#pragma GCC ivdep
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t i = begin + j;
      Cell<T> cell{};
      cell.gradient = a.gradient[i];
      cell.value = a.values[i];
      cell.slot0 = a.slot0[i];
      if constexpr (kSlots > 1 && !kLate) cell.slot1 = a.slot1[i];
      if constexpr (kSlots > 2) cell.slot2 = a.slot2[i];
      carries |= carry_of(cell.gradient);
      roots[j] = square(cell);
      a.new_slot0[i] = cell.slot0;
      if constexpr (kSlots > 1 && !kLate) a.new_slot1[i] = cell.slot1;
      if constexpr (kSlots > 2) a.new_slot2[i] = cell.slot2;
    }
    if (!torch_square_roots(roots, n))
      for (std::size_t j = 0; j < n; ++j) roots[j] = root(roots[j]);
#pragma GCC ivdep
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t i = begin + j;
      Cell<T> cell{};
      cell.gradient = a.gradient[i];
      cell.value = a.values[i];
      cell.slot0 = a.new_slot0[i];
      if constexpr (kLate) cell.slot1 = a.slot1[i];
      step(cell, roots[j]);
      a.new_values[i] = cell.value;
      if constexpr (kLate) a.new_slot1[i] = cell.slot1;
    }
  }
  return (carries & Exponent<T>::kTop) == 0;
}

template <bool kValue>
struct Constant {
  static constexpr bool value = kValue;
};
// Calls f with a constant, so that the loop has no branch.
template <typename F>
COHORT_INLINE bool choose(bool condition, const F& f) {
  return condition ? f(Constant<true>{}) : f(Constant<false>{});
}

// Weight decay as most rules have it: a part of the value in the gradient.
template <typename T, typename Decays>
COHORT_INLINE T decayed(Decays, const Cell<T>& c, T decay) {
  return Decays::value ? fma(c.value, decay, c.gradient) : c.gradient;
}

template <typename T>
bool replace(const Update& u) {
  return run<T, false>(u, [](Cell<T>& c) { c.value = c.gradient; });
}

template <typename T>
bool sgd(const UpdateRule& rule, const Update& u) {
  const T decay = static_cast<T>(rule.weight_decay);
  const T momentum = static_cast<T>(rule.momentum);
  const T share = static_cast<T>(1 - rule.dampening);
  const T minus_lr = static_cast<T>(-1 * u.lr);
  return choose(rule.weight_decay != 0, [&](auto decays) {
    if (rule.momentum == 0)
      return run<T, false>(
          u, [=](Cell<T>& c) { c.value = fma(decayed(decays, c, decay), minus_lr, c.value); });
    return choose(rule.nesterov, [&](auto nesterov) {
      return choose(u.number == 1, [&](auto first) {
        return run<T, true>(u, [=](Cell<T>& c) {
          const T d = decayed(decays, c, decay);
          c.slot0 = first.value ? d : fma(d, share, c.slot0 * momentum);
          const T move = nesterov.value ? fma(c.slot0, momentum, d) : c.slot0;
          c.value = fma(move, minus_lr, c.value);
        });
      });
    });
  });
}

template <typename T>
bool adagrad(const UpdateRule& rule, const Update& u) {
  const T decay = static_cast<T>(rule.weight_decay);
  const T eps = static_cast<T>(rule.eps);
  const T minus_lr =
      static_cast<T>(-(u.lr / (1 + static_cast<double>(u.number - 1) * rule.lr_decay)));
  return choose(rule.weight_decay != 0, [&](auto decays) {
    const auto square = [=](Cell<T>& c) {
      const T d = decayed(decays, c, decay);
      return c.slot0 = fma(d, d, c.slot0);
    };
    const auto step = [=](Cell<T>& c, T root) {
      c.value = c.value + minus_lr * decayed(decays, c, decay) / (root + eps);
    };
    return run_with_roots<T, 1, false>(u, square, step);
  });
}

// adam: weight decay is added to the gradient; adamw: it shrinks the value first.
template <typename T>
bool adam(const UpdateRule& rule, const Update& u) {
  const double number = static_cast<double>(u.number);
  const bool decoupled = rule.kind == UpdateRule::Kind::adamw;
  const T decay = static_cast<T>(rule.weight_decay);
  const T keep = static_cast<T>(1 - u.lr * rule.weight_decay);
  const T beta1 = static_cast<T>(rule.beta1);
  const T beta2 = static_cast<T>(rule.beta2);
  const T share1 = static_cast<T>(1 - rule.beta1);
  const T share2 = static_cast<T>(1 - rule.beta2);
  const T correction2 = static_cast<T>(__builtin_sqrt(1 - __builtin_pow(rule.beta2, number)));
  const T eps = static_cast<T>(rule.eps);
  const T minus_lr = static_cast<T>(-(u.lr / (1 - __builtin_pow(rule.beta1, number))));
  return choose(rule.weight_decay != 0 && !decoupled, [&](auto decays) {
    return choose(rule.weight_decay != 0 && decoupled, [&](auto shrinks) {
      return choose(rule.amsgrad, [&](auto amsgrad) {
        const auto square = [=](Cell<T>& c) {
          const T d = decayed(decays, c, decay);
          c.slot0 = fma(d, share1, c.slot0 * beta1);
          c.slot1 = fma(share2 * d, d, c.slot1 * beta2);
          if constexpr (amsgrad.value) c.slot2 = larger(c.slot1, c.slot2);
          return amsgrad.value ? c.slot2 : c.slot1;
        };
        const auto step = [=](Cell<T>& c, T root) {
          const T old = shrinks.value ? c.value * keep : c.value;
          c.value = old + minus_lr * c.slot0 / (root / correction2 + eps);
        };
        return run_with_roots < T, amsgrad.value ? 3 : 2, false > (u, square, step);
      });
    });
  });
}

// Slots: square_avg, then momentum_buffer and grad_avg as far as there are.
template <typename T>
bool rmsprop(const UpdateRule& rule, const Update& u) {
  const T decay = static_cast<T>(rule.weight_decay);
  const T alpha = static_cast<T>(rule.alpha);
  const T share = static_cast<T>(1 - rule.alpha);
  const T momentum = static_cast<T>(rule.momentum);
  const T eps = static_cast<T>(rule.eps);
  const T minus_lr = static_cast<T>(-u.lr);
  return choose(rule.weight_decay != 0, [&](auto decays) {
    return choose(rule.momentum > 0, [&](auto moves) {
      return choose(rule.centered, [&](auto centered) {
        const auto square = [=](Cell<T>& c) {
          const T d = decayed(decays, c, decay);
          c.slot0 = fma(share * d, d, c.slot0 * alpha);
          if constexpr (!centered.value) return c.slot0;
          T& mean = moves.value ? c.slot2 : c.slot1;
          mean = fma(d, share, mean * alpha);
          return fma(-mean, mean, c.slot0);
        };
        const auto step = [=](Cell<T>& c, T root) {
          const T d = decayed(decays, c, decay);
          if constexpr (moves.value) {
            c.slot1 = c.slot1 * momentum + d / (root + eps);
            c.value = fma(c.slot1, minus_lr, c.value);
          } else {
            c.value = c.value + minus_lr * d / (root + eps);
          }
        };
        constexpr int kSlots = 1 + (moves.value ? 1 : 0) + (centered.value ? 1 : 0);
        return run_with_roots<T, kSlots, moves.value>(u, square, step);
      });
    });
  });
}

template <typename T>
bool apply_typed(const UpdateRule& rule, const Update& update) {
  switch (rule.kind) {
    case UpdateRule::Kind::replace:
      return replace<T>(update);
    case UpdateRule::Kind::sgd:
      return sgd<T>(rule, update);
    case UpdateRule::Kind::adagrad:
      return adagrad<T>(rule, update);
    case UpdateRule::Kind::adam:
    case UpdateRule::Kind::adamw:
      return adam<T>(rule, update);
    case UpdateRule::Kind::rmsprop:
      return rmsprop<T>(rule, update);
  }
  return false;
}

bool apply_here(const UpdateRule& rule, const Update& update) {
  return update.type == ElementType::f32 ? apply_typed<float>(rule, update)
                                         : apply_typed<double>(rule, update);
}

}  // namespace
}  // namespace cohort::ps
