#include "cohort/tools/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/command_line.h"
#include "cohort/tools/ledger_command.h"
#include "cohort/tools/resume_command.h"
#include "cohort/tools/run_command.h"
#include "cohort/tools/scale_command.h"
#include "cohort/tools/status_command.h"

namespace cohort::tools {
namespace {

constexpr const char* kCommands = "run status scale resume ledger bench tune doctor completion";
constexpr const char* kTopOptions = "--help --version";
constexpr const char* kDoctorOptions = "--help --json";
constexpr const char* kTuneOptions = "--help --output --ranks";
constexpr const char* kShells = "bash zsh fish";

// The options that `declare` declares, as words.
template <typename Arguments>
std::string options_of(void (*declare)(CLI::App&, Arguments&)) {
  Arguments arguments;
  CLI::App app;
  declare(app, arguments);
  std::string text;
  for (const auto& name : long_option_names(app)) text += (text.empty() ? "--" : " --") + name;
  return text;
}

std::string run_options() { return options_of(declare_run_options); }
std::string status_options() { return options_of(declare_status_options); }
std::string scale_options() { return options_of(declare_scale_options); }
std::string resume_options() { return options_of(declare_resume_options); }
std::string ledger_options() { return options_of(declare_ledger_options); }

// For each option with a few possible words: "      --layout) words="separate colocated" ;;".
std::string choice_cases() {
  RunArguments arguments;
  CLI::App app("", "run");
  declare_run_options(app, arguments);
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    std::string words = option->get_type_name();
    if (words.find('|') == std::string::npos) continue;
    std::replace(words.begin(), words.end(), '|', ' ');
    text += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                        option->get_name(), words);
  }
  return text;
}

// Words behind `--` are the program's own: files and commands complete there.
constexpr const char* kBash = R"bash(_cohort() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} index
  for ((index = 1; index < COMP_CWORD; index++)); do
    if [[ ${{COMP_WORDS[index]}} == -- ]]; then
      COMPREPLY=($(compgen -c -f -- "$word"))
      return
    fi
  done
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{choices}    --config|--hostfile|--host-discovery-script|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  local choices="{commands} {top}" jobs="latest $(command ls cohort-output 2>/dev/null)"
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
      run) choices="{run}" ;;
      status) choices="{status} $jobs" ;;
      scale) choices="{scale} $jobs" ;;
      resume) choices="{resume} $jobs" ;;
      ledger) choices="verify show {ledger} $jobs" ;;
      doctor) choices="{doctor}" ;;
      tune) choices="{tune}" ;;
      completion) choices="{shells}" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -F _cohort cohort
)bash";

std::string bash() {
  return fmt::format(fmt::runtime(kBash), fmt::arg("commands", kCommands),
                     fmt::arg("choices", choice_cases()), fmt::arg("top", kTopOptions),
                     fmt::arg("run", run_options()), fmt::arg("status", status_options()),
                     fmt::arg("scale", scale_options()), fmt::arg("resume", resume_options()),
                     fmt::arg("ledger", ledger_options()), fmt::arg("doctor", kDoctorOptions),
                     fmt::arg("tune", kTuneOptions), fmt::arg("shells", kShells));
}

std::string zsh() { return "autoload -U +X bashcompinit && bashcompinit\n" + bash(); }

std::string fish() {
  std::string text = "complete -c cohort -f\n";
  for (const auto& command : split(kCommands, ' '))
    text += fmt::format("complete -c cohort -n __fish_use_subcommand -a {}\n", command);
  auto add = [&](const std::string& command, const std::string& options) {
    for (const auto& option : split(options, ' '))
      text += fmt::format("complete -c cohort -n '__fish_seen_subcommand_from {}' -l {}\n", command,
                          option.substr(2));
  };
  add("run", run_options());
  add("status", status_options());
  add("scale", scale_options());
  add("resume", resume_options());
  add("ledger", ledger_options());
  add("doctor", kDoctorOptions);
  add("tune", kTuneOptions);
  return text +
         fmt::format("complete -c cohort -n '__fish_seen_subcommand_from completion' -a '{}'\n",
                     kShells);
}

}  // namespace

int completion_command(const std::vector<std::string>& words, const std::vector<std::string>&) {
  constexpr const char* kUsage =
      "Usage: cohort completion bash|zsh|fish\n\n"
      "Prints a completion script. For bash, put this into ~/.bashrc:\n"
      "  eval \"$(cohort completion bash)\"\n";
  if (words.empty())
    throw InvalidInput("no shell named", {.advice = "Try: cohort completion bash (or zsh, fish)"});
  const std::string& shell = words.front();
  if (shell == "--help" || shell == "-h")
    std::cout << kUsage;
  else if (shell == "bash")
    std::cout << bash();
  else if (shell == "zsh")
    std::cout << zsh();
  else if (shell == "fish")
    std::cout << fish();
  else
    throw InvalidInput(fmt::format("no completion for shell '{}'", shell),
                       {.advice = "Name one of: bash, zsh, fish."});
  return 0;
}

}  // namespace cohort::tools
