// A piece of prompt text that says who wrote it: the template, or someone outside.
//
// The border between the two is the whole defence against special tokens smuggled in by a request, so
// it travels with the text from the renderer to the tokenizer.
#pragma once

#include <string>

namespace fathom {

/// Neighbouring segments are one text: merges cross their borders, so that the split changes no token of
/// ordinary text. Only special tokens heed it: one is recognised only where its whole text lies in
/// trusted segments (spec 6, Rendering).
struct TextSegment {
  std::string text;      // UTF-8
  bool trusted = false;  // written by the template: special texts in it are special tokens

  bool operator==(const TextSegment&) const = default;
};

}  // namespace fathom
