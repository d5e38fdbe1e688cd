#include "cohort/report/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/report/event_record.h"
#include "cohort/report/histogram.h"

namespace cohort::report {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

AppendFile new_event_file(const std::filesystem::path& folder) {
  auto time = static_cast<std::int64_t>(seconds_since_1970());
  for (int number = 0;; ++number) {
    auto name =
        fmt::format("events.out.tfevents.{:010}.{}.{}.{}", time, host_name(), ::getpid(), number);
    try {
      return AppendFile(folder / name, AppendFile::Open::unique);
    } catch (const SystemError& error) {
      if (error.code() != EEXIST) throw;  // another writer of this process has that number
    }
  }
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder) : file_(new_event_file(folder)) {
  write_record(
      Proto().number(kEventTime, seconds_since_1970()).text(kEventVersion, "brain.Event:2"));
}

void EventWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  write_value(Proto().text(kValueTag, tag).number(kValueSimple, static_cast<float>(value)), step);
}

template <typename T>
void EventWriter::write_histogram(std::string_view tag, std::span<const T> values,
                                  std::int64_t step) {
  Histogram histogram;
  histogram.add(values);
  write_value(Proto().text(kValueTag, tag).message(kValueHistogram, histogram.encode()), step);
  if (histogram.non_finite() > 0)
    scalar(fmt::format("{}/non_finite", tag), static_cast<double>(histogram.non_finite()), step);
}

void EventWriter::histogram(std::string_view tag, std::span<const float> values,
                            std::int64_t step) {
  write_histogram(tag, values, step);
}

void EventWriter::histogram(std::string_view tag, std::span<const double> values,
                            std::int64_t step) {
  write_histogram(tag, values, step);
}

void EventWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  Proto tensor;
  tensor.integer(kTensorType, kTypeString)
      .message(kTensorShape, {})  // a scalar
      .text(kTensorString, markdown);
  Proto metadata;
  metadata.message(kMetadataPlugin, Proto().text(kPluginName, "text"))
      .integer(kMetadataClass, kClassTensor);
  write_value(
      Proto().text(kValueTag, tag).message(kValueMetadata, metadata).message(kValueTensor, tensor),
      step);
}

void EventWriter::hyperparameters(const HyperParameters& parameters,
                                  const std::vector<std::string>& metrics) {
  double now = seconds_since_1970();
  write_hparams(experiment_entry(parameters, metrics, now));
  write_hparams(session_start_entry(parameters, now));
}

void EventWriter::end_session(SessionStatus status) {
  write_hparams(session_end_entry(status, seconds_since_1970()));
}

void EventWriter::write_hparams(const HparamsEntry& entry) {
  Proto metadata;
  metadata.message(kMetadataPlugin,
                   Proto().text(kPluginName, "hparams").message(kPluginContent, entry.content));
  // The metadata says it all; a value without a tensor would be dropped by readers.
  Proto no_numbers;
  no_numbers.integer(kTensorType, kTypeFloat)
      .message(kTensorShape, Proto().message(kShapeDimension, {}));
  write_value(Proto()
                  .text(kValueTag, entry.tag)
                  .message(kValueMetadata, metadata)
                  .message(kValueTensor, no_numbers),
              0);
}

void EventWriter::write_value(const Proto& value, std::int64_t step) {
  write_record(Proto()
                   .number(kEventTime, seconds_since_1970())
                   .integer(kEventStep, static_cast<std::uint64_t>(step))
                   .message(kEventSummary, Proto().message(kSummaryValue, value)));
}

void EventWriter::write_record(const Proto& event) {
  const std::string& data = event.bytes();
  std::string record;
  ByteWriter writer(record);
  writer.integer(std::uint64_t{data.size()});
  writer.integer(masked_crc(record));
  record += data;
  writer.integer(masked_crc(data));
  file_.append(record);
}

}  // namespace cohort::report
