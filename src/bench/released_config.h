// The released model's configuration, for operations at its shapes without its checkpoint.
#pragma once

#include "model/config.h"

namespace fathom::bench {

/// Text model only: no draft stages, no vision.
ModelConfig released_config();

}  // namespace fathom::bench
