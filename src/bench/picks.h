// Random choices as an indexer makes them.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom::bench {

/// [rows, k]: for each row k different numbers below `count`, ascending. k <= count.
std::vector<int32_t> random_picks(int64_t rows, int64_t k, int64_t count);

}  // namespace fathom::bench
