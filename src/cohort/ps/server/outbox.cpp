#include "cohort/ps/server/outbox.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

void Outbox::attach(ServerState& state, bool shared, WireType wire, std::uint64_t& bytes_out) {
  state_ = &state;
  shared_ = shared;
  wire_ = wire;
  bytes_out_ = &bytes_out;
}

int Outbox::slices() const {
  return state_ == nullptr ? 0 : static_cast<int>(state_->slices().size());
}

void Outbox::add(Message message, std::string bulk, int file) {
  if (closed_) return;
  replies_.push_back({std::move(message), std::move(bulk), file});
  changed_();
}

void Outbox::add_values(int slice, const Settled& push) {
  if (closed_) return;
  values_[slice] = push;
  changed_();
}

void Outbox::add_pull(const Pull& pull) {
  if (closed_) return;
  pulls_.push_back({pull, slices() - 1});
  changed_();
}

void Outbox::add_copy(Message message, std::string bulk) {
  if (!closed_) copies_.push_back({std::move(message), std::move(bulk)});
}

void Outbox::end_copy(Message message, std::function<void()> sent) {
  if (closed_) return;
  copies_.push_back({std::move(message), {}});
  copy_sent_ = std::move(sent);
  changed_();
}

void Outbox::close(Refused refused) {
  if (std::exchange(closed_, true)) return;
  replies_.clear();
  values_.clear();
  pulls_.clear();
  copies_.clear();
  replies_.push_back({std::move(refused), {}});
  changed_();
}

void Outbox::give(Outgoing& out, Reply reply) {
  current_ = std::move(reply);
  encode_into(current_.message, out.control);
  out.bulk = reinterpret_cast<const std::byte*>(current_.bulk.data());
  out.bulk_bytes = current_.bulk.size();
  out.file = current_.file;
  if (bytes_out_ != nullptr) *bytes_out_ += current_.bulk.size();
}

void Outbox::give_values(Outgoing& out, int slice, Values values, const std::byte* from) {
  values.slice = state_->slice_numbers()[static_cast<std::size_t>(slice)];
  encode_into(values, out.control);
  out.bulk = nullptr;
  out.bulk_bytes = 0;
  out.file = -1;
  if (shared_) return;
  const SliceShape& shape = state_->segment().shape(slice);
  out.bulk_bytes = wire_bytes(shape.type, wire_, shape.elements);
  if (buffer_.size() < out.bulk_bytes) buffer_.resize(out.bulk_bytes);
  to_wire(from, shape.type, wire_, shape.elements, buffer_.data());
  out.bulk = buffer_.data();
  *bytes_out_ += out.bulk_bytes;
}

void Outbox::give_pulled(Outgoing& out, const Pull& pull, int slice) {
  Segment& segment = state_->segment();
  Values values{0, pull.request, segment.version(slice), Values::Reason::pulled};
  const std::byte* from = segment.current(slice).values;
  if (pull.before != 0 && values.version == pull.before)
    if (const auto previous = segment.previous(slice)) {
      from = previous->values;
      --values.version;
    }
  give_values(out, slice, values, from);
}

bool Outbox::next(Outgoing& out) {
  if (!replies_.empty()) {
    give(out, std::move(replies_.front()));
    replies_.pop_front();
    return true;
  }
  if (!values_.empty()) {
    const auto [slice, push] = *values_.begin();
    values_.erase(values_.begin());
    Segment& segment = state_->segment();
    give_values(out, slice, {0, push.sequence, segment.version(slice), push.reason},
                segment.current(slice).values);
    return true;
  }
  if (!pulls_.empty()) {
    WholePull& whole = pulls_.front();
    if (whole.next >= 0) {
      give_pulled(out, whole.pull, whole.next--);
    } else {
      give(out, {PullDone{whole.pull.request}, {}});
      pulls_.pop_front();
    }
    return true;
  }
  if (!copies_.empty()) {
    give(out, std::move(copies_.front()));
    copies_.pop_front();
    if (copies_.empty() && copy_sent_) std::exchange(copy_sent_, nullptr)();
    return true;
  }
  return false;
}

}  // namespace cohort::ps
