#include "cohort/cluster/variables.h"

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::cluster {
namespace {

Address parse_named(std::string_view name, std::string_view text) {
  try {
    return parse_address(text);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", name, error.message()), error.context());
  }
}

}  // namespace

std::optional<std::string> read_text(const Environment& environment, std::string_view name) {
  auto value = environment.find_value(name);
  if (!value) return std::nullopt;
  std::string_view text = trim(*value);
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

int parse_number(std::string_view name, std::string_view text, int least) {
  auto number = parse_unsigned(text);
  if (!number || *number > static_cast<unsigned>(kMaxNumber) ||
      *number < static_cast<unsigned>(least))
    throw InvalidInput(
        fmt::format("{}={} is not a whole number from {} to {}", name, text, least, kMaxNumber),
        {.advice = fmt::format("Correct {} or unset it.", name)});
  return static_cast<int>(*number);
}

std::optional<int> read_number(const Environment& environment, std::string_view name, int least) {
  auto text = read_text(environment, name);
  if (!text) return std::nullopt;
  return parse_number(name, *text, least);
}

std::optional<Address> read_address(const Environment& environment, std::string_view name) {
  auto text = read_text(environment, name);
  if (!text) return std::nullopt;
  return parse_named(name, *text);
}

std::optional<Address> read_host_and_port(const Environment& environment,
                                          std::string_view host_name, std::string_view port_name) {
  auto host = read_text(environment, host_name);
  auto port = read_text(environment, port_name);
  if (!host || !port) return std::nullopt;
  bool bare_ipv6 = host->find(':') != std::string::npos && !host->starts_with('[');
  return parse_named(fmt::format("{} and {}", host_name, port_name),
                     (bare_ipv6 ? "[" + *host + "]" : *host) + ":" + *port);
}

void write_text(Environment& environment, std::string_view name, std::string_view value) {
  if (value.empty())
    erase(environment, name);
  else
    environment.insert_or_assign(std::string(name), std::string(value));
}

void write_number(Environment& environment, std::string_view name, int value) {
  write_text(environment, name, std::to_string(value));
}

void erase(Environment& environment, std::string_view name) {
  auto found = environment.find(name);
  if (found != environment.end()) environment.erase(found);
}

}  // namespace cohort::cluster
