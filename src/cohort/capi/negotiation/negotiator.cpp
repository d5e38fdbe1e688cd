#include "cohort/capi/negotiation/negotiator.h"

#include <algorithm>

namespace cohort::capi {

namespace {

// An item of news.
constexpr std::uint8_t kAsRemembered = 0;  // then its number
constexpr std::uint8_t kWhole = 1;         // then a signature

bool allows_joined(const Signature& signature) {
  return (signature.kind == Kind::all_reduce && signature.op != COHORT_ADASUM) ||
         signature.kind == Kind::barrier || signature.kind == Kind::join;
}

}  // namespace

const Signature& Unit::any() const {
  return **std::find_if(ranks.begin(), ranks.end(), [](const auto& s) { return s != nullptr; });
}

Negotiator::Negotiator(int rank, int size, std::size_t capacity)
    : rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      capacity_(capacity),
      joined_(size_, false) {}

std::string Negotiator::news(std::span<const SignatureRef> fresh) const {
  std::string bytes;
  FieldWriter out(bytes);
  for (const SignatureRef& signature : fresh) {
    const auto number = numbers_.find(key_of(signature->kind, signature->name));
    if (number != numbers_.end()) {
      const SignatureRef& last = memory_[number->second].ranks[rank_];
      if (last && *last == *signature) {
        out(kAsRemembered), out(number->second);
        continue;
      }
    }
    out(kWhole), out(*signature);
  }
  return bytes;
}

// This rank's own were checked when they were submitted.
void Negotiator::check(const Signature& signature, std::size_t rank) const {
  if (rank == rank_) return;
  try {
    check_signature(signature, static_cast<int>(size_));
  } catch (const InvalidInput& error) {
    throw ProtocolError(
        fmt::format("rank {} sent a request that is none: {}", rank, error.message()),
        {.advice = "Run the same version of Cohort on all hosts."});
  }
}

std::vector<SignatureRef> Negotiator::read(std::size_t rank, std::string_view news) const {
  std::vector<SignatureRef> requests;
  FieldReader in(news);
  while (in.remaining() > 0) {
    std::uint8_t how = 0;
    in(how);
    if (how == kWhole) {
      auto signature = std::make_shared<Signature>();
      in(*signature);
      check(*signature, rank);
      requests.push_back(std::move(signature));
      continue;
    }
    std::uint16_t number = 0;
    in(number);
    if (how != kAsRemembered || number >= memory_.size() || !memory_[number].ranks[rank])
      throw ProtocolError(fmt::format("rank {} names a request that no rank remembers", rank),
                          {.advice = "Run the same version of Cohort on all hosts."});
    requests.push_back(memory_[number].ranks[rank]);
  }
  return requests;
}

std::vector<Unit> Negotiator::round(std::span<const std::string_view> news) {
  COHORT_CHECK(news.size() == size_, "news of {} ranks, not {}", news.size(), size_);
  // All are read before one is used: numbers mean what they meant when they were written.
  std::vector<std::vector<SignatureRef>> requests(size_);
  for (std::size_t rank = 0; rank < size_; ++rank) requests[rank] = read(rank, news[rank]);
  std::vector<Unit> ready;
  for (std::size_t rank = 0; rank < size_; ++rank)
    for (SignatureRef& signature : requests[rank]) add(rank, std::move(signature), ready);
  return ready;
}

void Negotiator::add(std::size_t rank, SignatureRef signature, std::vector<Unit>& ready) {
  const Kind kind = signature->kind;
  const std::string key = key_of(kind, signature->name);
  Pending& pending = pending_[key];
  if (pending.ranks.empty()) {
    pending = {.kind = kind, .name = signature->name, .ranks = {}, .arrival = ++arrivals_};
    pending.ranks.resize(size_);
  }
  if (pending.ranks[rank])
    throw ProtocolError(
        fmt::format("rank {} submitted {} '{}' twice", rank, to_string(kind), signature->name));
  pending.ranks[rank] = std::move(signature);
  ++pending.count;
  if (rank == rank_) ++own_;
  if (kind == Kind::join) {
    joined_[rank] = true;
    ++joined_count_;
    last_joined_ = static_cast<int>(rank);
    add_those_complete(ready);
    return;
  }
  if (!is_complete(pending)) return;
  Pending whole = std::move(pending);
  pending_.erase(key);
  ready.push_back(finish(key, std::move(whole)));
}

bool Negotiator::is_complete(const Pending& pending) const {
  if (pending.kind == Kind::join || joined_count_ == 0) return pending.count == size_;
  for (std::size_t rank = 0; rank < size_; ++rank)
    if (!pending.ranks[rank] && !joined_[rank]) return false;
  return true;
}

// After a join: what waited for that rank only, in order of arrival; the joins last.
void Negotiator::add_those_complete(std::vector<Unit>& ready) {
  std::vector<std::pair<std::uint64_t, std::string>> complete;
  for (const auto& [key, pending] : pending_)
    if (is_complete(pending))
      complete.emplace_back(pending.kind == Kind::join ? UINT64_MAX : pending.arrival, key);
  std::sort(complete.begin(), complete.end());
  for (const auto& [arrival, key] : complete) {
    auto node = pending_.extract(key);
    ready.push_back(finish(key, std::move(node.mapped())));
  }
}

Unit Negotiator::finish(const std::string& key, Pending pending) {
  if (pending.ranks[rank_]) --own_;
  Unit unit{.kind = pending.kind,
            .name = std::move(pending.name),
            .ranks = std::move(pending.ranks),
            .mismatch = {}};
  if (unit.kind == Kind::join) {
    unit.last_joined = last_joined_;
    joined_.assign(size_, false);
    joined_count_ = 0;
    return unit;
  }
  const auto number = numbers_.find(key);
  if (number != numbers_.end() && memory_[number->second].ranks == unit.ranks) {
    memory_[number->second].used = ++uses_;  // they agreed on these very signatures before
    return unit;
  }
  unit.mismatch = find_mismatch(unit.ranks);
  if (unit.mismatch.empty() && pending.count < size_ && !allows_joined(unit.any())) {
    const auto out = std::find(unit.ranks.begin(), unit.ranks.end(), nullptr);
    unit.mismatch = fmt::format(
        "{} '{}' is not possible while a rank has joined, as rank {} has: only allreduce (not "
        "adasum) and barrier are",
        to_string(unit.kind), unit.name, out - unit.ranks.begin());
  }
  if (unit.mismatch.empty() && unit.kind < Kind::add_set) remember(key, unit.ranks);
  return unit;
}

void Negotiator::remember(const std::string& key, const std::vector<SignatureRef>& ranks) {
  if (capacity_ == 0) return;
  auto number = numbers_.find(key);
  if (number == numbers_.end()) {
    std::size_t place = memory_.size();
    if (place < capacity_) {
      memory_.emplace_back();
    } else {
      const auto oldest =
          std::min_element(memory_.begin(), memory_.end(),
                           [](const auto& a, const auto& b) { return a.used < b.used; });
      place = static_cast<std::size_t>(oldest - memory_.begin());
      numbers_.erase(oldest->key);
    }
    memory_[place].key = key;
    number = numbers_.emplace(key, static_cast<std::uint16_t>(place)).first;
  }
  memory_[number->second].ranks = ranks;
  memory_[number->second].used = ++uses_;
}

// Joins do not count: a rank joins when it has no more data, which may be in hours.
bool Negotiator::is_behind() const {
  if (joined_[rank_]) return false;
  return own_ + (joined_count_ > 0 ? 1 : 0) < pending_.size();
}

std::vector<int> Negotiator::missing(Kind kind, const std::string& name) const {
  std::vector<int> ranks;
  const auto found = pending_.find(key_of(kind, name));
  if (found == pending_.end()) return ranks;
  for (std::size_t rank = 0; rank < size_; ++rank)
    if (!found->second.ranks[rank] && !(joined_[rank] && kind != Kind::join))
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace cohort::capi
