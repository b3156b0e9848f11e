// What someone meant who wrote a command or flag that there is not.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fathom {

/// The one of `known` that `word` stands for: as other engines spell it ("-m", "--n-predict"), as the only
/// one that begins so, or as the only nearest one when no more than a slip of the keys (of two, in a long
/// word) lies between. Empty: none.
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace fathom
