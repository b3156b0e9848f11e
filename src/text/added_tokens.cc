#include "text/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "base/json.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace fathom {
namespace {

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

// \w of the reference library's regular expressions (Unicode, UTS 18).
bool is_word_character(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  const uint32_t category = U_GET_GC_MASK(code);
  return (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0;
}

char32_t first_of(std::string_view text) { return utf8_step(text).code_point; }
char32_t last_of(std::string_view text) {
  return first_of(text.substr(previous_character(text, text.size())));
}

// Whether no word character touches text[match] within text[piece].
bool stands_alone(std::string_view text, const TextRange& piece, const TextRange& match) {
  const std::string_view before = text.substr(piece.begin, match.begin - piece.begin);
  const std::string_view after = text.substr(match.end, piece.end - match.end);
  return (before.empty() || !is_word_character(last_of(before))) &&
         (after.empty() || !is_word_character(first_of(after)));
}

size_t strip_left(std::string_view text, size_t limit, size_t begin) {
  while (begin > limit) {
    const size_t previous = previous_character(text, begin);
    if (!is_white_space(first_of(text.substr(previous)))) break;
    begin = previous;
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end, size_t limit) {
  while (end < limit) {
    const Utf8Step step = utf8_step(text.substr(end));
    if (!is_white_space(step.code_point)) break;
    end += step.size;
  }
  return end;
}

TextRange intersection(const TextRange& a, const TextRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

Result<AddedTokens> AddedTokens::build(const TokenizerFile& file) {
  const bool strips = std::any_of(file.added.begin(), file.added.end(),
                                  [](const AddedTokenEntry& entry) { return entry.lstrip || entry.rstrip; });
  std::vector<AddedTokenEntry> raw, normalized;
  for (const AddedTokenEntry& entry : file.added) {
    if (strips && (is_white_space(first_of(entry.content)) || is_white_space(last_of(entry.content))))
      return fail(
          ErrorCode::unsupported,
          "{}: the added token {} begins or ends with white space, which another one strips (lstrip, rstrip)",
          file.what, describe(Json(entry.content)));
    (entry.normalized ? normalized : raw).push_back(entry);
  }
  return AddedTokens(Round(std::move(raw)), Round(std::move(normalized)));
}

AddedTokens::Round::Round(std::vector<AddedTokenEntry> entries) {
  nodes_.emplace_back();
  parent_.emplace_back(0, 0);
  for (const AddedTokenEntry& entry : entries) {
    insert(entry.content, static_cast<int32_t>(tokens_.size()));
    tokens_.push_back({entry.id, entry.content.size(), entry.single_word, entry.lstrip, entry.rstrip});
  }
  link();
}

void AddedTokens::Round::insert(const std::string& content, int32_t token) {
  int32_t node = 0;
  for (auto byte = content.rbegin(); byte != content.rend(); ++byte) {
    const auto value = static_cast<uint8_t>(*byte);
    int32_t& edge = node == 0 ? roots_[value] : edges_[(static_cast<uint64_t>(node) << 8) | value];
    if (edge == 0) {
      edge = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      parent_.emplace_back(node, value);
    }
    node = edge;
  }
  nodes_[static_cast<size_t>(node)].token = token;
}

int32_t AddedTokens::Round::follow(int32_t node, uint8_t byte) const {
  for (; node != 0; node = nodes_[static_cast<size_t>(node)].fallback) {
    const auto edge = edges_.find((static_cast<uint64_t>(node) << 8) | byte);
    if (edge != edges_.end()) return edge->second;
  }
  return roots_[byte];
}

// Fallbacks point to shallower nodes, so nodes are visited by depth.
void AddedTokens::Round::link() {
  std::vector<int32_t> depth(nodes_.size());
  std::vector<int32_t> order(nodes_.size());
  for (size_t i = 1; i < nodes_.size(); ++i) {  // a parent has a lower index
    depth[i] = depth[static_cast<size_t>(parent_[i].first)] + 1;
    order[i] = static_cast<int32_t>(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return depth[static_cast<size_t>(a)] < depth[static_cast<size_t>(b)];
  });
  for (const int32_t index : order) {
    if (index == 0) continue;
    Node& node = nodes_[static_cast<size_t>(index)];
    const auto [parent, byte] = parent_[static_cast<size_t>(index)];
    node.fallback = parent == 0 ? 0 : follow(nodes_[static_cast<size_t>(parent)].fallback, byte);
    if (node.token < 0) node.token = nodes_[static_cast<size_t>(node.fallback)].token;
  }
}

void AddedTokens::Round::find_all(std::string_view text, const TextRange& range,
                                  std::vector<Match>& matches) const {
  int32_t node = 0;
  for (size_t at = range.end; at-- > range.begin;) {
    node = follow(node, static_cast<uint8_t>(text[at]));
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) matches.push_back({at, &tokens_[static_cast<size_t>(token)]});
  }
}

void AddedTokens::Round::split(std::string_view text, const TextRange& piece,
                               std::span<const TextRange> trusted, std::vector<TextSpan>& spans) const {
  std::vector<Match> matches;
  for (auto range = trusted.rbegin(); range != trusted.rend(); ++range)
    if (const TextRange here = intersection(*range, piece); here.begin < here.end)
      find_all(text, here, matches);
  size_t done = piece.begin;     // spans reach to here
  size_t matched = piece.begin;  // contents of tokens reach to here
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->begin < matched) continue;
    const Token& token = *match->token;
    TextRange range = {match->begin, match->begin + token.size};
    matched = range.end;
    if (token.single_word && !stands_alone(text, piece, range)) continue;
    if (token.lstrip) range.begin = strip_left(text, done, range.begin);
    if (token.rstrip) range.end = strip_right(text, range.end, piece.end);
    if (done < range.begin) spans.push_back({{done, range.begin}, -1});
    spans.push_back({range, token.id});
    done = range.end;
  }
  if (done < piece.end) spans.push_back({{done, piece.end}, -1});
}

std::vector<TextSpan> AddedTokens::split(std::string_view text, std::span<const TextRange> trusted) const {
  std::vector<TextSpan> first;
  raw_.split(text, {0, text.size()}, trusted, first);
  std::vector<TextSpan> spans;
  size_t next = 0;  // ranges before this one end before the span at hand
  for (const TextSpan& span : first) {
    if (span.id >= 0) {
      spans.push_back(span);
      continue;
    }
    while (next < trusted.size() && trusted[next].end <= span.range.begin) ++next;
    size_t last = next;
    while (last < trusted.size() && trusted[last].begin < span.range.end) ++last;
    normalized_.split(text, span.range, trusted.subspan(next, last - next), spans);
    // A range may reach into the next span.
    next = last > next ? last - 1 : next;
  }
  return spans;
}

}  // namespace fathom
