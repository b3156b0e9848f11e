#include "base/thread_start.h"

#include <system_error>
#include <utility>

namespace fathom {

std::thread start_std_thread(std::function<void()> body) { return std::thread(std::move(body)); }

Result<std::thread> start_thread(const ThreadStarter& starter, int number, int total,
                                 std::function<void()> body) {
  try {
    return starter(std::move(body));
  } catch (const std::system_error& e) {
    return fail(ErrorCode::io, "cannot start thread {} of {}: {}", number, total, e.code().message());
  }
}

}  // namespace fathom
