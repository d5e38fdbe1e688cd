#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/sdk/service_address.h"
#include "cohort/sdk/service_values.h"

namespace cohort {
class HttpCancel;
}

namespace cohort::sdk {

// The HTTP API of a service (docs/api.md), a call an endpoint. A job is named by its id, the
// beginning of one, or its name.
//
// Threads: confined to one. Every call has a connection of its own.
// Failure: what the service refuses is InvalidInput with its words and its advice (400, 403, 404,
// 409, 413, 429), AuthError (401) or Error (5xx); a service that is not there or goes away is
// PeerError, one that does not answer within 30 s TimeoutError. A call that changes nothing is
// repeated once when the connection broke; so is submit(), whose request id makes it one job
// whatever happens. Nothing else is.
class ServiceClient {
 public:
  // Takes bytes as they come.
  using Sink = std::function<void(std::string_view bytes)>;
  // How long a service that went away while it is followed is waited for.
  static constexpr std::chrono::seconds kPatience{60};

  // `cancel` ends every call with HttpCancelled; it must outlive them. Null: nothing does.
  explicit ServiceClient(ServiceAddress address, const HttpCancel* cancel = nullptr);
  ~ServiceClient();
  ServiceClient(ServiceClient&&) noexcept;

  const ServiceAddress& address() const;

  ServiceInfo service();
  CheckedJob check(const jobspec::JobSpec& spec);
  // Hands a job over; when this returns, it is on the service's disk. A source_dir is packed and
  // sent first, unless the service has it already.
  Job submit(jobspec::JobSpec spec);
  JobPage jobs(const JobQuery& query);
  Job job(const std::string& job);
  Job stop(const std::string& job);
  Job resume(const std::string& job);
  Job scale(const std::string& job, int workers);
  Job pin(const std::string& job, bool pinned);
  void remove(const std::string& job);

  // `attempt` 0: the newest.
  std::vector<JobTask> tasks(const std::string& job, int attempt = 0);
  // The next bytes of one task's log, from `offset`, else from where it stood at `since` (as in
  // LogQuery).
  LogPage log(const std::string& job, const std::string& task, int attempt,
              std::optional<std::uint64_t> offset, const std::string& since = {});
  // Hands out what the tasks of an attempt have written until now, one task after the other.
  void read_logs(const std::string& job, const LogQuery& query, int attempt,
                 const std::function<void(const LogText&)>& take);
  // Hands out what the tasks wrote, and what they write, until the job has ended: then how it did.
  // A service that goes away is waited for, `patience` at most, and the rest follows from where it
  // broke off: nothing twice, nothing missing.
  JobEnd follow_logs(const std::string& job, const LogQuery& query,
                     const std::function<void(const LogText&)>& take,
                     std::chrono::seconds patience = kPatience);

  // `job` "": of all; `after`: an event's id.
  std::vector<JobEvent> events(const std::string& job, std::int64_t after);
  // Until `take` says false; otherwise as follow_logs().
  void follow_events(const std::string& job, std::int64_t after,
                     const std::function<bool(const JobEvent&)>& take,
                     std::chrono::seconds patience = kPatience);
  // All of them; `name` "": of every name.
  std::vector<Metric> metrics(const std::string& job, const std::string& name = {});

  std::vector<JobFile> files(const std::string& job);
  void file(const std::string& job, const std::string& path, const Sink& take);
  // A tar archive of the part "model", "output" or "all": a function that gives its next bytes, none
  // at its end. It may outlive this object.
  std::function<std::string()> archive(const std::string& job, const std::string& part);

  // What is behind the service's address for a browser to sign in with, once, within a minute:
  // "/login?code=...".
  std::string sign_in_path();
  // Where browsers of the service's machine reach the page, "http://127.0.0.1:41234"; the service
  // listens there from now on when it did not.
  std::string page_address();

  std::vector<TokenInfo> tokens();
  TokenInfo add_token(const std::string& user, const std::string& role, int days);
  TokenInfo rotate_token(const std::string& id);
  void remove_token(const std::string& id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::sdk
