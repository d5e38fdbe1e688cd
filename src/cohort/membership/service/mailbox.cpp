#include "cohort/membership/service/mailbox.h"

#include <fmt/format.h>

#include "cohort/base/error.h"

namespace cohort::membership {
namespace {

constexpr std::string_view kFrom = "from/";
constexpr std::string_view kGone = "gone/";
constexpr std::string_view kWake = "wake";

}  // namespace

MemberMailbox::MemberMailbox(cluster::StoreClient& store, std::string prefix,
                             const MemberInfo& member, Deadline deadline)
    : store_(store),
      prefix_(std::move(prefix)),
      member_(member.id()),
      inbox_(fmt::format("{}/member/{}.{}.", prefix_, member.task, member.incarnation)),
      watch_(store_.watch(inbox_, deadline)) {
  store_.set_on_disconnect(gone_key(member_), member_, deadline);
}

std::string MemberMailbox::gone_key(const std::string& member) const {
  return fmt::format("{}/coordinator/{}{}", prefix_, kGone, member);
}

void MemberMailbox::send(const Message& message, Deadline deadline) {
  store_.post(fmt::format("{}/coordinator/{}{}", prefix_, kFrom, message.member), encode(message),
              deadline);
}

std::optional<Message> MemberMailbox::next(Deadline deadline) {
  while (auto event = watch_.next(deadline)) {
    if (event->kind != cluster::StoreEvent::Kind::set) continue;
    if (std::string_view(event->key).substr(inbox_.size()) == kWake) return std::nullopt;
    return decode_message(event->value);
  }
  return std::nullopt;
}

void MemberMailbox::wake(Deadline deadline) {
  store_.post(inbox_ + std::string(kWake), "", deadline);
}

void MemberMailbox::rename(const MemberInfo& member, Deadline deadline) {
  std::string id = member.id();
  store_.set_on_disconnect(gone_key(id), id, deadline);
  store_.cancel_on_disconnect(gone_key(member_), deadline);
  member_ = std::move(id);
}

void MemberMailbox::say_goodbye(Deadline deadline) {
  store_.cancel_on_disconnect(gone_key(member_), deadline);
}

CoordinatorMailbox::CoordinatorMailbox(cluster::StoreClient& store, std::string prefix,
                                       Deadline deadline)
    : store_(store),
      prefix_(std::move(prefix)),
      inbox_(prefix_ + "/coordinator/"),
      watch_(store_.watch(inbox_, deadline)) {}

void CoordinatorMailbox::send(const std::string& member, const Message& message,
                              Deadline deadline) {
  store_.post(fmt::format("{}/member/{}", prefix_, member), encode(message), deadline);
}

std::optional<CoordinatorMailbox::Mail> CoordinatorMailbox::next(Deadline deadline) {
  while (auto event = watch_.next(deadline)) {
    if (event->kind != cluster::StoreEvent::Kind::set) continue;
    std::string_view rest = std::string_view(event->key).substr(inbox_.size());
    if (rest == kWake) return std::nullopt;
    if (rest.starts_with(kGone)) return Mail{std::string(rest.substr(kGone.size())), std::nullopt};
    if (!rest.starts_with(kFrom)) continue;
    std::string member(rest.substr(kFrom.size()));
    Message message = decode_message(event->value);
    if (message.member != member)
      throw ProtocolError(fmt::format("{} speaks for {}", member, message.member));
    return Mail{std::move(member), std::move(message)};
  }
  return std::nullopt;
}

void CoordinatorMailbox::wake(Deadline deadline) {
  store_.post(inbox_ + std::string(kWake), "", deadline);
}

}  // namespace cohort::membership
