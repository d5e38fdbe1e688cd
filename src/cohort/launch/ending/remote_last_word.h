#pragma once

#include <string>
#include <string_view>

#include "cohort/base/process/last_word.h"

// How the last word of a task on another host comes here: `cohort host-task` puts it behind the
// program's output, which is the only way back that every remote shell has. What announces it is a
// random text that the launcher chose for this start of the task and that the program never sees.
namespace cohort::launch {

std::string new_last_word_mark();

// What host-task writes when the program has ended.
std::string frame_last_word(std::string_view mark, const LastWord& word);

// The launcher's side: takes the word out of the stream. Confined to one thread.
class LastWordFilter {
 public:
  explicit LastWordFilter(std::string_view mark);

  // The bytes that are the program's output. Some may be held back until the next call.
  std::string feed(std::string_view bytes);
  std::string finish();  // the stream has ended: what was held back
  LastWord word() const { return decode_last_word(word_); }

 private:
  std::string mark_;
  std::string held_;
  bool found_ = false;
  std::string word_;
};

}  // namespace cohort::launch
