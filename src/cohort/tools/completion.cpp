#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"

namespace cohort::tools {
namespace {

constexpr const char* kTopOptions = "--help --version";
constexpr const char* kShells = "bash|zsh|fish";
constexpr const char* kJobName = "JOB";  // a positional argument of this name is a job

// What can follow a command, as its declaration has it.
struct Completed {
  std::string name;
  std::vector<std::string> options;  // with their dashes
  std::vector<std::string> words;    // that a positional argument may be
  bool takes_job = false;
};

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.find('|') == std::string::npos ? std::vector<std::string>() : split(type, '|');
}

bool is_path(const CLI::Option& option) {
  return option.get_type_name() == "FILE" || option.get_type_name() == "DIR";
}

Completed complete(const std::string& name, const CLI::App& app) {
  Completed completed{.name = name};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const auto choices = choices_of(*option);
      completed.words.insert(completed.words.end(), choices.begin(), choices.end());
      completed.takes_job = completed.takes_job || option->get_name() == kJobName;
    } else if (!option->get_group().empty()) {  // not hidden
      for (const auto& long_name : option->get_lnames())
        completed.options.push_back("--" + long_name);
    }
  }
  return completed;
}

// Everything that a script needs, of all commands.
struct Declared {
  explicit Declared(const std::vector<Command>& commands) {
    for (const Command& command : commands) {
      if (command.summary.empty()) continue;
      const DeclaredCommand declared(command);
      all.push_back(complete(command.name, *declared.app));
      for (const CLI::Option* option : declared.app->get_options()) {
        if (option->get_positional()) continue;
        if (const auto choices = choices_of(*option); !choices.empty())
          cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                               option->get_name(), join(choices, " "));
        if (is_path(*option)) paths.push_back(option->get_name());
      }
    }
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  }

  std::vector<Completed> all;
  std::string cases;               // of options with a few possible words, for bash
  std::vector<std::string> paths;  // options that name a file or a folder
};

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
{cases}    {paths}) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  local choices="{names} {top}" jobs="latest $(command ls cohort-output 2>/dev/null)"
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
{commands}    esac
  fi
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -F _cohort cohort
)bash";

std::string bash(const Declared& declared) {
  std::vector<std::string> names;
  std::string commands;
  for (const Completed& command : declared.all) {
    names.push_back(command.name);
    auto words = command.words;
    words.insert(words.end(), command.options.begin(), command.options.end());
    if (command.takes_job) words.push_back("$jobs");
    commands += fmt::format("      {}) choices=\"{}\" ;;\n", command.name, join(words, " "));
  }
  return fmt::format(fmt::runtime(kBash), fmt::arg("names", join(names, " ")),
                     fmt::arg("cases", declared.cases),
                     fmt::arg("paths", join(declared.paths, "|")), fmt::arg("top", kTopOptions),
                     fmt::arg("commands", commands));
}

std::string zsh(const Declared& declared) {
  return "autoload -U +X bashcompinit && bashcompinit\n" + bash(declared);
}

std::string fish(const Declared& declared) {
  std::string text = "complete -c cohort -f\n";
  for (const Completed& command : declared.all)
    text += fmt::format("complete -c cohort -n __fish_use_subcommand -a {}\n", command.name);
  for (const Completed& command : declared.all) {
    const std::string seen =
        fmt::format("complete -c cohort -n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : command.options)
      text += fmt::format("{} -l {}\n", seen, option.substr(2));
    if (!command.words.empty()) text += fmt::format("{} -a '{}'\n", seen, join(command.words, " "));
  }
  return text;
}

int print_script(const std::string& shell, const std::vector<Command>& commands) {
  if (shell.empty())
    throw InvalidInput("no shell named", {.advice = "Try: cohort completion bash (or zsh, fish)"});
  const Declared declared(commands);
  if (shell == "bash")
    std::cout << bash(declared);
  else if (shell == "zsh")
    std::cout << zsh(declared);
  else if (shell == "fish")
    std::cout << fish(declared);
  else
    throw InvalidInput(fmt::format("no completion for shell '{}'", shell),
                       {.advice = "Name one of: bash, zsh, fish."});
  return 0;
}

}  // namespace

Command completion_command(std::function<std::vector<Command>()> all) {
  auto declare = [all = std::move(all)](CLI::App& app) -> Action {
    auto shell = std::make_shared<std::string>();
    app.description("Prints a completion script.");
    app.footer("\nExamples:\n  eval \"$(cohort completion bash)\"\n      in ~/.bashrc\n");
    app.add_option("SHELL", *shell, "The shell that is to complete")->type_name(kShells);
    return [shell, all](const Words&, const Words&) { return print_script(*shell, all()); };
  };
  return {"completion", "print a completion script for bash, zsh or fish", kShells, declare};
}

}  // namespace cohort::tools
