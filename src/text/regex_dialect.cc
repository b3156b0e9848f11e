#include "text/regex_dialect.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int max_count = 1000;  // bounds the work between two callouts of PreTokenizer

// PCRE2's \s also holds U+180E, which has not been white space since Unicode 6.3.
constexpr std::string_view white_space = R"(\x{9}-\x{d}\x{85}\p{Z})";

constexpr std::array<std::string_view, 37> categories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// One character, or a set of them in PCRE2's notation (fit for the inside of a class).
struct Item {
  std::optional<char32_t> character;
  std::string set;
  bool negated = false;  // outside of classes only
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (!at_end()) FATHOM_TRY(step());
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view construct) const {
    return fail(ErrorCode::unsupported, "{} at byte {} is not supported", construct, at_);
  }
  static std::string literal(char32_t c) { return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c)); }

  Status step() {
    switch (peek()) {
      case '[':
        return read_class();
      case '(':
        return open_group();
      case '*':
      case '+':
      case '?':
        out_ += pattern_[at_++];
        if (peek() == '?' || peek() == '+') out_ += pattern_[at_++];
        return end_quantifier();
      case '{':
        return read_interval();
      case '^':
      case '$':
        return refuse("an anchor (^ or $)");
      case '|':
      case ')':
      case '.':
        out_ += pattern_[at_++];
        return {};
      default:
        break;
    }
    FATHOM_ASSIGN(const Item item, read_item(false));
    if (item.character)
      out_ += literal(*item.character);
    else
      out_ += (item.negated ? "[^" : "[") + item.set + "]";
    return {};
  }

  Status open_group() {
    if (peek(1) != '?') {  // what it captures is of no use here
      out_ += "(?:";
      ++at_;
      return {};
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!"}) {
      if (!looking_at(kind)) continue;
      out_ += kind;
      at_ += kind.size();
      return {};
    }
    return refuse("a group of this kind (?..)");
  }

  // The dialects read a second quantifier differently.
  Status end_quantifier() {
    const char next = peek();
    if (next == '*' || next == '+' || next == '?' || next == '{') return refuse("a stacked quantifier");
    return {};
  }

  std::optional<int> read_count() {
    int count = 0;
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9' && count <= max_count) count = count * 10 + (pattern_[at_++] - '0');
    if (at_ == begin || count > max_count) return std::nullopt;
    return count;
  }

  Status read_interval() {
    const size_t begin = at_++;
    const std::optional<int> low = read_count();
    std::optional<int> high = low;
    const bool is_range = peek() == ',';
    if (is_range) {
      ++at_;
      high = peek() == '}' ? std::optional<int>(max_count) : read_count();
    }
    if (!low || !high || *high < *low || peek() != '}') {
      at_ = begin;
      return refuse(fmt::format("{{ other than {{n}}, {{n,}}, {{n,m}} with counts up to {}", max_count));
    }
    ++at_;
    out_ += pattern_.substr(begin, at_ - begin);
    return end_quantifier();
  }

  Status read_class() {
    const size_t begin = at_++;
    out_ += '[';
    if (peek() == '^') out_ += pattern_[at_++];
    bool is_first = true;
    while (peek() != ']') {
      if (at_end()) {
        at_ = begin;
        return refuse("a class without an end");
      }
      if (peek() == '[') return refuse("a class within a class");
      if (looking_at("&&")) return refuse("an intersection of classes");
      if (peek() == '-' && !is_first && peek(1) != ']')
        return refuse("a - that is neither escaped nor a range");
      FATHOM_TRY(read_class_member());
      is_first = false;
    }
    if (is_first) return refuse("an empty class, or ] as its first character,");
    ++at_;
    out_ += ']';
    return {};
  }

  Status read_class_member() {
    FATHOM_ASSIGN(const Item item, read_item(true));
    if (!item.character) {
      out_ += item.set;
      return {};
    }
    out_ += literal(*item.character);
    if (peek() != '-' || peek(1) == ']' || peek(1) == '\0') return {};
    ++at_;
    if (peek() == '[') return refuse("a class within a class");
    FATHOM_ASSIGN(const Item last, read_item(true));
    if (!last.character || *last.character < *item.character)
      return refuse("a range without order before this");
    out_ += '-' + literal(*last.character);
    return {};
  }

  // A literal character or an escape.
  Result<Item> read_item(bool in_class) {
    if (peek() == '\\') return read_escape(in_class);
    const Utf8Step character = utf8_step(pattern_.substr(at_));
    if (character.kind != Utf8Kind::character) return refuse("text that is not UTF-8");
    at_ += character.size;
    return Item{character.code_point, {}, false};
  }

  Result<Item> read_escape(bool in_class) {
    const char name = peek(1);
    if (is_ascii_punctuation(name)) return simple(static_cast<unsigned char>(name));
    switch (name) {
      case 'n':
        return simple('\n');
      case 'r':
        return simple('\r');
      case 't':
        return simple('\t');
      case 'f':
        return simple('\f');
      case 'v':
        return simple('\v');
      case 's':
        return set(std::string(white_space), false);
      case 'S':
        if (in_class) return refuse("\\S within a class");
        return set(std::string(white_space), true);
      case 'd':
        return set("\\p{Nd}", false);
      case 'D':
        return set("\\P{Nd}", false);
      case 'p':
      case 'P':
        return read_property();
      case 'u':
      case 'x':
        return read_code_point();
      default:
        return refuse("this escape");
    }
  }

  Result<Item> simple(char32_t character) {
    at_ += 2;
    return Item{character, {}, false};
  }
  Result<Item> set(std::string members, bool negated) {
    at_ += 2;
    return Item{std::nullopt, std::move(members), negated};
  }

  Result<Item> read_property() {
    const size_t end = pattern_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) return refuse("a property without {..}");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (std::find(categories.begin(), categories.end(), name) == categories.end())
      return refuse("a property other than a general category");
    at_ = end + 1;
    return Item{std::nullopt, fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name), false};
  }

  // \uHHHH or \x{H..}.
  Result<Item> read_code_point() {
    const bool braces = peek(1) == 'x';
    if (braces && peek(2) != '{') return refuse("\\x without {..}");
    const size_t begin = at_ + (braces ? 3 : 2);
    size_t end = begin;
    char32_t value = 0;
    const size_t limit = begin + (braces ? 6 : 4);
    for (; end < pattern_.size() && end < limit &&
           std::isxdigit(static_cast<unsigned char>(pattern_[end])) != 0;
         ++end) {
      const auto digit = static_cast<unsigned char>(pattern_[end]);
      value = value * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    const bool complete =
        braces ? end > begin && end < pattern_.size() && pattern_[end] == '}' : end == limit;
    if (!complete || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
      return refuse("an escape that names no character");
    at_ = end + (braces ? 1 : 0);
    return Item{value, {}, false};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace fathom
