#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"
#include "cohort/ps/durable/replica_holder.h"
#include "cohort/ps/server/model_setup.h"
#include "cohort/ps/server/server_stats.h"
#include "cohort/ps/server/session_acceptor.h"
#include "cohort/ps/server/training.h"
#include "cohort/ps/server/worker_registry.h"
#include "cohort/ps/server/worker_session.h"

namespace cohort::ps {

// What a server does with the messages of its sessions: which process is which worker, the chief's
// model, and from then on the training. Before open() no worker is answered.
//
// Threads: confined to the server's loop. What it is given must outlive it.
class MessageHandler : public SessionHost, public TrainingPeers {
 public:
  struct Options {
    int server = 0;
    int servers = 1;
    std::string job;
    std::uint64_t memory_limit = 0;
    std::chrono::milliseconds worker_timeout = std::chrono::minutes(1);
    int memory_file = -1;  // where the model goes
  };
  MessageHandler(EventLoop& loop, Options options);
  ~MessageHandler() override;

  void set_acceptor(SessionAcceptor& acceptor) { acceptor_ = &acceptor; }
  // Recovery is over. `state`: what it found. `log`: where updates go; null: nowhere.
  void open(std::unique_ptr<ServerState> state, UpdateLog* log);
  bool has_model() const { return training_ != nullptr; }

  // For SessionAcceptor.
  void gone(WorkerSession& session);

 private:
  void check(WorkerSession& session, const Message& message, std::size_t bulk_bytes) override;
  void handle(WorkerSession& session, Message message, Payload bulk, UniqueFd file) override;
  void has_output(WorkerSession& session) override;
  std::unique_ptr<ConnectionOwner> serve_replica(WorkerSession& session,
                                                 const std::string& identity) override;
  Outbox* outbox(int worker) override;
  void refuse(int worker, const std::string& reason, const std::string& advice) override;

  void on_hello(WorkerSession& session, const Hello& hello, UniqueFd region);
  void check_hello(const Hello& hello) const;
  void leave_session(WorkerSession& session);  // the worker has none now
  void welcome(WorkerSession& session);
  void on_init(WorkerSession& session, const Init& init);
  void on_commit();
  void start(std::unique_ptr<ServerState> state);
  void on_push(WorkerSession& session, const Push& push, Payload bulk);
  Training& training();
  ModelSetup& setup();
  void schedule_patience();

  EventLoop& loop_;
  Options options_;
  SessionAcceptor* acceptor_ = nullptr;
  UpdateLog* log_ = nullptr;
  bool is_open_ = false;
  ReplicaHolder replicas_;
  ReceiveBuffers buffers_;  // gradients that came in 16 bits, widened
  ServerStats stats_;
  WorkerRegistry workers_;
  std::unique_ptr<ModelSetup> setup_;
  WorkerSession::Id setup_by_ = 0;
  std::unique_ptr<ServerState> committing_;  // whole, and not durable yet
  UniqueFd segment_file_;                    // read-only, for workers of this host
  std::unique_ptr<Training> training_;
  EventLoop::TimerId patience_timer_ = 0;
};

}  // namespace cohort::ps
