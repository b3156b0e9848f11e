#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace fathom {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "handlers may only touch lock-free atomics");

void on_interrupt(int signal_number) {
  if (!interrupt_flag.exchange(true)) return;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void on_bus_error(int) {
  constexpr char message[] = "fathom: a mapped file was cut short or cannot be read any more\n";
  // Nothing can be done when this fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, sizeof(message) - 1);
  _exit(EXIT_FAILURE);
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
  install(SIGBUS, on_bus_error);
  install(SIGINT, on_interrupt);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_UNBLOCK, &interrupt, nullptr);  // blocked signals survive exec, and this one is to be heard
}

bool interrupted() { return interrupt_flag.load(); }
bool take_interrupt() { return interrupt_flag.exchange(false); }

}  // namespace fathom
