#include "cohort/tools/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/command_line.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {
namespace {

constexpr const char* kCommands = "run bench tune doctor completion";
constexpr const char* kTopOptions = "--help --version";
constexpr const char* kDoctorOptions = "--help --json";
constexpr const char* kTuneOptions = "--help --output --ranks";
constexpr const char* kShells = "bash zsh fish";

std::string run_options() {
  RunArguments arguments;
  CLI::App app("", "run");
  declare_run_options(app, arguments);
  std::string text;
  for (const auto& name : long_option_names(app)) text += (text.empty() ? "--" : " --") + name;
  return text;
}

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
constexpr const char* kBash = R"(_cohort() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} index
  for ((index = 1; index < COMP_CWORD; index++)); do
    if [[ ${{COMP_WORDS[index]}} == -- ]]; then
      COMPREPLY=($(compgen -c -f -- "$word"))
      return
    fi
  done
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{choices}    --config|--hostfile|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  local choices="{commands} {top}"
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
      run) choices="{run}" ;;
      doctor) choices="{doctor}" ;;
      tune) choices="{tune}" ;;
      completion) choices="{shells}" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -F _cohort cohort
)";

std::string bash() {
  return fmt::format(fmt::runtime(kBash), fmt::arg("commands", kCommands),
                     fmt::arg("choices", choice_cases()), fmt::arg("top", kTopOptions),
                     fmt::arg("run", run_options()), fmt::arg("doctor", kDoctorOptions),
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
