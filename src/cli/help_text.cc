#include "cli/help_text.h"

#include <algorithm>
#include <utility>

namespace fathom {
namespace {

// Of UTF-8 text, near enough: a code point is a character.
int width(std::string_view text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(int columns) : columns_(columns) {
    column_width(30);
    label("INT", "N");
    label("FLOAT", "X");
    label("REQUIRED", "(required)");
    label("SUBCOMMAND", "COMMAND");
    label("OPTIONS", "options");
  }

  // The library leaves two empty lines between groups, and one at the end.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at = 0; (at = help.find("\n\n\n", at)) != std::string::npos;) help.erase(at, 1);
    while (help.ends_with("\n\n")) help.pop_back();
    return help;
  }

  // One command is always required: the usage line says so.
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), columns_) + "\n";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " (default " + option->get_default_str() + ")";
    return entry(make_option_name(option, is_positional) + make_option_opts(option), text);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return {};
    // The rest of a type's name are the checks, which say themselves what they expect when it is not there.
    const std::string type = option->get_type_name();
    std::string out = get_label(type.substr(0, type.find(':')));
    if (!out.empty()) out = " " + out;
    if (option->get_required()) out += " " + get_label("REQUIRED");
    return out;
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_display_name(true), command->get_description());
  }

  // Lines that begin with a space are examples and stay as they are; other lines are paragraphs.
  std::string make_footer(const CLI::App* app) const override {
    std::string out;
    const std::string footer = app->get_footer();
    for (std::string_view rest = footer; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      out += (line.starts_with(' ') ? std::string(line) : wrapped(line, columns_)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return out;
  }

 private:
  std::string entry(const std::string& name, const std::string& text) const {
    const int left = static_cast<int>(get_column_width());
    std::string out = "  " + name;
    if (text.empty()) return out + "\n";
    if (width(out) + 2 > left) out += "\n";
    const int at = out.ends_with('\n') ? 0 : width(out);
    out.append(static_cast<size_t>(left - at), ' ');
    return out + wrapped(text, columns_, left, left) + "\n";
  }

  int columns_;
};

}  // namespace

std::string wrapped(std::string_view text, int columns, int indent, int at) {
  std::string out;
  bool first_word = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!first_word && at + 1 + width(word) > columns) {
      out += '\n';
      out.append(static_cast<size_t>(indent), ' ');
      at = indent;
    } else if (!first_word) {
      out += ' ';
      ++at;
    }
    out += word;
    at += width(word);
    first_word = false;
  }
  return out;
}

std::shared_ptr<CLI::Formatter> help_formatter(int columns) {
  return std::make_shared<HelpFormatter>(columns);
}

}  // namespace fathom
