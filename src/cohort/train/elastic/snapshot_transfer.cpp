#include "cohort/train/elastic/snapshot_transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::elastic {

namespace {

using collective::CallOptions;
using collective::DataType;
using collective::Group;

constexpr std::size_t kPiece = 8 << 20;  // so that neither side holds the messages of others up

void send_bytes(Group& group, std::string_view bytes, int peer, const CallOptions& options) {
  for (std::size_t at = 0; at < bytes.size(); at += kPiece)
    group.send(bytes.data() + at, std::min(kPiece, bytes.size() - at), DataType::u8, peer, options);
}

void receive_bytes(Group& group, char* to, std::size_t size, int peer, const CallOptions& options) {
  for (std::size_t at = 0; at < size; at += kPiece)
    group.recv(to + at, std::min(kPiece, size - at), DataType::u8, peer, options);
}

void send_text(Group& group, const std::string& text, int peer, const CallOptions& options) {
  const auto size = static_cast<std::int64_t>(text.size());
  group.send(&size, 1, DataType::i64, peer, options);
  send_bytes(group, text, peer, options);
}

std::string receive_text(Group& group, int peer, const CallOptions& options) {
  std::int64_t size = 0;
  group.recv(&size, 1, DataType::i64, peer, options);
  std::string text(static_cast<std::size_t>(size), '\0');
  receive_bytes(group, text.data(), text.size(), peer, options);
  return text;
}

std::int64_t checksum_of(const torch::Tensor& tensor) {
  return static_cast<std::int64_t>(crc32c(train::bytes_of(tensor).data(), tensor.nbytes()));
}

void send(Group& group, const std::vector<int>& receivers, const TrainingSnapshot& snapshot,
          const CallOptions& options) {
  std::string values;
  nlohmann::json::to_cbor(snapshot.values, values);
  for (const int peer : receivers) {
    send_text(group, values, peer, options);
    send_text(group, train::describe_tensors(snapshot.tensors), peer, options);
  }
  // Tensor by tensor, so that all receivers are done soon after the last.
  for (const auto& [name, tensor] : snapshot.tensors) {
    const torch::Tensor here = train::on_cpu(tensor);
    const std::int64_t sum = checksum_of(here);
    for (const int peer : receivers) {
      send_bytes(group, train::bytes_of(here), peer, options);
      group.send(&sum, 1, DataType::i64, peer, options);
    }
  }
}

}  // namespace

SnapshotSender::SnapshotSender(Group& group, std::vector<int> receivers, TrainingSnapshot snapshot,
                               CallOptions options)
    : thread_([this, &group, receivers = std::move(receivers), snapshot = std::move(snapshot),
               options = std::move(options)] {
        try {
          send(group, receivers, snapshot, options);
        } catch (...) {
          error_ = std::current_exception();
        }
      }) {}

void SnapshotSender::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
}

SnapshotReceiver::SnapshotReceiver(Group& group, int sender, CallOptions options,
                                   std::function<void()> on_begun) {
  values_ = nlohmann::json::from_cbor(receive_text(group, sender, options));
  thread_ = std::jthread(
      [this, &group, sender, options = std::move(options), begun = std::move(on_begun)] {
        try {
          if (begun) begun();
          run(group, sender, options);
        } catch (...) {
          error_ = std::current_exception();
        }
      });
}

void SnapshotReceiver::run(Group& group, int sender, const CallOptions& options) {
  tensors_ = train::allocate_tensors(receive_text(group, sender, options));
  for (auto& [name, tensor] : tensors_) {
    receive_bytes(group, static_cast<char*>(tensor.data_ptr()), tensor.nbytes(), sender, options);
    std::int64_t sum = 0;
    group.recv(&sum, 1, DataType::i64, sender, options);
    if (checksum_of(tensor) != sum)
      throw PeerError(fmt::format("{} was damaged on its way from replica {}", name, sender),
                      {.during = "copying the training's state"});
  }
}

train::TensorMap SnapshotReceiver::take() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
  return std::move(tensors_);
}

}  // namespace cohort::elastic
