#include "driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/data/decode.h"

// Read by AddressSanitizer's run time if the program is built with it.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=2048:hard_rss_limit_mb=4096:detect_leaks=0";
}

namespace lockstep::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostInput = size_t{1} << 20;
constexpr auto kMostTime = std::chrono::seconds(30);  // for one input
constexpr rlim_t kMostMemory = rlim_t{3} << 30;       // in addition to the program's memory at its start

// The current input of the child, which the parent examines when the child dies.
struct Shared {
  std::atomic<int64_t> inputs{0};
  std::atomic<int64_t> taken{0};
  std::atomic<size_t> length{0};
  std::array<char, kMostInput> input;
};

struct Settings {
  std::filesystem::path seeds;
  uint64_t seconds = std::getenv("LOCKSTEP_LONG") == nullptr ? 1 : 20;
  uint64_t seed = 1;
  std::vector<std::string> readers;
};

std::vector<std::string> read_seeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (item.is_regular_file()) paths.push_back(item.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    seeds.push_back(read_file(path));
    if (seeds.back().size() > kMostInput / 2) seeds.pop_back();
  }
  if (seeds.empty()) throw std::runtime_error("there is no seed in " + folder.string());
  return seeds;
}

void overwrite(std::string& input, size_t at, uint64_t value, size_t bytes, bool big_endian) {
  for (size_t i = 0; i < bytes && at + i < input.size(); ++i)
    input[at + i] = static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i));
}

// A place that is more often near the beginning, because headers decide most.
size_t draw_place(const std::string& input, Random& random) {
  const size_t within = random.below(2) == 0 ? std::min<size_t>(input.size(), 128) : input.size();
  return random.below(within);
}

void change(std::string& input, const std::vector<std::string>& seeds, Random& random) {
  constexpr std::array<uint64_t, 14> kNumbers{
      0, 1, 2, 7, 8, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffffffffffff};
  constexpr std::string_view kCharacters = "0123456789-+.eE,:;@#\"{}[]\n \t\\";
  if (input.empty()) input = seeds[random.below(seeds.size())];
  if (input.empty()) return input.push_back('x');
  const size_t at = draw_place(input, random);
  const size_t length = 1 + random.below(std::min<size_t>(input.size() - at, 64));
  switch (random.below(9)) {
    case 0:
      input[at] = static_cast<char>(random.next());
      break;
    case 1:
      input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
      break;
    case 2:
      overwrite(input, at, kNumbers[random.below(kNumbers.size())], size_t{1} << random.below(4),
                random.below(2) == 0);
      break;
    case 3:
      overwrite(input, at, random.below(70000), size_t{1} << random.below(3), random.below(2) == 0);
      break;
    case 4:
      input.erase(at, length);
      break;
    case 5:
      input.insert(at, input.substr(at, length));
      break;
    case 6:
      input[at] = kCharacters[random.below(kCharacters.size())];
      break;
    case 7:
      input.resize(at + 1);
      break;
    default: {
      const std::string& other = seeds[random.below(seeds.size())];
      if (other.empty()) break;
      const size_t from = random.below(other.size());
      input.replace(at, length, other.substr(from, length));
    }
  }
}

std::string next_input(const Reader& reader, const std::vector<std::string>& seeds, Random& random) {
  std::string input = seeds[random.below(seeds.size())];
  for (uint64_t left = random.below(6); left > 0; --left) change(input, seeds, random);
  if (reader.repair && random.below(4) != 0) reader.repair(input);
  if (input.size() > kMostInput) input.resize(kMostInput);
  return input;
}

void bound_memory() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMostMemory;
  // AddressSanitizer reserves terabytes, and has its own bounds (above).
  if (bytes < rlim_t{1} << 40) {
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
}

[[noreturn]] void feed(const Reader& reader, const std::vector<std::string>& seeds, const Settings& settings,
                       Shared& shared) {
  bound_memory();
  Random random(settings.seed);
  const auto end = Clock::now() + std::chrono::seconds(settings.seconds);
  while (Clock::now() < end) {
    const std::string input = next_input(reader, seeds, random);
    std::copy(input.begin(), input.end(), shared.input.begin());
    shared.length = input.size();
    ++shared.inputs;
    try {
      reader.read(input);
      ++shared.taken;
    } catch (const data::DecodeError&) {
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal || error.code() == ErrorCode::out_of_memory) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(3);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "an exception that is no Error: %s\n", error.what());
      std::_Exit(3);
    }
  }
  std::_Exit(0);
}

struct End {
  bool well = false;
  int64_t most_memory_mb = 0;  // peak memory of the child
};

// A child that hangs on an input is killed.
End watch(pid_t child, const Shared& shared) {
  int64_t seen = -1;
  auto since = Clock::now();
  while (true) {
    int status = 0;
    rusage usage{};
    if (::wait4(child, &status, WNOHANG, &usage) == child) {
      if (WIFSIGNALED(status)) std::fprintf(stderr, "ended by signal %d\n", WTERMSIG(status));
      return {WIFEXITED(status) && WEXITSTATUS(status) == 0, usage.ru_maxrss / 1024};
    }
    if (shared.inputs != seen) {
      seen = shared.inputs;
      since = Clock::now();
    } else if (Clock::now() - since > kMostTime) {
      std::fprintf(stderr, "an input takes more than 30 s\n");
      ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool fuzz(const Reader& reader, const Settings& settings) {
  const std::vector<std::string> seeds = read_seeds(settings.seeds / reader.name);
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto& shared = *new (memory) Shared;
  const lockstep::test::TemporaryFolder folder;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    std::filesystem::current_path(folder.path());
    feed(reader, seeds, settings, shared);
  }
  const auto [well, most_memory_mb] = watch(child, shared);
  std::printf("%-12s %9lld inputs, %lld taken, %lld MB at most%s\n", reader.name,
              static_cast<long long>(shared.inputs), static_cast<long long>(shared.taken),
              static_cast<long long>(most_memory_mb), well ? "" : ", A FINDING");
  std::fflush(stdout);
  if (!well) {
    const std::string path = std::string(reader.name) + "-finding";
    std::ofstream(path, std::ios::binary)
        .write(shared.input.data(), static_cast<std::streamsize>(shared.length.load()));
    std::printf("%s has the input of %zu bytes (--seed %llu)\n", path.c_str(), shared.length.load(),
                static_cast<unsigned long long>(settings.seed));
  }
  ::munmap(memory, sizeof(Shared));
  return well;
}

Settings settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if ((word == "--seconds" || word == "--seed") && i + 1 < argc) {
      (word == "--seed" ? settings.seed : settings.seconds) = std::stoull(argv[++i]);
    } else if (settings.seeds.empty()) {
      settings.seeds = word;
    } else {
      settings.readers.push_back(word);
    }
  }
  return settings;
}

}  // namespace

int run(int argc, char** argv, std::span<const Reader> readers) {
  const Settings settings = settings_of(argc, argv);
  if (settings.seeds.empty()) {
    std::fprintf(stderr, "usage: %s SEEDS-FOLDER [--seconds N] [--seed N] [READER...]\n", argv[0]);
    return 2;
  }
  bool well = true;
  for (const Reader& reader : readers) {
    const auto& chosen = settings.readers;
    if (chosen.empty() || std::find(chosen.begin(), chosen.end(), reader.name) != chosen.end())
      well &= fuzz(reader, settings);
  }
  return well ? 0 : 1;
}

}  // namespace lockstep::fuzz
