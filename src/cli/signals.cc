#include "cli/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>

namespace fathom {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "handlers may only touch lock-free atomics");

void on_interrupt(int signal_number) {
  if (!interrupt_flag.exchange(true)) return;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Reads /proc/self/maps as a handler may: without memory from anywhere, and nothing but system calls.
class MapsReader {
 public:
  MapsReader() : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  bool next(char& c) {
    if (at_ == size_) {
      size_ = file_ < 0 ? 0 : read(file_, block_, sizeof block_);
      at_ = 0;
      if (size_ <= 0) return at_ = size_ = 0, false;
    }
    c = block_[at_++];
    return true;
  }

 private:
  int file_;  // closed by the end of the process
  char block_[1024];
  ssize_t size_ = 0, at_ = 0;
};

// The path of the file that is mapped at `address`, without its control characters; the length.
size_t find_mapped_path(uintptr_t address, char* path, size_t room) {
  MapsReader maps;
  // begin-end permissions offset device inode path
  for (char c = 0; maps.next(c);) {
    uintptr_t bounds[2] = {0, 0};
    for (int which = 0; c != ' ' && c != '\n';) {
      if (c == '-')
        which = 1;
      else
        bounds[which] = bounds[which] * 16 + static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      if (!maps.next(c)) return 0;
    }
    size_t length = 0;
    bool in_space = false;
    for (int fields = 0; c != '\n';) {
      const bool space = c == ' ';
      fields += fields < 5 && in_space && !space;
      in_space = space;
      if (fields == 5 && length < room) path[length++] = c >= 0 && (c < ' ' || c == 127) ? '?' : c;
      if (!maps.next(c)) return 0;
    }
    if (bounds[0] <= address && address < bounds[1]) return length;
  }
  return 0;
}

void write_error(const char* text, size_t length) {
  // Nothing can be done when this fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, length);
}

void on_bus_error(int, siginfo_t* info, void*) {
  static char line[5000] = "fathom: ";
  constexpr char nameless[] = "a mapped file";
  constexpr char what[] = " was cut short or cannot be read any more\n";
  size_t length = strlen(line);
  const size_t room = sizeof line - length - sizeof what;
  const size_t named = find_mapped_path(reinterpret_cast<uintptr_t>(info->si_addr), line + length, room);
  if (named == 0) memcpy(line + length, nameless, sizeof nameless - 1);
  length += named == 0 ? sizeof nameless - 1 : named;
  memcpy(line + length, what, sizeof what - 1);
  write_error(line, length + sizeof what - 1);
  _exit(EXIT_FAILURE);
}

void install_on_bus_error() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigfillset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

std::terminate_handler terminate_otherwise = nullptr;

// Threads that wait for the one that found no memory would wait for ever: nothing is cleaned up.
void on_terminate() {
  constexpr char message[] = "fathom: out of memory\n";
  try {
    if (const std::exception_ptr uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const std::bad_alloc&) {
    write_error(message, sizeof message - 1);
    _exit(EXIT_FAILURE);
  } catch (...) {
  }
  terminate_otherwise();
}

void install(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);  // without SA_RESTART
}

}  // namespace

void install_signal_handlers() {
  install(SIGPIPE, SIG_IGN);
  install_on_bus_error();
  install(SIGINT, on_interrupt);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_UNBLOCK, &interrupt, nullptr);  // blocked signals survive exec, and this one is to be heard
}

void install_terminate_handler() { terminate_otherwise = std::set_terminate(on_terminate); }

bool interrupted() { return interrupt_flag.load(); }
bool take_interrupt() { return interrupt_flag.exchange(false); }

}  // namespace fathom
