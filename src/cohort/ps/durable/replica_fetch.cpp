#include <deque>
#include <exception>
#include <string>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/ps/durable/replica_link.h"
#include "cohort/ps/durable/replica_messages.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {
namespace {

// One question to the holder, asked again on each new connection until it is answered.
class Fetch final : public ConnectionOwner {
 public:
  Fetch(EventLoop& loop, const ReplicaOptions& options)
      : options_(options),
        holder_(replica_holder_name(options)),
        tls_(replica_tls(options)),
        connector_(loop, replica_connector_options(options, tls_.get()), *this,
                   [this](std::exception_ptr error) { return on_lost(error); }) {
    connector_.connect();
  }

  bool answered() const { return answered_; }
  bool has_copy() const { return welcome_.has_copy; }
  std::uint64_t incarnation() const { return welcome_.incarnation; }
  const std::string& holder() const { return holder_; }
  const std::string& trouble() const { return trouble_; }

  std::optional<std::string> next_piece() {
    if (pieces_.empty()) return std::nullopt;
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    return piece;
  }

 private:
  void opened(const std::string&) override {
    asked_ = welcomed_ = false;
    pieces_.clear();
    connector_.settled();
    connector_.wake();
  }

  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override {
    if (!std::holds_alternative<ReplicaPiece>(decode_replica_message(control)))
      throw ProtocolError("bytes that belong to nothing");
    return reinterpret_cast<std::byte*>(pieces_.emplace_back(bulk_bytes, '\0').data());
  }

  void received(std::string_view control, std::byte*, std::size_t, UniqueFd) override {
    ReplicaMessage message = decode_replica_message(control);
    if (auto* welcome = std::get_if<ReplicaWelcome>(&message)) {
      welcome_ = *welcome;
      welcomed_ = true;
      answered_ = !welcome->has_copy;
    } else if (auto* end = std::get_if<ReplicaImageEnd>(&message)) {
      if (!welcomed_ || end->pieces != pieces_.size())
        throw ProtocolError("a copy that is not whole");
      answered_ = true;
    } else if (auto* refused = std::get_if<ReplicaRefused>(&message)) {
      refused_ = refused->reason;
      throw PeerError(refused->reason);
    } else if (!std::holds_alternative<ReplicaPiece>(message)) {
      throw ProtocolError("a message out of turn");
    }
  }

  bool produce(Outgoing& next) override {
    if (std::exchange(asked_, true)) return false;
    next.control = encode(ReplicaHello{.job = options_.job,
                                       .server = options_.server,
                                       .servers = static_cast<int>(options_.servers.size()),
                                       .fetch = true});
    return true;
  }

  // What it throws ends recover_from_replica().
  bool on_lost(std::exception_ptr why) try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (answered_) return false;
    trouble_ = error.message();
    if (!refused_.empty())
      throw Error(fmt::format("{} refuses to give the copy: {}", holder_, refused_));
    if (dynamic_cast<const AuthError*>(&error) != nullptr) throw AuthError(error.what());
    return true;
  }

  const ReplicaOptions& options_;
  const std::string holder_;
  bool asked_ = false, welcomed_ = false, answered_ = false;
  ReplicaWelcome welcome_;
  std::deque<std::string> pieces_;
  std::string refused_, trouble_;
  std::unique_ptr<TlsContext> tls_;
  ServerConnector connector_;
};

}  // namespace

std::unique_ptr<ServerState> recover_from_replica(EventLoop& loop, ReplicaOptions& options,
                                                  int memory_file, ServerState::Options state,
                                                  Deadline deadline,
                                                  const std::function<bool()>& ends) {
  Fetch fetch(loop, options);
  while (!fetch.answered()) {
    if (ends && ends()) return nullptr;
    if (deadline.expired())
      throw TimeoutError(
          fmt::format("{} does not say whether it has a copy of ps/{}{}{}", fetch.holder(),
                      options.server, fetch.trouble().empty() ? "" : ": ", fetch.trouble()),
          {.advice = "See whether that server runs and can be reached from here."});
    loop.run_once(deadline);
  }
  options.incarnation = fetch.incarnation();
  if (!fetch.has_copy()) return nullptr;
  return state_from_snapshot(memory_file, state, [&] { return fetch.next_piece(); });
}

}  // namespace cohort::ps
