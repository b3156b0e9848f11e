// Runs the built program as a user's shell would, and gives what it wrote and its exit code.
#pragma once

#include <string>
#include <vector>

namespace fathom {

struct Finished {
  int exit_code = -1;  // 128 + n when signal n ended it
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string input;            // for standard input
  std::string stdout_path;      // a file to write standard output to, instead of Finished::out
  bool close_stdout = false;    // standard output is a pipe that nobody reads
  bool without_stdin = false;   // there is no standard input
  double interrupt_after = -1;  // seconds until SIGINT once something was written; negative: never
  // SIGINT once the program handles it and has had so many seconds of processor time; negative: never.
  double interrupt_after_processor = -1;
  bool interrupt_pending = false;  // SIGINT has come before the program begins, and waits
};

/// Waits for the program to end, however long that takes.
Finished run_fathom(const std::vector<std::string>& arguments, const RunOptions& options = {});

inline Finished run_fathom(const std::vector<std::string>& arguments, const std::string& input) {
  RunOptions options;
  options.input = input;
  return run_fathom(arguments, options);
}

}  // namespace fathom
