#include "cohort/launch/output/line_splitter.h"

#include <algorithm>

namespace cohort::launch {

void LineSplitter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (pending_return_) {
      pending_return_ = false;
      bool newline = bytes.front() == '\n';
      emit(/*is_redraw=*/!newline);
      if (newline) bytes.remove_prefix(1);
      continue;
    }
    size_t end = bytes.find_first_of("\r\n");
    append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    if (bytes[end] == '\n')
      emit(/*is_redraw=*/false);
    else
      pending_return_ = true;
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish() {
  pending_return_ = false;
  if (!partial_.empty()) emit(/*is_redraw=*/false);
}

void LineSplitter::append(std::string_view bytes) {
  size_t kept = std::min(bytes.size(), kMaxLine - partial_.size());
  partial_.append(bytes.substr(0, kept));
  cut_bytes_ += bytes.size() - kept;
}

void LineSplitter::emit(bool is_redraw) {
  // Many bars print "\rtext": the empty piece before the return is not a redraw.
  if (!(is_redraw && partial_.empty())) callback_({partial_, cut_bytes_, is_redraw});
  partial_.clear();
  cut_bytes_ = 0;
}

}  // namespace cohort::launch
