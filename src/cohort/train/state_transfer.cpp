#include "cohort/train/state_transfer.h"

#include <algorithm>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"

namespace cohort::train {

namespace {

using collective::DataType;
using collective::Group;

constexpr std::size_t kPiece = 8 << 20;  // so that neither side holds the messages of others up

void send_bytes(Group& group, std::string_view bytes, int peer, Deadline deadline) {
  for (std::size_t at = 0; at < bytes.size(); at += kPiece)
    group.send(bytes.data() + at, std::min(kPiece, bytes.size() - at), DataType::u8, peer,
               {deadline});
}

void receive_bytes(Group& group, char* to, std::size_t size, int peer, Deadline deadline) {
  for (std::size_t at = 0; at < size; at += kPiece)
    group.recv(to + at, std::min(kPiece, size - at), DataType::u8, peer, {deadline});
}

void send_text(Group& group, const std::string& text, int peer, Deadline deadline) {
  const auto size = static_cast<std::int64_t>(text.size());
  group.send(&size, 1, DataType::i64, peer, {deadline});
  send_bytes(group, text, peer, deadline);
}

std::string receive_text(Group& group, int peer, Deadline deadline) {
  std::int64_t size = 0;
  group.recv(&size, 1, DataType::i64, peer, {deadline});
  std::string text(static_cast<std::size_t>(size), '\0');
  receive_bytes(group, text.data(), text.size(), peer, deadline);
  return text;
}

std::int64_t checksum(const torch::Tensor& tensor) {
  return static_cast<std::int64_t>(crc32c(bytes_of(tensor).data(), tensor.nbytes()));
}

}  // namespace

StateSender::StateSender(Group& group, std::vector<int> receivers, const nlohmann::json& image,
                         NamedTensors tensors, Deadline deadline) {
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(image);
  thread_ = std::jthread([this, &group, receivers = std::move(receivers),
                          text = std::string(cbor.begin(), cbor.end()),
                          tensors = std::move(tensors), deadline] {
    try {
      run(group, receivers, text, tensors, deadline);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void StateSender::run(Group& group, const std::vector<int>& receivers, const std::string& image,
                      const NamedTensors& tensors, Deadline deadline) {
  for (const int peer : receivers) {
    send_text(group, image, peer, deadline);
    send_text(group, describe_tensors(tensors), peer, deadline);
  }
  // Tensor by tensor, so that all receivers are done soon after the last.
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor here = on_cpu(tensor);
    const std::int64_t sum = checksum(here);
    for (const int peer : receivers) {
      send_bytes(group, bytes_of(here), peer, deadline);
      group.send(&sum, 1, DataType::i64, peer, {deadline});
    }
  }
}

void StateSender::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
}

StateReceiver::StateReceiver(Group& group, int sender, Deadline deadline,
                             std::function<void()> on_begun) {
  const std::string text = receive_text(group, sender, deadline);
  image_ = nlohmann::json::from_cbor(text.begin(), text.end());
  thread_ = std::jthread([this, &group, sender, deadline, begun = std::move(on_begun)] {
    try {
      if (begun) begun();
      run(group, sender, deadline);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void StateReceiver::run(Group& group, int sender, Deadline deadline) {
  tensors_ = allocate_tensors(receive_text(group, sender, deadline));
  for (auto& [name, tensor] : tensors_) {
    receive_bytes(group, static_cast<char*>(tensor.data_ptr()), tensor.nbytes(), sender, deadline);
    std::int64_t sum = 0;
    group.recv(&sum, 1, DataType::i64, sender, {deadline});
    if (checksum(tensor) != sum)
      throw Error(fmt::format("{} was damaged on its way from replica {}", name, sender),
                  {.during = "copying the training's state"});
  }
}

NamedTensors StateReceiver::take() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
  return std::move(tensors_);
}

}  // namespace cohort::train
