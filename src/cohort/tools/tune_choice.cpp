#include "cohort/tools/tune_choice.h"

#include <algorithm>
#include <cmath>

namespace cohort::tools {
namespace {

using collective::TuningTable;
using Rules = TuningTable::Rules;

std::vector<std::size_t> sizes_of(const std::vector<Measurement>& measured) {
  std::vector<std::size_t> sizes;
  for (const auto& each : measured) sizes.push_back(each.bytes);
  return sizes;
}

std::vector<double> times_of(const std::vector<Measurement>& measured, std::size_t algorithm) {
  std::vector<double> times;
  for (const auto& each : measured) times.push_back(each.times[algorithm]);
  return times;
}

std::size_t usual(const Rules& defaults, int count) {
  std::size_t bytes = 0;
  for (const auto& rule : defaults)
    if (rule.from <= count) bytes = rule.bytes;
  return bytes;
}

void add(Rules& rules, int count, std::size_t bytes) {
  if (rules.empty() ? bytes > 0 : rules.back().bytes != bytes) rules.push_back({count, bytes});
}

// The rules of `defaults` for more than `most`, behind `rules`.
void extend(Rules& rules, const Rules& defaults, int most) {
  add(rules, most + 1, usual(defaults, most + 1));
  for (const auto& rule : defaults)
    if (rule.from > most + 1) add(rules, rule.from, rule.bytes);
}

}  // namespace

std::size_t best_cut(const std::vector<std::size_t>& sizes, const std::vector<double>& first,
                     const std::vector<double>& second, std::size_t usual) {
  std::size_t cut = 0;
  double gain = 0, best = 0, usual_gain = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    gain += std::log(second[i] / first[i]);
    if (sizes[i] <= usual) usual_gain = gain;
    if (gain <= best) continue;
    best = gain;
    cut = sizes[i];
  }
  const auto moved = std::count_if(sizes.begin(), sizes.end(), [&](std::size_t size) {
    return (size <= cut) != (size <= usual);
  });
  return best - usual_gain <= static_cast<double>(moved) * std::log(1 + kMargin) ? usual : cut;
}

TableBuilder::TableBuilder() {
  table_.inlined = table_.exchange_all = table_.recursive_doubling = table_.flat_broadcast = {};
}

void TableBuilder::inside(int count, const std::vector<Measurement>& measured) {
  add(table_.inlined, count,
      best_cut(sizes_of(measured), times_of(measured, 0), times_of(measured, 1),
               usual(TuningTable{}.inlined, count)));
}

void TableBuilder::between(int count, const std::vector<Measurement>& measured) {
  const auto sizes = sizes_of(measured);
  const auto doubling = times_of(measured, 1);
  auto otherwise = times_of(measured, 2);
  const std::size_t doubled =
      best_cut(sizes, doubling, otherwise, usual(TuningTable{}.recursive_doubling, count));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] <= doubled) otherwise[i] = doubling[i];
  const std::size_t exchanged =
      best_cut(sizes, times_of(measured, 0), otherwise, usual(TuningTable{}.exchange_all, count));
  add(table_.exchange_all, count, exchanged);
  add(table_.recursive_doubling, count, doubled > exchanged ? doubled : 0);
}

void TableBuilder::broadcast(int count, const std::vector<Measurement>& measured) {
  add(table_.flat_broadcast, count,
      best_cut(sizes_of(measured), times_of(measured, 0), times_of(measured, 1),
               usual(TuningTable{}.flat_broadcast, count)));
}

TuningTable TableBuilder::finish(int most) const {
  const TuningTable defaults;
  TuningTable table = table_;
  extend(table.inlined, defaults.inlined, most);
  extend(table.exchange_all, defaults.exchange_all, most);
  extend(table.recursive_doubling, defaults.recursive_doubling, most);
  extend(table.flat_broadcast, defaults.flat_broadcast, most);
  return table;
}

}  // namespace cohort::tools
