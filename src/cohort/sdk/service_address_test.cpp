#include "cohort/sdk/service_address.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/process.h"
#include "cohort/sdk/small_service_test.h"

namespace cohort::sdk {
namespace {

using testing::HasSubstr;

// Variables of this process, as they were before when it ends.
class Variables {
 public:
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& name : names_) ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST(ServiceAddress, ReadsEveryForm) {
  EXPECT_EQ(parse_service_address("unix:/run/x.sock", "X").socket, "/run/x.sock");
  const auto https = parse_service_address("https://trainer.example.org:8443/", "X");
  EXPECT_EQ(https.to_string(), "https://trainer.example.org:8443");
  EXPECT_TRUE(https.tls);
  EXPECT_EQ(parse_service_address("http://[::1]:80", "X").to_string(), "http://[::1]:80");
}

TEST(ServiceAddress, RefusesWhatIsNoneAndTokensInTheClear) {
  EXPECT_THAT(
      message_of<InvalidInput>([] { parse_service_address("trainer:80", "COHORT_SERVICE"); }),
      HasSubstr("COHORT_SERVICE 'trainer:80' is not an address"));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_service_address("https://x:0", "X"); }),
              HasSubstr("port from 1 to 65535"));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_service_address("http://10.0.0.7:80", "X"); }),
              HasSubstr("Write https://10.0.0.7:80."));
}

TEST(ServiceAddress, TheTokenComesFromAFileOfItsOwner) {
  ScratchFolder folder;
  write_file_atomically(folder / "token", "secret\n", 0600);
  Variables variables;
  variables.set("COHORT_SERVICE", "https://trainer.example.org:8443");
  variables.set("COHORT_TOKEN_FILE", (folder / "token").string());
  EXPECT_EQ(find_service()->token, "secret");
}

TEST(ServiceAddress, FindsTheServiceOfTheRootWhileItsProcessLives) {
  ScratchFolder folder;
  Variables variables;
  variables.set("COHORT_HOME", folder.path().string());
  EXPECT_FALSE(find_service());
  std::optional<SmallService> service(std::in_place,
                                      [](const HttpRequest&) { return json_answer("{}"); });
  std::string socket = service->address().socket;
  const auto record = [&](std::uint64_t start_time) {
    write_file_atomically(folder / "service.json",
                          fmt::format(R"({{"pid":{},"start_time":{},"socket":"{}",)"
                                      R"("listen":null,"version":"0"}})",
                                      ::getpid(), start_time, socket),
                          0600);
  };
  record(process_start_time(::getpid()));
  EXPECT_EQ(find_service()->socket, socket);
  const UniqueFd dead = listen_on(Endpoint::unix_path((folder / "dead.sock").string()));
  ::shutdown(dead.get(), SHUT_RDWR);  // as a killed service leaves it
  socket = (folder / "dead.sock").string();
  record(process_start_time(::getpid()));
  EXPECT_FALSE(find_service());
  socket = service->address().socket;
  record(process_start_time(::getpid()) + 1);  // another process had this number
  EXPECT_FALSE(find_service());
  write_file_atomically(folder / "service.json", "{}", 0600);
  EXPECT_THAT(message_of<InvalidInput>([] { find_service(); }), HasSubstr("not the record"));
}

TEST(ServiceAddress, ARootThatOthersMayWriteToIsRefused) {
  ScratchFolder folder;
  Variables variables;
  variables.set("COHORT_HOME", folder.path().string());
  ::chmod(folder.path().c_str(), 0777);
  EXPECT_THAT(message_of<InvalidInput>([] { find_service(); }), HasSubstr(folder.path().string()));
}

TEST(ServiceAddress, AServiceThatDoesNotStartIsToldWithItsWords) {
  ScratchFolder folder;
  Variables variables;
  variables.set("COHORT_HOME", (folder / "root").string());
  const auto program = folder / "cohort";
  write_file_atomically(program, "#!/bin/sh\necho \"cannot serve: $1 $2\"\nexit 3\n", 0755);
  const std::string said = message_of<Error>([&] { find_or_start_service(program); });
  EXPECT_THAT(said, HasSubstr("ended as soon as it was started: cannot serve: serve --on-demand"));
  EXPECT_THAT(said, HasSubstr("service.log"));
}

}  // namespace
}  // namespace cohort::sdk
