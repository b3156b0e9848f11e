#include "cli/suggestion.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace fathom {
namespace {

// Spellings of llama.cpp, vLLM and their like that are too far from ours to be slips.
constexpr std::pair<std::string_view, std::string_view> elsewhere[] = {
    {"-m", "--model"},
    {"--ckpt-path", "--model"},
    {"-p", "--prompt"},
    {"-f", "--prompt-file"},
    {"--file", "--prompt-file"},
    {"-n", "--max-tokens"},
    {"--predict", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--max-new-tokens", "--max-tokens"},
    {"-c", "--context"},
    {"--ctx-size", "--context"},
    {"--max-model-len", "--context"},
    {"-t", "--threads"},
    {"-s", "--seed"},
    {"-sys", "--system"},
    {"--system-prompt", "--system"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--reverse-prompt", "--stop"},
    {"--reasoning-effort", "--effort"},
    {"--reasoning", "--thinking"},
    {"-v", "--version"},
    {"-V", "--version"},
    {"version", "--version"},
    {"help", "--help"},
    {"run", "chat"},
    {"complete", "generate"},
    {"detokenize", "tokenize"},
    {"benchmark", "bench"},
    {"info", "inspect"},
    {"show", "inspect"},
};

// Characters to put in, leave out or replace, or neighbours to exchange, until `a` is `b`.
int slips(std::string_view a, std::string_view b) {
  std::vector<int> before, last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = std::exchange(last, now);
  }
  return last.back();
}

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  for (const auto& [theirs, ours] : elsewhere)
    if (word == theirs && std::find(known.begin(), known.end(), ours) != known.end())
      return std::string(ours);
  std::vector<std::string> found;
  // Two letters after the dashes: fewer would say little about what was meant.
  if (word.size() >= (word.starts_with('-') ? 4 : 2))
    for (const std::string& name : known)
      if (name.starts_with(word)) found.push_back(name);
  if (found.size() == 1) return found.front();
  found.clear();
  int least = word.size() >= 8 ? 2 : 1;
  if (word.size() < 4) return {};
  for (const std::string& name : known) {
    const int distance = slips(word, name);
    if (distance < least) found.clear();
    if (distance <= least) {
      found.push_back(name);
      least = distance;
    }
  }
  return found.size() == 1 ? found.front() : std::string();
}

}  // namespace fathom
