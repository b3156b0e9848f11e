// A part of a text, by byte offsets.
#pragma once

#include <cstddef>

namespace fathom {

struct TextRange {
  size_t begin = 0, end = 0;
};

}  // namespace fathom
