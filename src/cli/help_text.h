// How --help looks: lines that fit the terminal, and no more of a flag's type than its user needs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace fathom {

/// `text` in lines of at most `columns` characters; a longer word has a line of its own. A line that follows
/// another one begins with `indent` spaces, which count; the first line begins at column `at`.
std::string wrapped(std::string_view text, int columns, int indent = 0, int at = 0);

/// `columns`: of the terminal.
std::shared_ptr<CLI::Formatter> help_formatter(int columns);

}  // namespace fathom
