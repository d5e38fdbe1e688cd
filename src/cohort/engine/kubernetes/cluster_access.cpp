#include "cohort/engine/kubernetes/cluster_access.h"

#include <openssl/evp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/engine/kubernetes/small_yaml.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : "";
}

bool has(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object.at(key).is_null();
}

std::string decoded(std::string text, const std::string& what) {
  std::erase_if(text, [](char c) { return c == '\n' || c == ' '; });
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (size < 0 || text.size() % 4 != 0) throw InvalidInput(what + " is no base64");
  bytes.resize(static_cast<std::size_t>(size));
  while (text.ends_with('=')) {
    bytes.pop_back();
    text.pop_back();
  }
  return bytes;
}

// OpenSSL reads files: one in memory, that no other user can open.
fs::path memory_file(const std::string& bytes, ClusterAccess& access) {
  auto file = std::make_shared<UniqueFd>(::memfd_create("cohort-kubeconfig", MFD_CLOEXEC));
  if (!*file ||
      ::write(file->get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw SystemError("cannot make a file in memory", errno);
  access.files.push_back(file);
  return fmt::format("/proc/self/fd/{}", file->get());
}

// "https://host:port/prefix".
void set_server(const std::string& url, ClusterAccess& access) {
  const std::size_t host = url.find("://");
  const std::size_t slash = host == std::string::npos ? host : url.find('/', host + 3);
  access.server = url.substr(0, slash);
  if (slash != std::string::npos) access.prefix = url.substr(slash);
  while (access.prefix.ends_with('/')) access.prefix.pop_back();
}

// Reads one kubeconfig file. Confined to one call.
class Kubeconfig {
 public:
  explicit Kubeconfig(const fs::path& file)
      : file_(file), root_(read_small_yaml(read_file(file), file.string())) {}

  ClusterAccess access(const std::string& asked) const {
    ClusterAccess access;
    access.context = asked.empty() ? text_of(root_, "current-context") : asked;
    if (access.context.empty()) refuse("has no current-context", "Give --kubernetes-context NAME.");
    const json& context = named("contexts", "context", access.context);
    const std::string name_space = text_of(context, "namespace");
    if (!name_space.empty()) access.name_space = name_space;
    read_cluster(named("clusters", "cluster", text_of(context, "cluster")), access);
    read_user(text_of(context, "user"), access);
    return access;
  }

  std::string token_of(const std::string& user) const {
    return text_of(named("users", "user", user), "token");
  }

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& advice) const {
    throw InvalidInput(fmt::format("kubeconfig '{}' {}", file_.string(), why), {.advice = advice});
  }

  const json& named(const char* list, const char* key, const std::string& name) const {
    if (has(root_, list) && root_.at(list).is_array())
      for (const json& entry : root_.at(list))
        if (text_of(entry, "name") == name && has(entry, key)) return entry.at(key);
    refuse(fmt::format("has no {} '{}'", key, name), "Look at: kubectl config get-contexts");
  }

  fs::path beside(const std::string& path) const { return file_.parent_path() / path; }

  void read_cluster(const json& cluster, ClusterAccess& access) const {
    set_server(text_of(cluster, "server"), access);
    if (cluster.contains("insecure-skip-tls-verify") &&
        cluster.at("insecure-skip-tls-verify") == true)
      refuse("says insecure-skip-tls-verify: anyone could answer for the API server",
             "Give certificate-authority or certificate-authority-data instead.");
    if (const auto data = text_of(cluster, "certificate-authority-data"); !data.empty())
      access.ca_file = memory_file(decoded(data, "certificate-authority-data"), access);
    else if (const auto path = text_of(cluster, "certificate-authority"); !path.empty())
      access.ca_file = beside(path);
  }

  void read_user(const std::string& name, ClusterAccess& access) const {
    const json& user = named("users", "user", name);
    for (const char* key : {"exec", "auth-provider", "username"})
      if (has(user, key))
        refuse(fmt::format("proves the user '{}' by {}, which Cohort does not run", name, key),
               "Use a service account's token: kubectl create token cohort-serve > FILE, and "
               "tokenFile: FILE");
    if (const auto path = text_of(user, "tokenFile"); !path.empty())
      access.token = [file = beside(path)] { return std::string(trim(read_file(file))); };
    else if (has(user, "token"))
      access.token = [file = file_, name] { return Kubeconfig(file).token_of(name); };
    const auto certificate = text_of(user, "client-certificate-data");
    const auto key = text_of(user, "client-key-data");
    if (!certificate.empty()) {
      access.certificate = memory_file(decoded(certificate, "client-certificate-data"), access);
      access.key = memory_file(decoded(key, "client-key-data"), access);
    } else if (const auto path = text_of(user, "client-certificate"); !path.empty()) {
      access.certificate = beside(path);
      access.key = beside(text_of(user, "client-key"));
    }
  }

  fs::path file_;
  json root_;
};

}  // namespace

ClusterAccess access_in_cluster(const cluster::Environment& environment, const fs::path& folder) {
  const auto host = environment.find_value("KUBERNETES_SERVICE_HOST");
  const auto port = environment.find_value("KUBERNETES_SERVICE_PORT");
  if (!host || !port || !fs::exists(folder / "token"))
    throw InvalidInput("this process is in no pod with a service account",
                       {.advice = "Give a kubeconfig: --kubeconfig FILE, or KUBECONFIG."});
  ClusterAccess access{.context = "this cluster"};
  const bool is_v6 = host->find(':') != std::string::npos;
  access.server = is_v6 ? fmt::format("https://[{}]:{}", *host, *port)
                        : fmt::format("https://{}:{}", *host, *port);
  access.ca_file = folder / "ca.crt";
  access.token = [file = folder / "token"] { return std::string(trim(read_file(file))); };
  if (fs::exists(folder / "namespace"))
    access.name_space = std::string(trim(read_file(folder / "namespace")));
  return access;
}

ClusterAccess read_kubeconfig(const fs::path& file, const std::string& context) {
  return Kubeconfig(fs::absolute(file)).access(context);
}

ClusterAccess find_access(const cluster::Environment& environment, const std::string& kubeconfig,
                          const std::string& context) {
  if (!kubeconfig.empty()) return read_kubeconfig(kubeconfig, context);
  if (const auto named = environment.find_value("KUBECONFIG"); named && !named->empty())
    return read_kubeconfig(*named, context);
  if (environment.contains("KUBERNETES_SERVICE_HOST")) return access_in_cluster(environment);
  const fs::path own = fs::path(environment.find_value("HOME").value_or("/")) / ".kube/config";
  if (fs::exists(own)) return read_kubeconfig(own, context);
  throw InvalidInput("no Kubernetes cluster is known: there is no kubeconfig",
                     {.advice = "Give --kubeconfig FILE, or set KUBECONFIG."});
}

}  // namespace cohort::engine::kubernetes
