#include "text/stream_decoder.h"

#include "text/utf8.h"

namespace fathom {

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  held_ += tokenizer_->token_bytes(id);
  std::string text;
  held_.erase(0, append_finished_utf8(text, held_));
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  append_repaired_utf8(text, held_);
  held_.clear();
  return text;
}

}  // namespace fathom
