#include "text/vocabulary.h"

#include <algorithm>

#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/json_fields.h"

namespace fathom {
namespace {

std::string quote(std::string_view text) { return describe(Json(text)); }

}  // namespace

// Fills tokens_ and role_. Base entries first; their strings are distinct, being keys of one object.
Status Vocabulary::place(const TokenizerFile& file) {
  const size_t most = file.vocab.size() + file.added.size();  // so a huge id allocates nothing
  std::vector<bool> taken(most);
  const auto check_id = [&](int32_t id, const std::string& token) -> Status {
    if (static_cast<size_t>(id) < most) return {};
    return fail(ErrorCode::format,
                "{}: the id of {} is {}: expected ids without gaps, and there are {} entries", file.what,
                quote(token), id, most);
  };
  tokens_.resize(most);
  role_.resize(most, Role::base);
  size_t size = 0;
  for (const auto& [token, id] : file.vocab) {
    FATHOM_TRY(check_id(id, token));
    const auto slot = static_cast<size_t>(id);
    if (taken[slot])
      return fail(ErrorCode::format, "{}: id {} belongs to both {} and {}", file.what, id,
                  quote(tokens_[slot]), quote(token));
    taken[slot] = true;
    tokens_[slot] = token;
    size = std::max(size, slot + 1);
  }
  for (const AddedTokenEntry& entry : file.added) {
    FATHOM_TRY(check_id(entry.id, entry.content));
    const auto slot = static_cast<size_t>(entry.id);
    if (role_[slot] != Role::base || (taken[slot] && tokens_[slot] != entry.content))
      return fail(ErrorCode::format, "{}: id {} belongs to both {} and the added token {}", file.what,
                  entry.id, quote(tokens_[slot]), quote(entry.content));
    taken[slot] = true;
    tokens_[slot] = entry.content;
    role_[slot] = entry.special ? Role::special : Role::added;
    size = std::max(size, slot + 1);
  }
  const auto gap = std::find(taken.begin(), taken.begin() + static_cast<ptrdiff_t>(size), false);
  if (gap != taken.begin() + static_cast<ptrdiff_t>(size))
    return fail(ErrorCode::format, "{}: id {} has no token: expected ids without gaps up to {}", file.what,
                gap - taken.begin(), size - 1);
  tokens_.resize(size);
  role_.resize(size);
  return {};
}

Result<Vocabulary> Vocabulary::build(const TokenizerFile& file) {
  Vocabulary vocabulary;
  FATHOM_TRY(vocabulary.place(file));
  vocabulary.bytes_.reserve(vocabulary.tokens_.size());
  vocabulary.ids_.reserve(vocabulary.tokens_.size());
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(id);
    vocabulary.bytes_.push_back(byte_level_decode(token));
    if (vocabulary.is_added(id) && vocabulary.bytes_.back() != token)
      return fail(ErrorCode::unsupported,
                  "{}: the added token {} (id {}) is made of characters of the byte map only and would be "
                  "decoded to other text",
                  file.what, quote(token), id);
    if (const auto [other, is_new] = vocabulary.ids_.emplace(token, id); !is_new)
      return fail(ErrorCode::format, "{}: {} has two ids, {} and {}", file.what, quote(token), other->second,
                  id);
  }
  return vocabulary;
}

std::optional<int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace fathom
