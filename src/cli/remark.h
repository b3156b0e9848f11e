// What a command says beside its output.
#pragma once

#include <string_view>

#include "cli/command.h"

namespace fathom {

/// Writes "fathom: " and one line to standard error, control characters of names in it made safe. A failed
/// write to standard error has nowhere to be reported.
void remark(const Surroundings& surroundings, std::string_view text);

}  // namespace fathom
