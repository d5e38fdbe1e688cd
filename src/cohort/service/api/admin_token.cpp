#include "cohort/service/api/admin_token.h"

#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostTokenFile = 1024;
constexpr mode_t kTokenMode = 0600;

}  // namespace

fs::path admin_token_file(const RunFolders& folders) { return folders.root / "admin-token"; }

std::optional<TokenRow> admin_token(const RunFolders& folders, const Tokens& tokens) {
  const fs::path path = admin_token_file(folders);
  if (!fs::exists(path)) return std::nullopt;
  return tokens.find(trim(read_own_file(path, kMostTokenFile)));
}

void write_admin_token(const RunFolders& folders, const std::string& secret) {
  write_file_atomically(admin_token_file(folders), secret + "\n", kTokenMode);
}

void ensure_admin_token(const RunFolders& folders, Tokens& tokens, const std::string& user) {
  if (admin_token(folders, tokens)) return;
  write_admin_token(folders, tokens.create(user, UserRole::admin, 0).secret);
}

}  // namespace cohort::service
