// The process's signals, and what else ends it. The one place with state that is not passed as an argument:
// handlers have none.
#pragma once

namespace fathom {

/// Call once, first thing in main. SIGPIPE is ignored (writes report it). SIGBUS, which a mapped file gives
/// that was cut short or cannot be read, ends the process with exit code 1 and a message that names the file.
/// SIGINT sets a flag and interrupts system calls, whether or not the parent had it blocked; a second one
/// before take_interrupt() ends the process.
void install_signal_handlers();

/// std::bad_alloc that nobody catches, as in a thread that computes, ends the process with exit code 1 and a
/// message, instead of a dump of it.
void install_terminate_handler();

/// Whether SIGINT has come since the last take_interrupt().
bool interrupted();

/// The same, and forgets it.
bool take_interrupt();

}  // namespace fathom
