#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/cluster/address.h"
#include "cohort/jobspec/instance_type.h"
#include "cohort/sdk/service_address.h"
#include "cohort/service/service.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/host_options.h"
#include "cohort/tools/kubernetes_options.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

constexpr const char* kServeExamples = R"(
Examples:
  cohort serve
      this user's own service, on a Unix socket; `cohort submit` starts one when it is needed
  cohort serve --listen 127.0.0.1:8080
      for programs of this machine, too, that show a token
  cohort serve --listen train.example.org:8443 --tls-cert cert.pem --tls-key key.pem
      for other machines: TLS, and a token for each user (cohort token create)
  cohort serve --cores 6 --memory 24g --retention-days 30 --retention-size 200g
      leaves some of the machine to others, and removes ended jobs that are not pinned
  cohort serve --hosts node1:4,node2:4
      jobs with engine = "hosts" run there unless they name hosts themselves

Jobs go on when the service ends, and are found again by the next one. What it prints says where it
listens; its log is standard error. The page is at the same address; a browser signs in with a token,
or with the link that `cohort open` prints.
)";

struct ServeArguments {
  std::string listen, certificate, key, root, memory, retention_size, page_folder;
  std::optional<double> cores;
  std::optional<int> gpus;
  int retention_days = service::RetentionPolicy{}.days;
  int idle = 600;
  bool on_demand = false;
  launch::JobOptions hosts;  // its host options
  KubernetesArguments kubernetes;
};

std::uint64_t bytes_of_option(const char* option, const std::string& text) {
  const auto bytes = jobspec::parse_memory(text);
  if (!bytes || *bytes < (1u << 20))  // "200" is meant as something else than 200 bytes
    throw InvalidInput(fmt::format("{} is '{}', but must be at least 1 MiB", option, text),
                       {.advice = "Give a size with its unit, as in: 24g, 512 MiB"});
  return *bytes;
}

// HOST:PORT, where port 0 lets the system choose.
Endpoint listening_endpoint(const std::string& text) {
  const bool any_port = text.size() > 2 && text.compare(text.size() - 2, 2, ":0") == 0;
  const auto address =
      cluster::parse_address(any_port ? text.substr(0, text.size() - 1) + "1" : text);
  return Endpoint::tcp(address.host, any_port ? 0 : address.port);
}

service::ServiceOptions options_of(const ServeArguments& arguments) {
  service::ServiceOptions options;
  options.folders.root = arguments.root.empty()
                             ? sdk::default_root()
                             : std::filesystem::absolute(arguments.root).lexically_normal();
  if (!arguments.listen.empty()) options.listen = listening_endpoint(arguments.listen);
  if (arguments.certificate.empty() != arguments.key.empty())
    throw InvalidInput("--tls-cert and --tls-key go together", {.advice = "Give both files."});
  if (!arguments.certificate.empty()) {
    if (!options.listen)
      throw InvalidInput("--tls-cert is for --listen", {.advice = "Add --listen HOST:PORT."});
    options.tls = HttpListener::Tls{arguments.certificate, arguments.key};
  }
  options.on_demand = arguments.on_demand;
  options.idle = std::chrono::seconds(arguments.idle);
  options.cores = arguments.cores;
  options.gpus = arguments.gpus;
  if (!arguments.memory.empty())
    options.memory_bytes = bytes_of_option("--memory", arguments.memory);
  options.retention.days = arguments.retention_days;
  if (!arguments.retention_size.empty())
    options.retention.most_bytes = bytes_of_option("--retention-size", arguments.retention_size);
  if (!arguments.page_folder.empty()) {
    options.page_folder = std::filesystem::absolute(arguments.page_folder).lexically_normal();
    if (!std::filesystem::is_directory(options.page_folder))
      throw InvalidInput(fmt::format("--page-dir '{}' is not a folder", arguments.page_folder));
  }
  options.known = known_run_options();
  options.host_words = host_words(arguments.hosts);
  options.kubernetes = arguments.kubernetes.setup();
  return options;
}

int serve(const ServeArguments& arguments) {
  service::ServiceOptions options = options_of(arguments);
  const auto root = options.folders.root;
  service::Service service(std::move(options));
  fmt::print("cohort serve: jobs are in {}\n", root.string());
  fmt::print("listens at unix:{}\n", service.socket().string());
  if (const std::string address = service.listens_at(); !address.empty())
    fmt::print("listens at {}\n", address);
  if (const auto token = service.admin_token())
    fmt::print("token of an admin: {}\n", token->string());
  if (const std::string address = service.listens_at(); !address.empty())
    fmt::print("page: {}/ (to sign in: cohort open)\n", address);
  else
    fmt::print("page: cohort open\n");
  std::fflush(stdout);
  log::info("cohort serve: {}", service.run());
  return 0;
}

}  // namespace

Command serve_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<ServeArguments>();
    app.description("Takes jobs in, queues and runs them, and tells about them: the service.");
    app.footer(kServeExamples);
    app.add_option("--listen", arguments->listen,
                   "HOST:PORT to listen on with HTTP, beside the Unix socket; other hosts than "
                   "this one need TLS");
    app.add_option("--tls-cert", arguments->certificate,
                   "PEM file of the certificate and those above it");
    app.add_option("--tls-key", arguments->key, "PEM file of its key");
    app.add_option("--root", arguments->root,
                   "Folder of jobs and run store; COHORT_HOME, else XDG_STATE_HOME/cohort, else "
                   "~/.local/state/cohort");
    app.add_option("--cores", arguments->cores, "Cores that jobs may hold together; all")
        ->check(CLI::Range(0.1, 1e6));
    app.add_option("--memory", arguments->memory, "Memory that jobs may hold together; all");
    app.add_option("--gpus", arguments->gpus, "GPUs that jobs may hold together; all")
        ->check(CLI::Range(0, 4096));
    app.add_option("--retention-days", arguments->retention_days,
                   "Removes jobs so many days after they ended, unless pinned; 0: never [0]")
        ->check(CLI::Range(0, 36500));
    app.add_option("--retention-size", arguments->retention_size,
                   "Removes the jobs that ended first, unless pinned, while all take more [never]");
    app.add_flag("--on-demand", arguments->on_demand,
                 "Ends by itself when there are no jobs and no requests");
    app.add_option("--idle-exit", arguments->idle, "With --on-demand: after so many seconds; 600")
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--page-dir", arguments->page_folder,
                   "Folder of the page's files, for work on it; those in the program");
    declare_host_options(app, arguments->hosts);
    arguments->kubernetes.declare_access(app);
    arguments->kubernetes.declare_pods(app);
    return [arguments](const Words&, const Words&) { return serve(*arguments); };
  };
  return {"serve", "take jobs in, queue and run them", "[options]", declare};
}

}  // namespace cohort::tools
