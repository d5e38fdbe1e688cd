#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cohort/jobspec/document.h"

namespace cohort::jobspec {

// Internal to jobspec: one value of a document, with its path, so that what is wrong with it can be
// said. A view: document and source outlive it. Every method throws InvalidInput that names place,
// key, value and what is allowed.
class Value {
 public:
  Value(const nlohmann::ordered_json& json, std::string path, const Source& source)
      : json_(&json), path_(std::move(path)), source_(&source) {}

  const nlohmann::ordered_json& json() const { return *json_; }
  const std::string& path() const { return path_; }

  std::string text() const;  // not empty
  std::string word() const;  // text or a number, as a command line would have it
  bool yes() const;
  int whole(int least, int most) const;  // a number, or text that is one
  double number(double more_than, double most) const;

  // The entries of an object, the elements of an array, in order.
  std::vector<std::pair<std::string, Value>> entries() const;
  std::vector<Value> elements() const;

  bool is_text() const;
  bool is_array() const;
  bool is_object() const;

  // "job.toml line 3: priority is 2000, but must be from -1000 to 1000"
  [[noreturn]] void refuse(const std::string& rule, const std::string& advice = "") const;
  // "job.toml line 3: unknown key 'mpi.enable'. Did you mean 'enabled'?"
  [[noreturn]] void refuse_key(const std::string& key, const std::vector<std::string>& known) const;

 private:
  const nlohmann::ordered_json* json_;
  std::string path_;
  const Source* source_;
};

}  // namespace cohort::jobspec
