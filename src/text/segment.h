// A piece of a prompt and whether its author may use special text (spec 6, "Rendering").
//
// The chat renderer yields segments, the tokenizer reads them; neither knows the other.
#pragma once

#include <string>

namespace fathom {

struct TextSegment {
  std::string text;      // UTF-8
  bool trusted = false;  // true: text of added tokens in it becomes those tokens; false: it stays text
};

}  // namespace fathom
