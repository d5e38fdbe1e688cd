#include "cohort/capi/requests/exchange.h"

#include <numeric>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/deadline.h"
#include "cohort/base/error.h"

namespace cohort::capi {

namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);  // bytes of news

const collective::CallOptions kUntilAllCome{Deadline::never()};

}  // namespace

Exchange::Exchange(collective::Group& group, std::size_t most)
    : group_(group),
      most_(most),
      own_(kSlot, '\0'),
      all_(kSlot * static_cast<std::size_t>(group.size()), '\0'),
      news_(static_cast<std::size_t>(group.size())) {}

const std::vector<std::string_view>& Exchange::run(const std::string& news) {
  if (news.size() > most_)
    throw InvalidInput(fmt::format("the requests submitted at once take {} bytes to describe, more "
                                   "than {}",
                                   news.size(), most_),
                       {.advice = "Submit fewer tensors at once."});
  put_integer(static_cast<std::uint32_t>(news.size()), own_.data());
  news.copy(own_.data() + kHeader, kSlot - kHeader);
  group_.all_gather(own_.data(), all_.data(), kSlot, collective::DataType::u8, kUntilAllCome);
  std::vector<std::size_t> sizes(news_.size());
  bool fit = true;
  for (std::size_t rank = 0; rank < news_.size(); ++rank) {
    const std::string_view slot(all_.data() + rank * kSlot, kSlot);
    sizes[rank] = ByteReader(slot).integer<std::uint32_t>();
    if (sizes[rank] > most_)
      throw ProtocolError(
          fmt::format("rank {} announces news of {} bytes, more than {}", rank, sizes[rank], most_),
          {.advice = "Run the same version of Cohort on all hosts."});
    if (sizes[rank] > kSlot - kHeader)
      fit = false;
    else
      news_[rank] = slot.substr(kHeader, sizes[rank]);
  }
  if (fit) return news_;
  rest_.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  group_.all_gather_v(news.data(), rest_.data(), sizes, collective::DataType::u8, kUntilAllCome);
  std::size_t from = 0;
  for (std::size_t rank = 0; rank < news_.size(); ++rank) {
    news_[rank] = std::string_view(rest_).substr(from, sizes[rank]);
    from += sizes[rank];
  }
  return news_;
}

}  // namespace cohort::capi
