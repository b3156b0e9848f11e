// The rules between configuration values (spec 2, "Refuse, before any weight is read").
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/config.h"
#include "model/config_keys.h"

namespace fathom {

/// Caps that keep a hostile configuration from making later code allocate wildly. The single values have
/// ranges of their own (config.cc).
constexpr int64_t max_total_experts = 1 << 17;  // over all layers; the released model has 15,744

/// Checks a configuration whose single values are in range. `what` and `keys` name things in messages.
/// Errors: invalid_argument.
Status check_config(const ModelConfig& config, const ConfigKeys& keys, std::string_view what);

}  // namespace fathom
