#include "cohort/train/data/csv_reader.h"

#include <string_view>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::train {
namespace {

constexpr std::size_t kCsvBuffer = 256 * 1024;
constexpr std::size_t kMostFieldBytes = 16 << 20;  // a quote that is never closed ends here

}  // namespace

CsvReader::CsvReader(DataFile file, char separator)
    : reader_(std::move(file)), separator_(separator), buffer_(kCsvBuffer) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw InvalidInput("a CSV file's separator cannot be a quote or a line end");
  skip_byte_order_mark();
}

void CsvReader::refuse(std::size_t column, const std::string& name,
                       const std::string& problem) const {
  const std::string shown = name.empty() ? "" : fmt::format(" ('{}')", escape_controls(name));
  reader_.file().refuse(
      fmt::format("line {}, column {}{}: {}", row_line_, column + 1, shown, problem));
}

void CsvReader::refuse_row(const std::string& problem) const {
  reader_.file().refuse(fmt::format("line {}: {}", row_line_, problem));
}

std::optional<char> CsvReader::peek() {
  if (next_ == filled_) {
    filled_ = reader_.read_some(buffer_);
    next_ = 0;
    if (filled_ == 0) return std::nullopt;
  }
  return static_cast<char>(buffer_[next_]);
}

std::optional<char> CsvReader::take() {
  const auto letter = peek();
  if (letter) ++next_;
  if (letter == '\n') ++line_;
  return letter;
}

void CsvReader::skip_byte_order_mark() {
  peek();
  const std::string_view begin(reinterpret_cast<const char*>(buffer_.data()), filled_);
  if (begin.starts_with("\xef\xbb\xbf")) next_ = 3;
}

void CsvReader::read_quoted(Field& field) {
  take();
  field.quoted = true;
  while (true) {
    const auto letter = take();
    if (!letter || field.text.size() > kMostFieldBytes)
      refuse(fields_.size() - 1, "", "a quote that begins here is not closed");
    if (*letter != '"') {
      field.text += *letter;
    } else if (peek() == '"') {
      field.text += *take();
    } else {
      break;
    }
  }
}

void CsvReader::read_field(Field& field) {
  if (peek() == '"') read_quoted(field);
  while (true) {
    const auto letter = peek();
    if (!letter || *letter == separator_ || *letter == '\n') return;
    take();
    if (*letter == '\r' && (!peek() || peek() == '\n')) return;
    if (field.quoted) refuse(fields_.size() - 1, "", "text follows a closing quote");
    field.text += *letter;
    if (field.text.size() > kMostFieldBytes)
      refuse(fields_.size() - 1, "", "a field of more than 16 MiB");
  }
}

const std::vector<CsvReader::Field>* CsvReader::next() {
  do {
    if (!peek()) return nullptr;
    row_line_ = line_;
    fields_.clear();
    do {
      fields_.emplace_back();
      read_field(fields_.back());
    } while (peek() == separator_ && take());
    take();  // the line's end
  } while (fields_.size() == 1 && fields_[0].text.empty() && !fields_[0].quoted);
  return &fields_;
}

}  // namespace cohort::train
