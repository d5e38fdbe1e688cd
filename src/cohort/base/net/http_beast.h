#pragma once

#include <algorithm>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <string>
#include <string_view>

#include "cohort/base/net/http_message.h"

// What the server's and the client's use of Boost.Beast have in common. Large: for their .cpp files
// alone.
namespace cohort::beast {

namespace http = boost::beast::http;

// A body whose bytes are taken out while more come. Unlike string_body it makes no room for the
// length that the other side merely announces.
struct PieceBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::beast::error_code& error) {
      error = {};
      const std::size_t before = body_.size();
      for (const auto buffer : boost::beast::buffers_range_ref(buffers))
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
      return body_.size() - before;
    }
    void finish(boost::beast::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

template <class Fields>
HttpHeaders headers_of(const Fields& fields) {
  HttpHeaders headers;
  for (const auto& field : fields) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    headers.emplace_back(std::move(name), std::string(field.value()));
  }
  return headers;
}

// Feeds `input` to `parser` until it wants more, is done or, if it is not eager, has read the head;
// removes what was used.
template <class Parser>
boost::beast::error_code feed(Parser& parser, std::string& input) {
  boost::beast::error_code error;
  std::size_t used = 0;
  const bool had_head = parser.is_header_done();
  while (used < input.size() && !parser.is_done()) {
    const auto rest = boost::asio::buffer(input.data() + used, input.size() - used);
    const std::size_t count = parser.put(rest, error);
    used += count;
    if (error == http::error::need_more) {
      error = {};
      if (count == 0) break;
    }
    if (error || (!had_head && parser.is_header_done() && !parser.eager())) break;
  }
  input.erase(0, used);
  return error;
}

}  // namespace cohort::beast
