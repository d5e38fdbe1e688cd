#include "cohort/ps/server/server.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/durable/disk_log.h"
#include "cohort/ps/durable/log_recovery.h"
#include "cohort/ps/durable/replica_link.h"
#include "cohort/ps/server/message_handler.h"
#include "cohort/ps/server/session_acceptor.h"

namespace cohort::ps {

namespace {

constexpr std::chrono::seconds kFinishTimeout{1};
constexpr std::chrono::minutes kReplicaTimeout{5};

UniqueFd make_memory_file() {
  UniqueFd file(::memfd_create("cohort-ps", MFD_CLOEXEC));
  if (!file) throw SystemError("cannot make a memory file for a model", errno);
  return file;
}

SessionAcceptorOptions acceptor_options(const ServerOptions& options) {
  if (options.server < 0 || static_cast<std::size_t>(options.server) >= options.servers.size())
    throw InvalidInput(fmt::format("ps/{} of {} servers", options.server, options.servers.size()));
  return {.name = fmt::format("ps/{}", options.server),
          .bind_host = options.bind_host,
          .address = options.servers[static_cast<std::size_t>(options.server)],
          .job = options.job,
          .secret = options.secret,
          .insecure = options.insecure,
          .tls = options.tls};
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerOptions options);

  const cluster::Address& address() const { return acceptor_.address(); }
  const std::string& local_name() const { return acceptor_.local_name(); }
  bool recovered() const { return recovered_; }
  void run();
  void finish();
  void fail(std::exception_ptr error);

 private:
  ServerState::Options state_options() const {
    return {options_.server, static_cast<int>(options_.servers.size()), options_.memory_limit};
  }
  void recover();
  void recover_from_replica();
  void open(std::unique_ptr<ServerState> state);
  void leave_when_drained();
  bool is_ending() const { return finishing_ || failure_ != nullptr; }

  ServerOptions options_;
  UniqueFd memory_;
  EventLoop loop_;
  ReplicaOptions replica_;
  // Destroyed in reverse: the log, which reads the state that the desk has, goes before it, and the
  // sessions of the acceptor before that too.
  MessageHandler handler_;
  std::unique_ptr<UpdateLog> log_;
  SessionAcceptor acceptor_;
  bool recovered_ = false;
  bool finishing_ = false;
  std::exception_ptr failure_;
};

Server::Impl::Impl(ServerOptions options)
    : options_(std::move(options)),
      memory_(options_.memory ? std::move(options_.memory) : make_memory_file()),
      handler_(loop_, {options_.server, static_cast<int>(options_.servers.size()), options_.job,
                       options_.memory_limit, options_.worker_timeout, memory_.get()}),

      acceptor_(loop_, acceptor_options(options_), handler_,
                [this](WorkerSession& session) { handler_.gone(session); }) {
  handler_.set_acceptor(acceptor_);
  acceptor_.set_on_settled([this] { leave_when_drained(); });
  if (options_.durability != Durability::replica) recover();
}

void Server::Impl::recover() {
  if (options_.durability == Durability::disk) {
    auto state = recover_from_disk(options_.folder, memory_.get(), state_options());
    log_ = open_disk_log(
        loop_, options_.folder,
        {.server = options_.server, .servers = static_cast<int>(options_.servers.size())});
    return open(std::move(state));
  }
  open(ServerState::open(memory_.get(), state_options()));
}

// Servers of a job wait for each other here, and answer meanwhile: only run() may do that.
void Server::Impl::recover_from_replica() {
  replica_ = {.server = options_.server,
              .servers = options_.servers,
              .job = options_.job,
              .secret = options_.secret,
              .tls = options_.tls};
  auto state =
      ps::recover_from_replica(loop_, replica_, memory_.get(), state_options(),
                               Deadline::after(kReplicaTimeout), [this] { return is_ending(); });
  if (is_ending()) return;
  log_ = open_replica_link(loop_, replica_);
  if (state != nullptr) log_->save_snapshot(*state, [] {});
  open(std::move(state));
}

void Server::Impl::open(std::unique_ptr<ServerState> state) {
  recovered_ = state != nullptr;
  if (recovered_) log::info("ps/{} goes on with the model that it had", options_.server);
  handler_.open(std::move(state), log_.get());
}

void Server::Impl::run() {
  if (options_.durability == Durability::replica) recover_from_replica();
  // A server that is asked to end before it has served a worker has nothing to finish.
  if (!is_ending()) loop_.run();
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Server::Impl::finish() {
  loop_.post([this] {
    if (std::exchange(finishing_, true)) return;
    loop_.call_after(kFinishTimeout, [this] { loop_.stop(); });
    leave_when_drained();
  });
}

void Server::Impl::leave_when_drained() {
  if (finishing_ && acceptor_.is_drained()) loop_.stop();
}

void Server::Impl::fail(std::exception_ptr error) {
  loop_.post([this, error] {
    if (failure_ == nullptr) failure_ = error;
    loop_.stop();
  });
}

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;
const cluster::Address& Server::address() const { return impl_->address(); }
const std::string& Server::local_name() const { return impl_->local_name(); }
bool Server::recovered() const { return impl_->recovered(); }
void Server::run() { impl_->run(); }
void Server::finish() { impl_->finish(); }
void Server::fail(std::exception_ptr error) { impl_->fail(std::move(error)); }

}  // namespace cohort::ps
