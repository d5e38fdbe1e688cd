#include "cohort/ps/server/message_handler.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/model/model_spec_checks.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

void expect_bytes(std::size_t bytes, std::size_t expected, const char* what) {
  if (bytes != expected)
    throw ProtocolError(fmt::format("{} has {} bytes, but {} came", what, expected, bytes));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

UniqueFd reopen_read_only(int file) {
  UniqueFd copy(::open(fmt::format("/proc/self/fd/{}", file).c_str(), O_RDONLY | O_CLOEXEC));
  if (!copy) throw SystemError("cannot open the model's memory for workers", errno);
  return copy;
}

}  // namespace

MessageHandler::MessageHandler(EventLoop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      replicas_({options_.server, options_.servers, options_.job, options_.memory_limit}) {}

MessageHandler::~MessageHandler() { loop_.cancel(patience_timer_); }

Training& MessageHandler::training() {
  if (training_ == nullptr) throw ProtocolError("there is no model yet");
  return *training_;
}

ModelSetup& MessageHandler::setup() {
  if (setup_ == nullptr) throw ProtocolError("no model was begun: Init comes first");
  return *setup_;
}

Outbox* MessageHandler::outbox(int worker) {
  WorkerSession* session = acceptor_->find(workers_.session_of(worker));
  return session == nullptr || session->is_refused() ? nullptr : &session->outbox();
}

void MessageHandler::refuse(int worker, const std::string& reason, const std::string& advice) {
  WorkerSession* session = acceptor_->find(workers_.session_of(worker));
  if (session == nullptr) return;
  session->refuse(reason, advice);
  leave_session(*session);  // nothing that it holds may keep the others
}

void MessageHandler::has_output(WorkerSession& session) { acceptor_->mark(session); }

std::unique_ptr<ConnectionOwner> MessageHandler::serve_replica(WorkerSession& session,
                                                               const std::string& identity) {
  acceptor_->said_hello(session);
  return replicas_.serve(session.connection(), identity);
}

void MessageHandler::check(WorkerSession& session, const Message& message, std::size_t bulk_bytes) {
  if (!session.hello() && !std::holds_alternative<Hello>(message) &&
      !std::holds_alternative<AskLocalName>(message))
    throw ProtocolError("the first message is not a Hello");
  const int worker = session.hello() ? session.hello()->worker : -1;
  std::visit(
      Overloaded{
          [&](const Push& push) {
            const std::size_t bytes =
                training().push_bytes(worker, push.slice, session.hello()->wire);
            if (bulk_bytes == 0 && session.shares_memory()) return;
            expect_bytes(bulk_bytes, bytes, "a push of this slice");
          },
          [&](const RowsPush& push) { training().check_table(push.table); },
          [&](const RowsPull& pull) {
            const int table = training().check_table(pull.table);
            const auto& spec = training().state().spec().tables[static_cast<std::size_t>(table)];
            const std::size_t keys = bulk_bytes / sizeof(std::uint64_t);
            if (bulk_bytes % sizeof(std::uint64_t) != 0 ||
                keys > kMaxBulkBytes / sizeof(float) / static_cast<std::size_t>(spec.dimension))
              throw ProtocolError(fmt::format("{} bytes of keys", bulk_bytes));
          },
          [&](const SetSlice& set) {
            expect_bytes(bulk_bytes, setup().slice_bytes(set.slice), "the state of this slice");
          },
          [&](const TablePiece&) { setup(); },
          [&](const auto&) { expect_bytes(bulk_bytes, 0, "this message"); },
      },
      message);
}

void MessageHandler::handle(WorkerSession& session, Message message, Payload bulk, UniqueFd file) {
  const int worker = session.hello() ? session.hello()->worker : -1;
  const auto now = EventLoop::Clock::now();
  std::visit(Overloaded{
                 [&](Hello& hello) { on_hello(session, hello, std::move(file)); },
                 [&](Init& init) { on_init(session, init); },
                 [&](SetSlice& set) { setup().set_slice(set, bulk.bytes); },
                 [&](TablePiece& piece) { setup().add_table_piece(piece, text_of(bulk.bytes)); },
                 [&](Commit&) { on_commit(); },
                 [&](StepBegin& begin) { training().begin_step(worker, std::move(begin)); },
                 [&](Push& push) { on_push(session, push, std::move(bulk)); },
                 [&](RowsPush& push) { training().push_rows(worker, push, std::move(bulk), now); },
                 [&](StepEnd& end) { training().end_step(worker, std::move(end)); },
                 [&](Pull& pull) { training().pull(worker, pull); },
                 [&](RowsPull& pull) { training().pull_rows(worker, pull, bulk.bytes); },
                 [&](FreezeRequest& request) {
                   training().snapshots().freeze(worker, request);
                   schedule_patience();
                 },
                 [&](SnapshotRequest& request) { training().snapshots().copy(worker, request); },
                 [&](AskStats& ask) {
                   const std::uint64_t bytes =
                       training_ == nullptr ? 0 : training_->state().segment().bytes();
                   session.outbox().add(Stats{
                       ask.request, stats_.to_json(options_.server, workers_.connected(), bytes)});
                 },
                 [&](Leave&) {
                   if (training_ != nullptr) training_->leave(worker, now);
                   schedule_patience();
                 },
                 [&](AskLocalName&) { session.outbox().add(LocalName{acceptor_->local_name()}); },
                 [&](auto&) { throw ProtocolError("a worker sent what only servers say"); },
             },
             message);
}

void MessageHandler::check_hello(const Hello& hello) const {
  if (hello.version != kProtocolVersion)
    throw ProtocolError(fmt::format("the worker speaks version {} of the protocol, ps/{} {}",
                                    hello.version, options_.server, kProtocolVersion),
                        {.advice = "Run the same build of Cohort on all hosts."});
  if (hello.workers < 1 || hello.workers > kMaxWorkers || hello.worker < 0 ||
      hello.worker >= hello.workers)
    throw InvalidInput(fmt::format("worker/{} of {} workers", hello.worker, hello.workers));
  if (hello.server != options_.server || hello.servers != options_.servers)
    throw InvalidInput(
        fmt::format("worker/{} looks for ps/{} of {}, but this is ps/{} of {}", hello.worker,
                    hello.server, hello.servers, options_.server, options_.servers),
        {.advice = "Give all tasks the same cluster."});
  if (training_ != nullptr && training_->state().spec().workers != hello.workers)
    throw InvalidInput(fmt::format("worker/{} is one of {} workers, but the model is for {}",
                                   hello.worker, hello.workers, training_->state().spec().workers),
                       {.advice = "Give all tasks the same cluster."});
}

void MessageHandler::on_hello(WorkerSession& session, const Hello& hello, UniqueFd region) {
  if (session.hello()) throw ProtocolError("a second Hello");
  check_hello(hello);
  const WorkerSession::Id before = workers_.enter(hello, session.id());
  if (!session.connection().is_unix()) region.reset();
  session.set_hello(hello, std::move(region));
  acceptor_->said_hello(session);
  if (WorkerSession* older = acceptor_->find(before)) {
    if (training_ != nullptr) training_->lost(hello.worker, EventLoop::Clock::now());
    older->refuse(fmt::format("another connection has taken the place of worker/{}", hello.worker),
                  "Start each worker once.");
  }
  if (training_ != nullptr) training_->came(hello.worker);
  schedule_patience();
  if (is_open_ && (has_model() || hello.chief)) welcome(session);
}

void MessageHandler::welcome(WorkerSession& session) {
  if (!has_model()) return session.outbox().add(Welcome{});
  const Hello& hello = *session.hello();
  session.outbox().attach(training_->state(), session.shares_memory(), hello.wire,
                          stats_.bytes_out);
  session.outbox().add(
      Welcome{true, training_->state().spec_text(), training_->finished(hello.worker)}, {},
      session.connection().is_unix() ? segment_file_.get() : -1);
}

void MessageHandler::gone(WorkerSession& session) {
  if (setup_by_ == session.id()) setup_.reset();
  leave_session(session);
}

void MessageHandler::leave_session(WorkerSession& session) {
  if (!workers_.leave(session.hello()->worker, session.id())) return;
  if (training_ != nullptr) training_->lost(session.hello()->worker, EventLoop::Clock::now());
  schedule_patience();
}

void MessageHandler::on_init(WorkerSession& session, const Init& init) {
  if (!session.hello()->chief)
    throw ProtocolError(
        fmt::format("worker/{} is not the chief, but gives a model", session.hello()->worker));
  if (!is_open_) throw ProtocolError("a model came before the server said that it has none");
  if (has_model() || committing_ != nullptr)
    throw InvalidInput(fmt::format("ps/{} has a model already", options_.server));
  setup_.reset();
  setup_ = std::make_unique<ModelSetup>(
      options_.memory_file,
      ServerState::Options{options_.server, options_.servers, options_.memory_limit},
      session.hello()->workers, init);
  setup_by_ = session.id();
}

void MessageHandler::on_commit() {
  committing_ = setup().finish();
  setup_.reset();
  if (log_ == nullptr) return start(std::move(committing_));
  log_->save_snapshot(*committing_, [this] { start(std::move(committing_)); });
}

void MessageHandler::start(std::unique_ptr<ServerState> state) {
  state->mark_initialised();
  segment_file_ = reopen_read_only(state->segment().file());
  training_ = std::make_unique<Training>(std::move(state), log_, options_.server,
                                         options_.worker_timeout, *this, stats_);
  acceptor_->for_each([&](WorkerSession& session) {
    if (!session.hello() || session.is_refused()) return;
    const Hello& hello = *session.hello();
    try {
      check_hello(hello);
    } catch (const Error& error) {
      return session.refuse(error.message(), error.context().advice);
    }
    if (workers_.session_of(hello.worker) != session.id()) return;
    training_->came(hello.worker);
    welcome(session);
  });
  schedule_patience();
}

void MessageHandler::open(std::unique_ptr<ServerState> state, UpdateLog* log) {
  log_ = log;
  is_open_ = true;
  if (state != nullptr) return start(std::move(state));
  acceptor_->for_each([&](WorkerSession& session) {
    if (session.hello() && session.hello()->chief && !session.is_refused()) welcome(session);
  });
}

void MessageHandler::on_push(WorkerSession& session, const Push& push, Payload bulk) {
  const Hello& hello = *session.hello();
  const auto now = EventLoop::Clock::now();
  const std::size_t bytes = training().push_bytes(hello.worker, push.slice, WireType::exact);
  if (bulk.bytes.empty()) {
    const WorkerRegion::View view = session.region()->view(push.region_offset, bytes);
    return training().push(hello.worker, push, {view.bytes, view.mapping}, now);
  }
  if (bulk.bytes.size() != bytes) {
    const ElementType type = training().slice_type(push.slice);
    const auto wide = buffers_.get(bytes);
    from_wire(bulk.bytes.data(), type, hello.wire, bytes / size_of(type), wide.get());
    bulk = {{wide.get(), bytes}, wide};
  }
  training().push(hello.worker, push, std::move(bulk), now);
}

void MessageHandler::schedule_patience() {
  loop_.cancel(std::exchange(patience_timer_, 0));
  if (training_ == nullptr) return;
  const auto when = training_->next_patience();
  if (when == Training::Time::max()) return;
  patience_timer_ = loop_.call_at(when, [this] {
    patience_timer_ = 0;
    training_->run_out_of_patience(EventLoop::Clock::now());
    schedule_patience();
  });
}

}  // namespace cohort::ps
