#include "text/argument_writer.h"

#include "base/json.h"
#include "text/python_json.h"

namespace fathom {

bool ArgumentWriter::open(std::string_view key, ParameterKind kind, std::string& out) {
  if (!keys_.emplace(key).second) return false;
  out += keys_.size() == 1 ? "{" : ", ";
  append_json_string(out, key);
  out += ": ";
  is_text_ = kind == ParameterKind::text;
  held_.clear();
  if (is_text_)
    out += '"';
  else
    scanner_.emplace(JsonLimits{}.max_depth - 1);  // the arguments around it are a level of their own
  return true;
}

void ArgumentWriter::become_text(std::string& out) {
  is_text_ = true;
  repaired_ = true;
  out += '"';
  append_json_escaped(out, held_);
  held_.clear();
}

size_t ArgumentWriter::value(std::string_view text, std::string& out) {
  if (is_text_) {
    append_json_escaped(out, text);
    return text.size();
  }
  const bool was_scalar = scanner_->is_scalar();
  const size_t taken = scanner_->take(text);
  if (was_scalar && scanner_->is_scalar()) {
    held_ += text.substr(0, taken);
    if (taken == text.size()) return taken;
    become_text(out);
    append_json_escaped(out, text.substr(taken));
    return text.size();
  }
  out += held_;
  held_.clear();
  out += text.substr(0, taken);
  return taken;
}

bool ArgumentWriter::close(std::string& out) {
  if (!is_text_) {
    if (scanner_->is_whole()) {
      out += held_;
      held_.clear();
      return true;
    }
    if (!scanner_->is_scalar()) return false;
    become_text(out);
  }
  out += '"';
  return true;
}

void ArgumentWriter::end(std::string& out) { out += keys_.empty() ? "{}" : "}"; }

void ArgumentWriter::abandon(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace fathom
