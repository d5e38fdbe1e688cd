#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kMostDays = 3650;

constexpr const char* kTokenExamples = R"(
Examples:
  cohort token create ann --role user --days 30
      prints a token, once: COHORT_TOKEN=... on ann's machine
  cohort token list
      who has one, without the tokens themselves
  cohort token rotate 3f9a0c21d7e4
      another secret for the token with this id; the old one opens nothing from then on
  cohort token remove 3f9a0c21d7e4

Roles: viewer reads; user reads and changes their own jobs; admin does everything. On the machine of
the service, its owner needs no token. The exit code is 0 when it was done, 2 when it was refused.
)";

struct TokenArguments {
  std::string what, subject, role = "user";
  int days = 90;
  bool json = false;
};

void require_subject(const TokenArguments& arguments, const char* what, const char* example) {
  if (arguments.subject.empty())
    throw InvalidInput(
        fmt::format("cohort token {} needs {}", arguments.what, what),
        {.advice = fmt::format("As in: cohort token {} {}", arguments.what, example)});
}

void print_new(const sdk::TokenInfo& token) {
  log::info("token {} of {} ({}){}{}: it is shown this once", escape_controls(token.id),
            escape_controls(token.user), escape_controls(token.role),
            token.expires.empty() ? "" : ", until ", token.expires);
  fmt::print("{}\n", escape_controls(token.token));
}

void list_tokens(sdk::ServiceClient& client, bool as_json) {
  const auto tokens = client.tokens();
  if (as_json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& token : tokens)
      list.push_back({{"id", token.id},
                      {"user", token.user},
                      {"role", token.role},
                      {"created", token.created},
                      {"expires", token.expires}});
    fmt::print("{}\n", list.dump(2));
    return;
  }
  if (tokens.empty()) fmt::print("no tokens\n");
  for (const auto& token : tokens)
    fmt::print("{}  {}  {}  made {}{}{}\n", escape_controls(token.id), escape_controls(token.user),
               escape_controls(token.role), token.created, token.expires.empty() ? "" : ", until ",
               token.expires);
}

int manage_tokens(const TokenArguments& arguments) {
  const std::vector<std::string> known = {"create", "list", "remove", "rotate"};
  if (std::find(known.begin(), known.end(), arguments.what) == known.end()) {
    const std::string meant = nearest(arguments.what, known);
    throw InvalidInput(
        arguments.what.empty()
            ? "cohort token needs one of create, list, remove, rotate"
            : fmt::format("cohort token '{}' is not one of {}", arguments.what, join(known, ", ")),
        {.advice = meant.empty() ? "See: cohort token --help"
                                 : fmt::format("Did you mean: cohort token {}?", meant)});
  }
  if (arguments.days < 1 || arguments.days > kMostDays)
    throw InvalidInput(
        fmt::format("--days must be from 1 to {}, got {}", kMostDays, arguments.days));
  if (arguments.what == "create") require_subject(arguments, "a user", "ann --role user");
  if (arguments.what == "remove" || arguments.what == "rotate")
    require_subject(arguments, "the id of a token", "3f9a0c21d7e4");
  sdk::ServiceClient client(sdk::find_or_start_service());
  if (arguments.what == "list") {
    list_tokens(client, arguments.json);
  } else if (arguments.what == "create") {
    print_new(client.add_token(arguments.subject, arguments.role, arguments.days));
  } else if (arguments.what == "rotate") {
    print_new(client.rotate_token(arguments.subject));
  } else {
    client.remove_token(arguments.subject);
    fmt::print("token {} is gone\n", escape_controls(arguments.subject));
  }
  return 0;
}

}  // namespace

Command token_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<TokenArguments>();
    app.description("Makes, lists and removes the tokens that open a shared service.");
    app.footer(kTokenExamples);
    app.add_option("WHAT", arguments->what, "What to do")->type_name("create|list|remove|rotate");
    app.add_option("SUBJECT", arguments->subject, "The user (create), or a token's id");
    app.add_option("--role", arguments->role, "What the user may do [user]")
        ->type_name("viewer|user|admin");
    app.add_option("--days", arguments->days, "Until it expires [90]")->type_name("N");
    app.add_flag("--json", arguments->json, "list: as a JSON array");
    return [arguments](const Words&, const Words& rest) {
      // An id that begins with a dash, as older ones may, stands behind "--".
      if (arguments->subject.empty() && rest.size() == 1) arguments->subject = rest.front();
      return manage_tokens(*arguments);
    };
  };
  return {"token", "make, list and remove tokens of a shared service",
          "create|list|remove|rotate [USER|ID] [options]", declare};
}

}  // namespace cohort::tools
