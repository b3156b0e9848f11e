// From the regular expressions of tokenizer.json (Oniguruma, Ruby syntax) to PCRE2's.
//
// The two differ in corners: what \s, \w and \h hold, nested classes, stacked and possessive quantifiers,
// what ^ and $ mean. Only constructs that mean the same, or can be written so that they do, are let through.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

/// Supported: literals, `.`, classes of characters, ranges and escapes, \s \S (not within a class) \d \D
/// \p{general category} \P{..}, \n \r \t \f \v \uHHHH \x{H..}, alternation, (..) (?:..) (?=..) (?!..), the
/// quantifiers ? * + (also with ? or + behind) and {n}, {n,}, {n,m} with counts up to 1000.
/// Errors: unsupported, naming the construct and its byte offset. Unbalanced brackets are PCRE2's to find.
Result<std::string> translate_regex(std::string_view pattern);

}  // namespace fathom
