// How much memory a piece of code takes at most.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace fathom::testing {

/// A value of /proc/self/status in bytes: "VmHWM", the most that was resident.
inline int64_t process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == key + ":" && status >> kilobytes) return kilobytes << 10;
  }
  throw std::runtime_error("no " + key + " in /proc/self/status");
}

/// The most that the resident set grew by while `body` ran, in bytes.
template <class Body>
int64_t memory_growth(const Body& body) {
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // the high-water mark starts again
  const int64_t before = process_memory("VmHWM");
  body();
  return process_memory("VmHWM") - before;
}

}  // namespace fathom::testing
