// Writes what the tests of this folder read, and reads what they write.
// usage: report_program events FOLDER | scalars FILE | progress
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cohort/report/event_file.h"
#include "cohort/report/event_reader.h"
#include "cohort/report/progress.h"
#include "cohort/report/summary.h"

namespace {

using namespace cohort::report;

void write_events(const std::string& folder) {
  EventWriter writer(folder);
  writer.hyperparameters(
      {{"learning_rate", 0.125}, {"momentum", true}, {"optimizer", "sgd"}, {"batch_size", 64.0}},
      {"train/loss"});
  for (int step = 0; step < 100; ++step) writer.scalar("train/loss", 1.0 / (1 + step), step);
  writer.scalar("not a number", NAN, 5'000'000'000);
  std::mt19937 random(7);
  std::normal_distribution<double> normal(1.0, 2.0);
  std::vector<double> values(10'000);
  for (auto& value : values) value = normal(random);
  writer.histogram("weights", values, 3);
  writer.histogram("floats", std::vector<float>{-1.5f, 0.0f, 0.0f, 2.0f, INFINITY}, 4);
  writer.histogram("empty", std::vector<float>{}, 5);
  writer.text("config", "| a | b |\n|---|---|\n| 1 | \xc3\xa9 |", 0);
  writer.text("long", std::string(1'000'000, 'x'), 1);
  writer.end_session(SessionStatus::success);
  writer.flush();
}

// One line a scalar; the file is read in small parts.
void print_scalars(const std::string& file) {
  EventPart part{.scalars = {}, .next = 0, .more = true};
  while (part.more) {
    part = read_events(file, part.next, 1);
    for (const auto& event : part.scalars)
      std::printf("%s\t%lld\t%.9g\t%.3f\n", event.tag.c_str(), static_cast<long long>(event.step),
                  event.value, event.time);
  }
  if (part.damaged) std::puts("damaged");
}

// Two epochs of a second each, as the Trainer of rank 0 tells them; other ranks are silent.
void show_progress() {
  const char* rank = std::getenv("RANK");
  auto options = ProgressOptions::detect();
  if (rank && std::string_view(rank) != "0") options.mode = ProgressMode::silent;
  Progress progress(options);
  constexpr int kSteps = 10;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    for (int step = 1; step <= kSteps; ++step) {
      progress.update({.epoch = epoch, .epochs = 2, .step = step, .steps = kSteps, .workers = 2});
      std::this_thread::sleep_for(std::chrono::milliseconds(120));  // the work
    }
    progress.print("epoch " + std::to_string(epoch) + " is done");
  }
  progress.close();
  if (options.mode != ProgressMode::silent)
    std::fputs(format_summary({.seconds = 2, .samples = 20, .weights_sha256 = "f00d"}).c_str(),
               stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "events" && argc == 3) {
    write_events(argv[2]);
  } else if (what == "scalars" && argc == 3) {
    print_scalars(argv[2]);
  } else if (what == "progress") {
    show_progress();
  } else {
    std::fputs("usage: report_program events FOLDER | scalars FILE | progress\n", stderr);
    return 2;
  }
}
