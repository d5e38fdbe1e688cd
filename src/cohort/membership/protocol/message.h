#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/membership/protocol/view.h"
#include "cohort/membership/protocol/view_change.h"

// What members and their coordinator say to each other. Decoding checks every size before it copies
// and throws ProtocolError. Values; thread-compatible.
namespace cohort::membership {

enum class MessageKind : std::uint8_t {
  // From a member.
  ready = 1,     // it waits to train; `info`, and in `text` what all workers must have alike
  beat = 2,      // it is there; `number` counts them, `stage`, `step`, `rate` say how far it is
  report = 3,    // it is at rest, for proposal `number`, with `stage`; it knows view `base`
  broken = 4,    // the collectives of view `number` failed; `text` says how
  resumed = 5,   // view `number` trains: stood still for `duration`; `step` is the first one made
  finished = 6,  // its training is over, with `stage`
  leaving = 7,   // `text` says why

  // From the coordinator.
  lease = 20,      // answers beat `number`: valid for `duration` from when that beat was sent
  propose = 21,    // come to rest for view `number`; `planned`: at the end of a stage that all end
  install = 22,    // a view is decided: `change`
  evicted = 23,    // not a member any more (`text`); may come again under another id
  dismissed = 24,  // not wanted any more (`text`): the job was made smaller, or is over
  refused = 25,    // cannot take part; `text` is what the others have that this one has otherwise
  over = 26,       // all members have finished
};

struct Message {
  MessageKind kind = MessageKind::beat;
  std::string member;  // the member's id: who sends, or who is meant
  std::uint64_t number = 0;
  std::uint64_t base = 0;
  std::int64_t stage = kNoState;
  std::int64_t step = 0;
  double rate = 0;  // samples a second
  std::chrono::nanoseconds duration{0};
  bool planned = false;  // propose; of `resumed`: whether a step was done again
  std::string text;
  MemberInfo info;  // of `ready`
  // Of `install`. Shared, since a coordinator sends the same one to thousands.
  std::shared_ptr<const ViewChange> change;

  bool operator==(const Message& other) const;
};

inline constexpr std::size_t kMaxMessageText = 1 << 20;
inline constexpr std::size_t kMaxMemberId = 512;
inline constexpr std::size_t kMaxViewMembers = 1 << 20;

std::string encode(const Message& message);
Message decode_message(std::string_view bytes);
std::string_view to_string(MessageKind kind);  // empty: no kind

}  // namespace cohort::membership
