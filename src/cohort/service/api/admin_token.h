#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cohort/service/store/tokens.h"

namespace cohort::service {

// ROOT/admin-token (0600): a token of an admin for clients over TCP.
std::filesystem::path admin_token_file(const RunFolders& folders);
// Makes it, and its token, unless the file holds one that is valid.
void ensure_admin_token(const RunFolders& folders, Tokens& tokens, const std::string& user);
// The file's token; nothing where there is no file or it holds none.
std::optional<TokenRow> admin_token(const RunFolders& folders, const Tokens& tokens);
void write_admin_token(const RunFolders& folders, const std::string& secret);

}  // namespace cohort::service
