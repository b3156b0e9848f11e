#include "cli/remark.h"

#include <fmt/format.h>

namespace fathom {

void remark(const Surroundings& surroundings, std::string_view text) {
  const std::string line = without_controls(fmt::format("fathom: {}\n", text));
  if (surroundings.err.write(line)) (void)surroundings.err.flush();
}

}  // namespace fathom
