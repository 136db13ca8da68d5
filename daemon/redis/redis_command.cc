#include "daemon/redis/redis_command.h"

#include <hiredis/hiredis.h>

#include <memory>
#include <new>
#include <vector>

namespace pulsewheel {
namespace {

// "$", a length of up to 20 digits, and two line ends; also more than the line of the count.
constexpr std::size_t kFramingBytesMax = 32;

struct FreeCommand {
  void operator()(char* command) const noexcept { redisFreeCommand(command); }
};

}  // namespace

void append_command(std::string& out, RedisArgs args) {
  std::vector<const char*> words;
  std::vector<std::size_t> sizes;
  words.reserve(args.size());
  sizes.reserve(args.size());
  for (const std::string_view arg : args) {
    words.push_back(arg.empty() ? "" : arg.data());
    sizes.push_back(arg.size());
  }
  char* command = nullptr;
  const auto size =
      redisFormatCommandArgv(&command, static_cast<int>(args.size()), words.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, FreeCommand> owner(command);
  out.append(command, static_cast<std::size_t>(size));
}

std::size_t command_bytes_max(RedisArgs args) noexcept {
  std::size_t bytes = kFramingBytesMax;
  for (const std::string_view arg : args)
    bytes += arg.size() + kFramingBytesMax;
  return bytes;
}

}  // namespace pulsewheel
