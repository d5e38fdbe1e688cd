// The collectives of ops.h that hand out rows: all_gather, reduce_scatter, all_to_all.
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/parallel/tensors/ops.h"
#include "cohort/parallel/tensors/tensor_staging.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::parallel {

namespace {

// The first dimension; 1 for a scalar.
std::int64_t rows_of(const torch::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

std::vector<std::int64_t> row_shape_of(const torch::Tensor& tensor) {
  return tensor.dim() == 0 ? std::vector<std::int64_t>() : tensor.sizes().slice(1).vec();
}

// Elements of the moving type in one row.
std::size_t row_elements(const torch::Tensor& tensor) {
  const auto shape = row_shape_of(tensor);
  return std::accumulate(shape.begin(), shape.end(), moving_factor_of(tensor.scalar_type()),
                         [](std::size_t product, std::int64_t size) {
                           return product * static_cast<std::size_t>(size);
                         });
}

std::string describe_row(const torch::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : row_shape_of(tensor)) sizes.push_back(std::to_string(size));
  return fmt::format("{} rows of [{}]", torch::toString(tensor.scalar_type()), join(sizes, ", "));
}

// What each rank says of its tensor: "<rows>\n<text>" with rows that must be alike on all ranks.
// Every rank reads the same, so all refuse or none.
std::vector<std::string> exchange_rows(collective::Group& group, const torch::Tensor& tensor,
                                       const std::string& text, const char* call,
                                       const CallOptions& options) {
  std::vector<std::string> texts;
  std::string of_first;
  int rank = 0;
  for (const std::string& note : gather_texts(group, describe_row(tensor) + "\n" + text, options)) {
    const std::size_t end = note.find('\n');
    const std::string row = note.substr(0, end);
    if (rank == 0) of_first = row;
    if (row != of_first)
      throw InvalidInput(
          fmt::format("rank {} gives {}, but rank 0 {}", rank, row, of_first),
          {.during = call, .advice = "Give tensors that differ in their first dimension only."});
    texts.push_back(note.substr(end + 1));
    ++rank;
  }
  return texts;
}

std::int64_t parse_rows(const std::string& text) {
  return static_cast<std::int64_t>(parse_unsigned(text).value_or(0));
}

std::vector<std::size_t> times(const std::vector<std::int64_t>& rows, std::size_t elements) {
  std::vector<std::size_t> counts;
  for (const std::int64_t count : rows)
    counts.push_back(static_cast<std::size_t>(count) * elements);
  return counts;
}

}  // namespace

torch::Tensor all_gather(collective::Group& group, const torch::Tensor& tensor,
                         CallOptions options) {
  const StagedTensor staged(tensor, false);
  std::vector<std::int64_t> rows;
  for (const std::string& text :
       exchange_rows(group, tensor, std::to_string(rows_of(tensor)), "all_gather", options))
    rows.push_back(parse_rows(text));
  const torch::Tensor out =
      host_rows(tensor, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
  group.all_gather_v(staged.data(), out.data_ptr(), times(rows, row_elements(tensor)),
                     staged.dtype(), options);
  return out.to(tensor.device());
}

torch::Tensor reduce_scatter(collective::Group& group, const torch::Tensor& tensor,
                             ReduceOptions options) {
  const torch::NoGradGuard no_grad;
  const std::int64_t size = group.size();
  const std::int64_t rows = rows_of(tensor);
  const std::int64_t most = (rows + size - 1) / size;
  // The group's runs are of equal length: each rank's rows begin at a multiple of `most`.
  torch::Tensor padded = host_rows(tensor, most * size).zero_();
  const torch::Tensor from = tensor.dim() == 0 ? tensor.detach().reshape({1}) : tensor.detach();
  std::int64_t begin = 0;
  std::int64_t mine = 0;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    const std::int64_t share = rows / size + (rank < rows % size ? 1 : 0);
    padded.narrow(0, rank * most, share).copy_(from.narrow(0, begin, share));
    begin += share;
    if (rank == group.rank()) mine = share;
  }
  const StagedTensor staged(padded, true);
  const torch::Tensor out = host_rows(tensor, most);
  group.reduce_scatter(staged.data(), out.data_ptr(),
                       staged.count() / static_cast<std::size_t>(size), staged.dtype(), options);
  return out.narrow(0, 0, mine).to(tensor.device());
}

AllToAllResult all_to_all(collective::Group& group, const torch::Tensor& tensor,
                          std::vector<std::int64_t> splits, CallOptions options) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::int64_t rows = rows_of(tensor);
  std::string problem;
  if (splits.empty()) {
    if (rows % static_cast<std::int64_t>(size) != 0)
      problem = fmt::format("has {} rows, which {} ranks cannot share evenly", rows, size);
    splits.assign(size, rows / static_cast<std::int64_t>(size));
  } else if (splits.size() != size) {
    problem = fmt::format("has {} splits for {} ranks", splits.size(), size);
  } else if (std::any_of(splits.begin(), splits.end(), [](auto split) { return split < 0; }) ||
             std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) != rows) {
    problem = fmt::format("has splits that do not add up to its {} rows", rows);
  }
  std::vector<std::string> words{problem};
  for (const std::int64_t split : splits) words.push_back(std::to_string(split));

  const StagedTensor staged(tensor, false);
  AllToAllResult result;
  int rank = 0;
  for (const std::string& text :
       exchange_rows(group, tensor, join(words, "\n"), "all_to_all", options)) {
    const auto fields = cohort::split(text, '\n');
    if (!fields[0].empty())
      throw InvalidInput(fmt::format("rank {} {}", rank, fields[0]),
                         {.during = "all_to_all", .advice = "Give one split for each rank."});
    result.received_splits.push_back(
        parse_rows(fields[static_cast<std::size_t>(group.rank()) + 1]));
    ++rank;
  }
  const torch::Tensor out =
      host_rows(tensor, std::accumulate(result.received_splits.begin(),
                                        result.received_splits.end(), std::int64_t{0}));
  const std::size_t elements = row_elements(tensor);
  group.all_to_all_v(staged.data(), times(splits, elements), out.data_ptr(),
                     times(result.received_splits, elements), staged.dtype(), options);
  result.tensor = out.to(tensor.device());
  return result;
}

}  // namespace cohort::parallel
