#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cohort/base/net/http_message.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// One request and its answer, fed by an event loop; never blocks. Confined to one thread.
//   reading -> answering -> ending -> over
// `ending`: the answer is written, and what the peer still sends is thrown away, so that the answer
// is not lost to a reset; no more than a body may have. The owner ends that, and everything else,
// by its clock.
class HttpConnection {
 public:
  HttpConnection(UniqueFd fd, const HttpLimits& limits);
  ~HttpConnection();

  int fd() const { return fd_.get(); }
  bool is_reading() const { return state_ == State::reading; }
  bool has_output() const { return !output_.empty(); }
  bool is_over() const { return state_ == State::over; }
  std::uint32_t wanted_events() const;
  std::size_t pending() const;  // bytes that it holds

  // Reads or writes once. True when a whole request, or a mistake that ends it, is to be answered.
  bool advance(std::uint32_t events);
  bool has_mistake() const { return mistake_ != 0; }
  HttpResponse mistake() const;
  HttpRequest take_request();
  void answer(const HttpResponse& response);

 private:
  enum class State { reading, answering, ending, over };
  class Parser;
  bool read();
  void parse();
  void write();

  UniqueFd fd_;
  HttpLimits limits_;
  std::unique_ptr<Parser> parser_;
  State state_ = State::reading;
  int mistake_ = 0;  // the status that it is answered with
  std::string input_;
  std::string output_;
  bool has_continued_ = false;
  std::size_t thrown_away_ = 0;
};

}  // namespace cohort
