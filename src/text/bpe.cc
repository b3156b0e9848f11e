#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/json_fields.h"

namespace fathom {
namespace {

std::string quote(std::string_view text) { return describe(Json(text)); }

// Bytes that no valid UTF-8 holds need no token.
bool occurs_in_utf8(int byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

struct LeftMerge {
  int32_t left = 0, right = 0, rank = 0, id = 0;
};

Result<LeftMerge> resolve(const TokenizerFile& file, const Vocabulary& vocabulary, size_t rank) {
  const auto& [left, right] = file.merges[rank];
  const std::string merged = left + right;
  std::array<int32_t, 3> ids{};
  const std::array<std::string_view, 3> names = {left, right, merged};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = vocabulary.id_of(names[i]);
    if (!id)
      return fail(ErrorCode::format, "{}: model.merges[{}]: {} + {}: {} is not in the vocabulary", file.what,
                  rank, quote(left), quote(right), quote(names[i]));
    ids[i] = *id;
  }
  if (vocabulary.is_added(ids[2]))
    return fail(ErrorCode::unsupported,
                "{}: model.merges[{}] makes the added token {}, which text must not become", file.what, rank,
                quote(merged));
  return LeftMerge{ids[0], ids[1], static_cast<int32_t>(rank), ids[2]};
}

}  // namespace

Result<Bpe> Bpe::build(const TokenizerFile& file, const Vocabulary& vocabulary) {
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_level_character(static_cast<uint8_t>(byte));
    const auto id = vocabulary.id_of(character);
    if (!id && occurs_in_utf8(byte))
      return fail(ErrorCode::unsupported, "{}: model.vocab has no entry for the byte 0x{:02x} ({})",
                  file.what, byte, quote(character));
    if (id && vocabulary.is_added(*id))
      return fail(ErrorCode::unsupported,
                  "{}: the added token {} is the byte 0x{:02x}, which text must not become", file.what,
                  quote(character), byte);
    bpe.byte_ids_[static_cast<size_t>(byte)] = id.value_or(-1);
  }
  if (file.merges.size() >= std::numeric_limits<int32_t>::max())
    return fail(ErrorCode::unsupported, "{}: model.merges: too many", file.what);
  std::vector<LeftMerge> merges;
  merges.reserve(file.merges.size());
  for (size_t rank = 0; rank < file.merges.size(); ++rank) {
    FATHOM_ASSIGN(const LeftMerge merge, resolve(file, vocabulary, rank));
    merges.push_back(merge);
  }
  std::sort(merges.begin(), merges.end(), [](const LeftMerge& a, const LeftMerge& b) {
    return std::tie(a.left, a.right, a.rank) < std::tie(b.left, b.right, b.rank);
  });
  bpe.first_.resize(static_cast<size_t>(vocabulary.size()) + 1);
  bpe.merges_.reserve(merges.size());
  bpe.results_.resize(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const LeftMerge& merge = merges[i];
    if (i > 0 && merges[i - 1].left == merge.left && merges[i - 1].right == merge.right)
      return fail(ErrorCode::format, "{}: model.merges[{}] is the same as model.merges[{}]", file.what,
                  merge.rank, merges[i - 1].rank);
    ++bpe.first_[static_cast<size_t>(merge.left) + 1];
    bpe.merges_.push_back({merge.right, merge.rank, merge.id});
    bpe.results_[static_cast<size_t>(merge.rank)] = merge.id;
  }
  for (size_t i = 1; i < bpe.first_.size(); ++i) bpe.first_[i] += bpe.first_[i - 1];
  return bpe;
}

const Bpe::Merge* Bpe::find(int32_t left, int32_t right) const {
  const Merge* begin = merges_.data() + first_[static_cast<size_t>(left)];
  const Merge* end = merges_.data() + first_[static_cast<size_t>(left) + 1];
  const Merge* found =
      std::lower_bound(begin, end, right, [](const Merge& m, int32_t r) { return m.right < r; });
  return found != end && found->right == right ? found : nullptr;
}

// Appends the pair that begins at `position` to the heap's storage, if it can be merged.
bool Bpe::offer(Workspace& workspace, int32_t position) const {
  const auto& symbol = workspace.symbols[static_cast<size_t>(position)];
  if (symbol.next < 0) return false;
  const Merge* merge = find(symbol.id, workspace.symbols[static_cast<size_t>(symbol.next)].id);
  if (merge == nullptr) return false;
  workspace.heap.push_back((static_cast<uint64_t>(merge->rank) << 32) | static_cast<uint32_t>(position));
  return true;
}

void Bpe::merge(Workspace& workspace) const {
  auto& symbols = workspace.symbols;
  auto& heap = workspace.heap;
  const auto push = [&](int32_t position) {
    if (offer(workspace, position)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(workspace, static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const uint64_t best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto position = static_cast<int32_t>(best & 0xFFFFFFFF);
    auto& left = symbols[static_cast<size_t>(position)];
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    // Either side may have been merged since. Like the reference library, only the result is compared: a pair
    // that came to stand here and gives the same token is merged in this one's turn.
    const Merge* current = find(left.id, right.id);
    if (current == nullptr || current->id != results_[best >> 32]) continue;
    left.id = current->id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    if (left.previous >= 0) push(left.previous);
    push(position);
  }
}

void Bpe::encode(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const {
  FATHOM_CHECK_LT(piece.size(), std::numeric_limits<int32_t>::max());
  auto& symbols = workspace.symbols;
  symbols.resize(piece.size());
  const auto size = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < size; ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(piece[static_cast<size_t>(i)])];
    FATHOM_CHECK(id >= 0);  // the piece is UTF-8
    symbols[static_cast<size_t>(i)] = {id, i - 1, i + 1 < size ? i + 1 : -1};
  }
  merge(workspace);
  for (const auto& symbol : symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

}  // namespace fathom
