// The process's signals. The one place with state that is not passed as an argument: handlers have none.
#pragma once

namespace fathom {

/// Call once, first thing in main. SIGPIPE is ignored (writes report it). SIGBUS, which a mapped file gives
/// that was cut short or cannot be read, ends the process with exit code 1 and a message that names the file.
/// SIGINT sets a flag and interrupts system calls, whether or not the parent had it blocked; a second one
/// before take_interrupt() ends the process.
void install_signal_handlers();

/// Whether SIGINT has come since the last take_interrupt().
bool interrupted();

/// The same, and forgets it.
bool take_interrupt();

}  // namespace fathom
