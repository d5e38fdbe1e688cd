#include "cohort/base/process/run_main.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>

#include "cohort/base/log/log.h"
#include "cohort/base/process/dismissed.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

// Prints the error and tells the launcher of it. `word` says what kind of error it is; where a
// group of this program broke before, whatever it says about that stays a consequence of the loss.
int end_with(int code, std::string_view program, const char* what, LastWord word) {
  const std::string_view sentence = error_sentence(what);
  word.message = fmt::format("{}: {}", program, sentence);
  fmt::print(stderr, "{}\n", word.message);
  if (sentence.size() < std::string_view(what).size()) log::debug("in full: {}", what);
  word.exit_code = code;
  if (const LastWord before = last_word_so_far(); before.kind == LastWord::Kind::lost_peer) {
    word.kind = before.kind;
    word.peer = before.peer;
    word.loss = before.loss;
    word.during = before.during;
  }
  say_last_word(std::move(word));
  return code;
}

LastWord lost(const Error& error, LastWord::Loss loss) {
  return {.kind = LastWord::Kind::lost_peer,
          .peer = error.context().peer,
          .loss = loss,
          .during = error.context().during};
}

// A result without an exception; what went wrong the program has said itself, if at all.
int end_with(int code) {
  if (code == 0) return code;
  LastWord word = last_word_so_far();
  if (word.kind != LastWord::Kind::lost_peer) word = {.kind = LastWord::Kind::error};
  word.message.clear();
  word.exit_code = code & 0xff;
  say_last_word(std::move(word));
  return code;
}

}  // namespace

std::string_view error_sentence(std::string_view what) {
  const std::size_t trace = what.find("\nException raised from ");
  return trace == std::string_view::npos ? what : trim(what.substr(0, trace));
}

int run_main(std::string_view program, const std::function<int()>& body) noexcept {
  const LastWord own{.kind = LastWord::Kind::error};
  try {
    return end_with(body());
  } catch (const Dismissed& error) {
    log::info("{}", error.what());
    return 0;
  } catch (const InvalidInput& error) {
    return end_with(2, program, error.what(), own);
  } catch (const PeerError& error) {
    return end_with(1, program, error.what(), lost(error, LastWord::Loss::unknown));
  } catch (const TimeoutError& error) {
    const bool waited = !error.context().peer.empty();
    return end_with(1, program, error.what(), waited ? lost(error, LastWord::Loss::late) : own);
  } catch (const std::exception& error) {
    return end_with(1, program, error.what(), own);
  }
}

}  // namespace cohort
