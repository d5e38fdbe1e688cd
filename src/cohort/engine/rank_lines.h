#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

// How the lines of MPI ranks come through mpirun unmixed. mpirun (--tag-output) puts a rank's tag,
// "[1,0]<stdout>:", before every piece that it reads, also in the middle of a line, and pieces of
// different ranks into one line. So the ranks (mpi_ranks.h) mark the ends of their lines, and break
// what looks like a tag; the other side takes the pieces of each rank together again.
namespace cohort::engine {

// What a rank reports of itself, beside its lines.
struct RankReport {
  bool ended = false;
  std::string time;  // UTC
  std::string host;  // when it starts
  int code = 0;      // when it has ended: exit code, or the signal that killed it
  int signal = 0;
  bool told = false;  // to end
};

// For the rank's standard output. Three control characters (0x1d to 0x1f) of a program become '?'.
std::string encode_text(std::string_view text);
std::string encode_report(const RankReport& report);

// Thread-compatible.
class RankLines {
 public:
  struct Sink {
    std::function<void(int rank, std::string_view text)> text;  // as the program wrote it
    std::function<void(int rank, const RankReport&)> report;
    std::function<void(std::string_view text)> own;  // of mpirun itself
  };
  explicit RankLines(Sink sink) : sink_(std::move(sink)) {}

  // mpirun's standard output, in any pieces. What may be the begin of a tag waits for the next one.
  void take(std::string_view piece);
  void finish();  // nothing follows

 private:
  void give(std::string_view piece);
  void give_rank(std::string_view piece);

  Sink sink_;
  std::string waiting_;                 // the begin of a tag, perhaps
  int rank_ = -1;                       // whose piece is at hand; -1: mpirun's
  std::map<int, std::string> reports_;  // begun, of each rank
};

}  // namespace cohort::engine
