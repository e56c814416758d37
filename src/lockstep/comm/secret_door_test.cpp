// The secret of a launch: what it seals, and how ranks of one user get it from each other.
#include <array>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "lockstep/comm/internal/seal.h"
#include "lockstep/comm/internal/secret_door.h"

namespace lockstep::comm {
namespace {

TEST(Seal, OpensOnlyWithItsSecretAndKey) {
  const Secret secret = secret_of("one"), other = secret_of("another");
  const std::vector<uint8_t> value{1, 2, 3};
  std::vector<uint8_t> sealed = seal(secret, "key", value);
  EXPECT_EQ(unseal(secret, "key", sealed), value);
  EXPECT_EQ(unseal(secret, "key2", sealed), std::nullopt);
  EXPECT_EQ(unseal(other, "key", sealed), std::nullopt);
  EXPECT_NE(seal(secret, "key", value), sealed);
  for (size_t at = 0; at < sealed.size(); ++at) {
    sealed[at] ^= 1;
    EXPECT_EQ(unseal(secret, "key", sealed), std::nullopt) << at;
    sealed[at] ^= 1;
    EXPECT_EQ(unseal(secret, "key", {sealed.begin(), sealed.begin() + static_cast<std::ptrdiff_t>(at)}),
              std::nullopt)
        << at;
  }
}

TEST(SecretDoor, GivesTheSecretToItsUser) {
  const Secret secret = secret_of("one");
  std::string name;
  {
    const SecretDoor door(secret);
    name = door.name();
    EXPECT_TRUE(is_door(name));
    EXPECT_EQ(ask_at_door(name), secret);
    EXPECT_EQ(ask_at_door(name), secret);
  }
  EXPECT_EQ(ask_at_door(name), std::nullopt);
}

TEST(SecretDoor, GivesNothingToAnotherUserAndTakesNothingFromOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user; hint: run it as root";
  const auto as_nobody = [](const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setresuid(65534, 65534, 65534) == 0 && work() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  const Secret secret = secret_of("one");
  const SecretDoor door(secret);
  EXPECT_TRUE(as_nobody([&] { return !ask_at_door(door.name()); }));
  EXPECT_EQ(ask_at_door(door.name()), secret);
  // The other way round: his door, and we ask.
  std::array<int, 2> pipe{}, end{};
  ASSERT_EQ(::pipe(pipe.data()) + ::pipe(end.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const SecretDoor his(secret);
    [[maybe_unused]] ssize_t moved = ::write(pipe[1], his.name().data(), his.name().size());
    char byte = 0;
    moved = ::read(end[0], &byte, 1);
    ::_exit(0);
  }
  std::array<char, 100> name{};
  ASSERT_GT(::read(pipe[0], name.data(), name.size()), 0);
  EXPECT_EQ(ask_at_door(name.data()), std::nullopt);
  ASSERT_EQ(::write(end[1], "x", 1), 1);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace lockstep::comm
